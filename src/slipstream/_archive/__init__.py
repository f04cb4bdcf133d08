"""The archive: stores streams of points as trajectories.

``open_trips`` keeps the points of trips that have not ended; ``reports`` defines a trip for Linear Road, ``silences``
for any other stream. ``trajectories`` converts ended trips to moving points, ``files`` reads them. The jobs are in
``_linear_road`` and ``_network``; this package uses Spark only to read an archive.
"""

from slipstream._archive.files import open_archive

__all__ = ["open_archive"]
