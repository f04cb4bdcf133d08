"""Linear Road's continuous and historical queries, on cuboids, as one Structured Streaming query.

Data goes: trains -> ``fragment`` (cars and segments of some expressways) -> ``accounts`` (balances of some vehicles,
and the historical queries) -> ``delivery`` (files and their commit). ``fragment`` and ``accounts`` know nothing of
Spark; ``query`` puts them into Spark's stateful operators.
"""
