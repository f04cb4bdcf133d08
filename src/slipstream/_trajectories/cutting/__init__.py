"""Positions cut into trips and rejects: the rules, their kernel, the Spark plan, the table function."""
