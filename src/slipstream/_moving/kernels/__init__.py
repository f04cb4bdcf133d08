"""Compiled kernels on whole columns of moving points and values over time, by subject."""
