"""The HTTP interface of each page."""
