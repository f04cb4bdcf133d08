"""The toll and archive jobs: from an input to a folder of committed outputs."""
