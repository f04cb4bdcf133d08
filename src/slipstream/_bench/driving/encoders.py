"""Encodings of tuples on the wire; a whole second is encoded at once.

An encoding turns a table of tuples into bytes for a file or a socket, and splits those bytes into messages for a
broker. Register further encodings in ``ENCODINGS``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from slipstream._errors import BadArgument
from slipstream._feeds.trains import frame, frame_heartbeat
from slipstream._feeds.tuples import FIELDS


@dataclass(frozen=True)
class Encoding:
    """An encoding: the suffix of its files, the bytes of a table, and the messages in such bytes."""

    suffix: str
    encode: Callable[[pa.Table], bytes]
    messages: Callable[[bytes], list[bytes]]
    empty: Callable[[int], bytes] = lambda _: b""  # for a partition that has no tuples in a second


def encode_text(tuples: pa.Table) -> bytes:
    """Encode as Linear Road text, one line per tuple.

    >>> encode_text(pa.table({name: pa.array([7], pa.int32()) for name in FIELDS}))
    b'7,7,7,7,7,7,7,7,7,7,7,7,7,7,7\\n'
    """
    sink = pa.BufferOutputStream()
    pcsv.write_csv(tuples.select(FIELDS), sink, pcsv.WriteOptions(include_header=False, quoting_style="none"))
    return bytes(sink.getvalue().to_pybytes())


def encode_json(tuples: pa.Table) -> bytes:
    """Encode as one JSON object per line, with the fifteen field names.

    >>> encode_json(pa.table({name: pa.array([7], pa.int32()) for name in FIELDS}))[:20]
    b'{"type":7,"time":7,"'
    """
    if not tuples.num_rows:
        return b""
    pieces: list[object] = []
    for place, name in enumerate(FIELDS):
        pieces += [f'{"," if place else "{"}"{name}":', pc.cast(tuples.column(name).combine_chunks(), pa.string())]
    lines = pc.binary_join_element_wise(*pieces, "}\n", "")
    return bytes(lines.buffers()[2].to_pybytes())


def encode_objects(rows: pa.Table) -> bytes:
    """Encode as one JSON object per line, with the names of any columns of numbers and texts.

    >>> encode_objects(pa.table({"id": ["B 1"], "lon": [13.4]}))
    b'{"id":"B 1","lon":13.4}\\n'
    """
    if not rows.num_rows:
        return b""
    pieces: list[object] = []
    for place, name in enumerate(rows.column_names):
        pieces += [f'{"," if place else "{"}"{name}":', _encode_values(rows.column(name).combine_chunks())]
    lines = pc.binary_join_element_wise(*pieces, "}\n", "")
    return b"".join(line.encode() for line in lines.to_pylist())


def _encode_values(values: pa.Array) -> pa.Array:
    if pa.types.is_string(values.type):
        return pa.array([json.dumps(value) for value in values.to_pylist()])
    return pc.cast(values, pa.string())


def encode_csv(rows: pa.Table) -> bytes:
    """Encode as CSV without a header.

    >>> encode_csv(pa.table({"id": [7], "lon": [13.4]}))
    b'7,13.4\\n'
    """
    sink = pa.BufferOutputStream()
    pcsv.write_csv(rows, sink, pcsv.WriteOptions(include_header=False, quoting_style="needed"))
    return bytes(sink.getvalue().to_pybytes())


def encode_train(tuples: pa.Table) -> bytes:
    """Encode the second as one train, the form that the toll engine uses internally, and say that it is complete."""
    columns = {name: tuples.column(name).to_numpy() for name in FIELDS}
    return frame(columns) + frame_heartbeat(int(columns["time"][0]) + 1)


ENCODINGS = {
    "text": Encoding(".txt", encode_text, bytes.splitlines),
    "json": Encoding(".json", encode_json, bytes.splitlines),
    "train": Encoding(".train", encode_train, lambda train: [train], lambda second: frame_heartbeat(second + 1)),
}


def find_encoding(name: str) -> Encoding:
    """Return the encoding called ``name``."""
    if name not in ENCODINGS:
        raise BadArgument(
            f"--format {name}: no such encoding.",
            hint=f"Use one of: {', '.join(ENCODINGS)}.",
            code="unknown-value",
            expected=[*ENCODINGS],
            found=name,
        )
    return ENCODINGS[name]
