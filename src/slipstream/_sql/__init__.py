"""SQL from users: parsing, and checks against the list of functions it may call."""
