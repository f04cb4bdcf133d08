"""The Live city page: traffic at any second, vehicles, notices, and the health of the engine."""
