"""Slipstream: a stream and trajectory system for moving vehicles, on Apache Spark.

Data goes down this list; a package may import from those above it, never from those below:

- ``errors``, ``session``, ``progress``, ``kernels``: what every part stands on
- ``feeds``: how tuples travel and rest: runs, text files, trains
- ``city``: the roads and the traffic on them, and ten weeks of history
- ``cli``: the command line
"""

from __future__ import annotations

__version__ = "0.1.0"
