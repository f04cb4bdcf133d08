"""Streaming BerlinMOD: nine queries on positions of vehicles, each continuous, windowed, and as snapshots.

``position_events`` reads the positions, ``query_parameters`` derives what the queries ask for, ``cells`` has the 27
networks, and ``cell_runs`` measures them. ``batch_evaluation`` answers the snapshots again, in plain batch operations.
"""
