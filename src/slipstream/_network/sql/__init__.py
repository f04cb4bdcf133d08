"""Expressions in boxes: computed by NumPy where the tuples are, or by Spark between stages."""
