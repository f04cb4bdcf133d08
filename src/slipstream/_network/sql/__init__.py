"""Expressions in boxes: which are computed by NumPy where the tuples are, and which by Spark on the way."""
