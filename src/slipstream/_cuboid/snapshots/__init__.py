"""Cuboids that others can read while the stream runs: written by tasks, opened by any process."""
