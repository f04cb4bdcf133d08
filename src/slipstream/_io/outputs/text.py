"""Text files that only grow, batch by batch.

The journal says how long each file was after every batch. A batch that is repeated cuts off what its first attempt left
behind, so a file has every line once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from slipstream._errors import BadInput
from slipstream._io.outputs.committed import RESCUE
from slipstream._tools.failpoints import failpoint


def append(file: Path, length: int, lines: Iterable[bytes]) -> int:
    """Cut a file to its committed length and append lines; returns the new length."""
    check_length(file, length)
    text = b"".join(lines)
    if not text and file.exists() and file.stat().st_size == length:
        return length
    failpoint("text.before-append")
    with file.open("ab") as out:
        out.truncate(length)
        out.seek(length)
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
        return out.tell()


def check_length(file: Path, committed: int) -> None:
    """Refuse a file that is shorter than what was committed."""
    size = file.stat().st_size if file.exists() else 0
    if size < committed:
        raise BadInput(f"{file}: {size:,} bytes, {committed:,} were committed.", hint=RESCUE)


def csv_of(rows: pa.Table, *, header: bool) -> bytes:
    """Rows as CSV.

    >>> csv_of(pa.table({"id": ["a", None], "speed": [50, 60]}), header=True)
    b'"id","speed"\\n"a",50\\n,60\\n'
    """
    sink = pa.BufferOutputStream()
    csv.write_csv(rows, sink, csv.WriteOptions(include_header=header))
    return bytes(sink.getvalue().to_pybytes())
