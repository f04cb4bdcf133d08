"""How the tuples of a feed may be written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath

CSV, JSON, ARROW, PARQUET, TEXT, TRAIN = "csv", "json", "arrow", "parquet", "text", "train"
#: how the tuples of a feed may be written
ENCODINGS = (CSV, JSON, ARROW, PARQUET, TEXT, TRAIN)
#: those that are no lines: files of them are read whole, messages are put together as they are
BINARY = (ARROW, PARQUET, TRAIN)
#: what the names of files say
_SUFFIXES = {
    ".csv": CSV,
    ".json": JSON,
    ".jsonl": JSON,
    ".ndjson": JSON,
    ".arrow": ARROW,
    ".arrows": ARROW,
    ".parquet": PARQUET,
    ".dat": TEXT,
}


def joining(encoding: str) -> Callable[[Sequence[bytes]], bytes]:
    """How messages become a chunk.

    >>> joining("json")([b'{"id": 1}', b'{"id": 2}'])
    b'{"id": 1}\\n{"id": 2}'
    """
    return b"".join if encoding in BINARY else b"\n".join


def encoding_of(name: str) -> str:
    """How a file is written, by its name; JSON lines unless that says otherwise.

    >>> encoding_of("cars.csv"), encoding_of("positions")
    ('csv', 'json')
    """
    return _SUFFIXES.get(PurePath(name).suffix, JSON)
