"""Streamonas-SQL: parsing, compiling, and evaluating it on the columns of a cuboid."""
