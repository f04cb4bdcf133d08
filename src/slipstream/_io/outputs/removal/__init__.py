"""Removal of rows from the outputs of a job: what is older than the job keeps, and all of one vehicle."""
