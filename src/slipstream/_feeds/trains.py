"""Trains: all tuples of one fragment in one second, as columns of bytes in one Spark row.

Rows are the expensive part of Spark, so a second of many expressways is sent as a handful of them. A train has position
reports of fourteen bytes each, followed by the requests that arrived with them.

A train without tuples is a heartbeat: everything before its second has been sent. A reader need not wait for tuples
that may be late, and answers at once.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slipstream._errors import BadInput
from slipstream._feeds.tuples import FIELDS, MILE, POSITION
from slipstream._tools.numba_tools import Bytes, Ints

REQUEST_FIELDS = ("type", "vid", "xway", "qid", "sinit", "send", "dow", "tod", "day")
_REPORT_TYPES = (np.int32, np.int32, np.uint8, np.uint8, np.int32)
_REPORT_BYTES = sum(np.dtype(kind).itemsize for kind in _REPORT_TYPES)


@dataclass(frozen=True)
class FeedTrain:
    """Tuples of one second that arrived together, decoded without copying."""

    second: int
    arrived: int  # milliseconds, by the clock that times their answers
    vid: Ints
    xway: Ints
    spd: Bytes
    lane_dir: Bytes  # lane + 8 * direction + 16 * class of the vehicle
    pos: Ints
    requests: dict[str, Ints]


def pack(vid: Ints, xway: Ints, reports: Mapping[str, Ints]) -> bytes:
    """Pack position reports into bytes."""
    lane_dir = (reports["lane"] + 8 * reports["dir"]).astype(np.uint8)
    columns: tuple[npt.NDArray[Any], ...] = (vid, xway, reports["spd"].astype(np.uint8), lane_dir, reports["pos"])
    return b"".join(column.tobytes() for column in columns)


def encode(tuples: Mapping[str, Ints]) -> tuple[int, int, bytes]:
    """Pack the tuples of one second; returns the number of reports, the number of requests, and the bytes."""
    is_report = tuples["type"] == POSITION
    reports = {name: tuples[name][is_report] for name in ("vid", "xway", "spd", "lane", "dir", "pos")}
    made = int(np.count_nonzero(is_report))
    asked = b"".join(tuples[name][~is_report].tobytes() for name in REQUEST_FIELDS) if made < is_report.size else b""
    return made, is_report.size - made, pack(reports["vid"], reports["xway"], reports) + asked


_MAGIC = b"LRT1"
_HEADER = struct.Struct("<4siii")
#: a second of ten thousand expressways; a larger size is damage
_MOST_BYTES = 1 << 28


def frame(tuples: Mapping[str, Ints]) -> bytes:
    """Encode the tuples of one second as a self-describing message, for topics, files and sockets."""
    reports, requests, payload = encode(tuples)
    return _HEADER.pack(_MAGIC, int(tuples["time"][0]), reports, requests) + payload


def frame_heartbeat(second: int) -> bytes:
    """Encode that everything before ``second`` has been sent."""
    return _HEADER.pack(_MAGIC, second, 0, 0)


class Unframed(NamedTuple):
    """The content of framed trains."""

    tuples: list[dict[str, Ints]]  # of each train
    complete: int  # everything before this second has been sent; -1 without a heartbeat
    rest: bytes  # that cannot be decoded


def unframe(chunk: bytes) -> Unframed:
    """Decode framed trains.

    >>> train = frame({name: np.full(1, 7, np.int32) for name in FIELDS})
    >>> [tuples], complete, rest = unframe(train + frame_heartbeat(8) + b"?")
    >>> tuples["time"].tolist(), complete, rest
    ([7], 8, b'?')
    """
    parts, complete, place = [], -1, 0
    while (framed := _read_header(chunk, place)) is not None and framed[-1] <= len(chunk):
        second, reports, requests, end = framed
        if reports or requests:
            parts.append(to_tuples(decode(second, reports, requests, chunk[place + _HEADER.size : end])))
        else:
            complete = max(complete, second)
        place = end
    return Unframed(parts, complete, chunk[place:])


def _read_header(chunk: bytes, place: int) -> tuple[int, int, int, int] | None:
    """The second, number of reports, number of requests and end of the train at ``place``; None if there is none."""
    if len(chunk) - place < _HEADER.size:
        return None
    magic, second, reports, requests = _HEADER.unpack_from(chunk, place)
    size = reports * _REPORT_BYTES + requests * 4 * len(REQUEST_FIELDS)
    if magic != _MAGIC or reports < 0 or requests < 0 or size > _MOST_BYTES:
        return None
    return second, reports, requests, place + _HEADER.size + size


def find_whole_frames(chunk: bytes) -> int:
    """The end of the last complete train of a growing feed; the end of the chunk if the rest can never be a train.

    >>> train = frame({name: np.zeros(1, np.int32) for name in FIELDS})
    >>> find_whole_frames(train + train[:9]) == len(train), find_whole_frames(train + b"garbage")
    (True, 37)
    """
    place = 0
    while (framed := _read_header(chunk, place)) is not None and framed[-1] <= len(chunk):
        place = framed[-1]
    rest = chunk[place:]
    begun = framed is not None or (len(rest) < _HEADER.size and rest[:4] == _MAGIC[: len(rest)])
    return place if begun else len(chunk)


def decode(second: int, reports: int, requests: int, train: bytes, arrived: int | None = None) -> FeedTrain:
    """Unpack a train; refuse bytes of the wrong length.

    Unless ``arrived`` is given, a train arrived at the beginning of its second.
    """
    expected = reports * _REPORT_BYTES + requests * 4 * len(REQUEST_FIELDS)
    if reports < 0 or requests < 0 or len(train) != expected:
        raise BadInput(
            f"A train of second {second} has {len(train)} bytes, expected {expected} for {reports} reports and "
            f"{requests} requests.",
            hint="It was truncated or made by another version; send it again.",
            code="damaged-file",
        )
    columns: list[Any] = []
    place = 0
    for kind, count in [*((kind, reports) for kind in _REPORT_TYPES), *((np.int32, requests) for _ in REQUEST_FIELDS)]:
        column = np.frombuffer(train, dtype=kind, count=count, offset=place)
        columns.append(column)
        place += column.nbytes
    vid, xway, spd, lane_dir, pos, *asked = columns
    requested = dict(zip(REQUEST_FIELDS, asked, strict=True))
    return FeedTrain(second, 1000 * second if arrived is None else arrived, vid, xway, spd, lane_dir, pos, requested)


def to_tuples(train: FeedTrain) -> dict[str, Ints]:
    """The tuples of a train as fifteen columns, -1 where a field does not apply."""
    made = train.vid.size
    columns = {name: np.full(made + train.requests["vid"].size, -1, dtype=np.int32) for name in FIELDS}
    columns["type"][:made] = POSITION
    columns["time"][:] = train.second
    for name, values in train.requests.items():
        columns[name][made:] = values
    reports: dict[str, Any] = {
        "vid": train.vid,
        "xway": train.xway,
        "spd": train.spd,
        "pos": train.pos,
        "seg": train.pos // MILE,
    }
    for name, values in {**reports, "lane": train.lane_dir & ~np.uint8(8), "dir": train.lane_dir >> 3 & 1}.items():
        columns[name][:made] = values
    return columns
