"""Linear Road's continuous and historical queries, on cuboids, as one Structured Streaming query.

Data flow: trains -> ``state.toll_fragment`` (cars and segments of some expressways) -> ``state.accounts`` (balances of
some vehicles, and the historical queries) -> ``job.delivery`` (files and their commit). The state does not depend on
Spark; ``job.query`` runs it in Spark's stateful operators.
"""
