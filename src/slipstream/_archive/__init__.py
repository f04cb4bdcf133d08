"""The archive: stores streams of points as trajectories.

``_feeds.trip`` defines a trip; ``linear_road_trips`` applies the definition to Linear Road's reports, ``silences`` to
any points. ``open_trips`` keeps the points of trips that have not ended, ``ended_trips`` converts ended trips to moving
points, and ``trip_tables`` reads them. The jobs are in ``_linear_road`` and ``_network``; this package uses Spark only
to read an archive.
"""

from slipstream._archive.trip_tables import open_archive

__all__ = ["open_archive"]
