"""What Spark's tasks run: tuples in, the boxes of a stage, tuples on to the next stage or to an output."""
