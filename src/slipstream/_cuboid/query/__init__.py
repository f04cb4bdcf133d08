"""Streamonas-SQL: parsed, compiled, and evaluated on the columns of a cuboid."""
