"""What Spark's tasks run: reading tuples, the boxes of a stage, and writing to the next stage or to outputs."""
