"""How tuples look on the wire; a whole second is encoded at once.

An encoding turns a table of tuples into bytes for a file or a socket, and splits those bytes into messages for a
broker. ``ENCODINGS`` is open: who has another form registers it there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from slipstream._errors import BadArgument
from slipstream._feeds.trains import frame
from slipstream._feeds.tuples import FIELDS


@dataclass(frozen=True)
class Encoding:
    """A form of tuples: what files of it are called, the bytes of a table, and the messages in such bytes."""

    suffix: str
    encode: Callable[[pa.Table], bytes]
    messages: Callable[[bytes], list[bytes]]


def encode_text(tuples: pa.Table) -> bytes:
    """Linear Road text, a line a tuple.

    >>> encode_text(pa.table({name: pa.array([7], pa.int32()) for name in FIELDS}))
    b'7,7,7,7,7,7,7,7,7,7,7,7,7,7,7\\n'
    """
    sink = pa.BufferOutputStream()
    pcsv.write_csv(tuples.select(FIELDS), sink, pcsv.WriteOptions(include_header=False, quoting_style="none"))
    return bytes(sink.getvalue().to_pybytes())


def encode_json(tuples: pa.Table) -> bytes:
    """An object a line, with the fifteen field names.

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


def encode_train(tuples: pa.Table) -> bytes:
    """The second as one train, the form in which tuples travel through the toll engine."""
    return frame({name: tuples.column(name).to_numpy() for name in FIELDS})


ENCODINGS = {
    "text": Encoding(".txt", encode_text, bytes.splitlines),
    "json": Encoding(".json", encode_json, bytes.splitlines),
    "train": Encoding(".train", encode_train, lambda train: [train]),
}


def encoding(name: str) -> Encoding:
    """The encoding called ``name``."""
    if name not in ENCODINGS:
        raise BadArgument(f"--format {name}: no such encoding.", hint=f"There are: {', '.join(ENCODINGS)}.")
    return ENCODINGS[name]
