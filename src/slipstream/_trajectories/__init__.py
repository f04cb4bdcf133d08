"""From any table of positions to trajectories, in one pass over shuffled data.

``reading`` has the columns of any table and the layouts of files. ``cutting`` makes trips and rejects of positions:
rules and their compiled kernel, the Spark plan, and the same as a table function. ``data`` is the folder in which they
rest;
``trip_maps`` and ``exchange`` show them and write them for others. The package stands on ``_moving`` and on the
definition of a trip in ``_feeds``.
"""
