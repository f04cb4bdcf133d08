"""The Network editor page: files, drafts, and the running network."""
