"""Lines on standard output.

They are printed when their batch is committed, so nothing is printed that is not, and nothing twice in one run of a
job. A process that is killed between a commit and the printing loses these lines here; the table has them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable


def show(lines: Iterable[bytes]) -> None:
    """Print lines that have no line breaks, and let readers have them at once."""
    sys.stdout.write("".join(f"{line.decode()}\n" for line in lines))
    sys.stdout.flush()
