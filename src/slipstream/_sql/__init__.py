"""SQL from users: parsed, and checked against the list of functions it may call."""
