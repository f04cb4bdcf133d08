"""What runs in Spark's tasks: intake, the stages of the toll engine, names of vehicles."""
