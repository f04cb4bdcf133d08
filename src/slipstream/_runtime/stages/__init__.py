"""Stages in Spark's stateful operators, and a host that runs them in memory."""
