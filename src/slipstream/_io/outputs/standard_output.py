"""Lines on standard output.

They are printed after their batch is committed, so only committed rows are printed, and none twice in one run of a
job. A process that is killed between the commit and the printing loses these lines here; the table has them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable


def show(lines: Iterable[bytes]) -> None:
    """Print lines without line breaks, and flush."""
    sys.stdout.write("".join(f"{line.decode()}\n" for line in lines))
    sys.stdout.flush()
