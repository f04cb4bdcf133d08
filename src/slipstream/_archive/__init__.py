"""The archive: points that streamed by, as trajectories.

``feeds.trip`` defines a trip; ``reports`` applies the definition to Linear Road's reports, ``silences`` to any points.
``open_trips`` keeps the points of trips that are not over, ``trajectories`` makes moving points of those that are, and
``files`` reads them back. Jobs are ``linear_road``'s and ``network``'s; this package knows nothing of Spark except how
to read an archive.
"""

from slipstream._archive.files import open_archive

__all__ = ["open_archive"]
