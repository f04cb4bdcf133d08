"""The archive: points that streamed by, as trajectories.

``open_trips`` keeps the points of trips that are not over; what a trip is, ``reports`` says for Linear Road and
``silences`` for any other stream. ``trajectories`` makes moving points of trips that are over, ``files`` reads them
back. Jobs are ``linear_road``'s and ``network``'s; this package knows nothing of Spark but how to read an archive.
"""

from slipstream._archive.files import open_archive

__all__ = ["open_archive"]
