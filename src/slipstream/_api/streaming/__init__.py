"""Streams as values, the jobs that write them, and their results."""
