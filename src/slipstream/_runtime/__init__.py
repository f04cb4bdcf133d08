"""The runtime of every stream job: its folder and life cycle (``job``), ``stages``, their ``state``, ``watching`` it.

Knows nothing of roads, boxes or queries.
"""
