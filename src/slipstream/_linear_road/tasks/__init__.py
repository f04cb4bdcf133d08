"""What Spark's tasks run: intake, the stages of the toll engine, names of vehicles."""
