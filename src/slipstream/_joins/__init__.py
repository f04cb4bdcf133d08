"""Joins of tables of trajectories in space and time: who was near whom, where, and for how long.

These words have one meaning everywhere:

near      Two objects are near each other while their distance is at most a limit. The distance is that of their exact
          movements, at every instant at which both are defined.
meeting   A longest time without a break during which two objects are near each other; with a ``duration``, only if it
          lasts that long. A time that touches another is part of it.
convoy    At least ``size`` objects that stay connected for at least ``duration`` without a break: at every instant, one
          reaches every other in steps between objects that are near each other, some of which may be outside of the
          convoy. It is as large and as long as it can be.
passes    An object passes a zone while it is in it, including the border, or within a distance of a place.

An object is everything with one id: its trips are one movement. No object is near itself.

``pieces`` cuts trips into short pieces, ``grid`` assigns them to cells of a space-time grid, ``candidates`` finds pairs
of pieces within a cell, each pair once in the whole grid, ``approaches`` decides exactly. ``meetings``, ``zones`` and
``convoys`` are the plans for Spark: exchanges by cell and by pair, never of all with all.
"""
