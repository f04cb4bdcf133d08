"""What ``spark-submit`` runs: the command line, with the arguments that it is given."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    # spark-submit puts this file's folder first, where modules have names like those of others
    sys.path[:] = [place for place in sys.path if Path(place) != Path(__file__).parent]
    # by name: the command line is above this package
    __import__("slipstream._cli", fromlist=["main"]).main()
