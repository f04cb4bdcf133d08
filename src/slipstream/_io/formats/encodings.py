"""The encodings of a feed, and how they are recognised by file names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath

CSV, JSON, ARROW, PARQUET, TEXT, TRAIN = "csv", "json", "arrow", "parquet", "text", "train"
AVRO, PROTOBUF = "avro", "protobuf"
#: the encodings of a feed
ENCODINGS = (CSV, JSON, ARROW, PARQUET, TEXT, TRAIN, AVRO, PROTOBUF)
#: those whose messages need a schema
MESSAGES = (AVRO, PROTOBUF)
#: those without lines: files are read whole, messages are concatenated as they are
BINARY = (ARROW, PARQUET, TRAIN, AVRO, PROTOBUF)
#: the encodings of files, by suffix
_SUFFIXES = {
    ".csv": CSV,
    ".json": JSON,
    ".jsonl": JSON,
    ".ndjson": JSON,
    ".arrow": ARROW,
    ".arrows": ARROW,
    ".parquet": PARQUET,
    ".dat": TEXT,
    ".avro": AVRO,
    ".pb": PROTOBUF,
}


def find_joiner(encoding: str) -> Callable[[Sequence[bytes]], bytes]:
    """Return a function that joins messages to a chunk.

    >>> find_joiner("json")([b'{"id": 1}', b'{"id": 2}'])
    b'{"id": 1}\\n{"id": 2}'
    """
    if encoding in MESSAGES:
        from slipstream._io.formats.messages import frame_messages

        return frame_messages
    return b"".join if encoding in BINARY else b"\n".join


def guess_encoding(where: str, otherwise: str = JSON) -> str:
    """The encoding of a feed, by the name of the file or of the first one in a folder; JSON lines by default.

    >>> guess_encoding("cars.csv"), guess_encoding("positions"), guess_encoding("positions", TEXT)
    ('csv', 'json', 'text')
    """
    return _SUFFIXES.get(PurePath(find_first_file(where)).suffix, otherwise)


def find_first_file(where: str) -> str:
    """The name of the first file in a folder; anything that is not a folder is returned as it is."""
    path = Path(where)
    if not path.is_dir():
        return where
    return next(iter(sorted(file.name for file in path.iterdir() if not file.name.startswith("."))), "")


_FIELD = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^,]*?))\s*(?:,|$)')


def split_header(header: str) -> list[str]:
    """Return the fields in the header of a CSV file.

    >>> split_header('id, "top speed, km/h","a ""b"" c"')
    ['id', 'top speed, km/h', 'a "b" c']
    """
    found, place = [], 0
    header = header.rstrip("\r\n")
    while place <= len(header) and (match := _FIELD.match(header, place)):
        found.append(match[2] if match[1] is None else match[1].replace('""', '"'))
        place = match.end() if match[0].endswith(",") else len(header) + 1
    return found
