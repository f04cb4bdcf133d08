"""From any table of positions to trajectories, in one pass over shuffled data.

``trip_rules`` says what is cut and what is rejected, ``judging`` is its compiled kernel, ``assembling`` turns sorted
Arrow batches into rows of trips and rejects, ``mapping`` reads the columns of any table, ``inputs`` the layouts of
files. ``building`` is the Spark plan, ``table_function`` the same in SQL, and ``data`` the folder in which they rest.
``trip_maps`` and ``exchange`` show them and write them for others. The package stands on ``_moving`` and on the
definition of a trip in ``_feeds``.
"""
