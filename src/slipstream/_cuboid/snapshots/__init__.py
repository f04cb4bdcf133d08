"""Snapshots: cuboids that other processes can read while the stream runs."""
