"""Processes and threads that end with what started them, and points at which tests make them fail."""
