"""The Network editor page: files, drafts, and the network that runs."""
