"""The runtime of every stream job: its folder and life cycle, stages in stateful operators, cached state, metrics.

Knows nothing of roads, boxes or queries.
"""
