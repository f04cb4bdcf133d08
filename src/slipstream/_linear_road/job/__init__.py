"""The toll and archive job: from an input to a folder of committed outputs."""
