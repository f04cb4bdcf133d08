"""The Ask page: read-only queries of what jobs have committed."""
