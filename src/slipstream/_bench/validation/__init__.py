"""The validator: computes what a correct engine answers, and compares an engine's answers with it."""
