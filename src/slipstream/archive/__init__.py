"""The archive: position reports that streamed by, as trajectories.

``open_trips`` keeps the reports of trips that are not over, ``trajectories`` makes moving points of those that are,
``files`` reads them back. Jobs are ``linear_road``'s; this package knows
nothing of Spark but how to read an archive with it.
"""

from slipstream.archive.files import open_archive

__all__ = ["open_archive"]
