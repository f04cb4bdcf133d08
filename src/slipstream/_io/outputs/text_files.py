"""Append-only text files, written batch by batch.

The journal has the length of each file after every batch. A repeated batch truncates what its first attempt left, so a
file has every line once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from slipstream._errors import BadInput
from slipstream._io.outputs.journal import RESCUE
from slipstream._tools.processes.failpoints import failpoint

#: bytes that are overwritten at a time
_PIECE = 1 << 20


def append(file: Path, length: int, lines: Iterable[bytes]) -> int:
    """Truncate a file to its committed length and append lines; returns the new length."""
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
        raise BadInput(
            f"{file}: has {size:,} bytes, but {committed:,} were committed.", hint=RESCUE, code="damaged-output"
        )


def blank(file: Path, end: int) -> int:
    """Overwrite the lines up to byte ``end`` with line breaks, which readers of CSV skip; returns how many bytes.

    Lengths stay the same, so the journal still describes the file, and the job may append meanwhile.
    """
    done = 0
    with file.open("r+b") as text:
        while text.tell() < end:
            piece = text.read(min(_PIECE, end - text.tell()))
            if piece.strip(b"\n"):
                text.seek(-len(piece), os.SEEK_CUR)
                text.write(b"\n" * len(piece))
                done += len(piece)
        os.fsync(text.fileno())
    return done


def blank_lines(file: Path, is_unwanted: Callable[[bytes], bool]) -> int:
    """Overwrite some lines with line breaks; returns how many lines."""
    done = 0
    with file.open("r+b") as text:
        while line := text.readline():
            if is_unwanted(line):
                text.seek(-len(line), os.SEEK_CUR)
                text.write(b"\n" * len(line))
                done += 1
        os.fsync(text.fileno())
    return done


def to_csv(rows: pa.Table, *, header: bool) -> bytes:
    """Format rows as CSV.

    >>> to_csv(pa.table({"id": ["a", None], "speed": [50, 60]}), header=True)
    b'"id","speed"\\n"a",50\\n,60\\n'
    """
    sink = pa.BufferOutputStream()
    csv.write_csv(rows, sink, csv.WriteOptions(include_header=header))
    return bytes(sink.getvalue().to_pybytes())
