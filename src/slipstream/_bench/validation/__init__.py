"""The validator: what a correct engine answers, and how an engine's answers compare."""
