"""The state of boxes: groups, waiting tuples, and tables that track changes."""
