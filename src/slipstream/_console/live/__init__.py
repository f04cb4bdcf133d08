"""The Live city page: traffic at any second, vehicles, notifications, and the health of the engine."""
