"""Streaming BerlinMOD: nine queries on positions of vehicles, each continuous, windowed, and as snapshots.

``events`` reads the positions, ``parameters`` derives the queries' parameters from them, ``cells`` has the 27 networks,
``running`` measures them, and ``evaluation`` answers the snapshots again, in plain batch operations, to compare.
"""
