"""Single trips as bytes: paths as Well-Known Binary, and moving points as MEOS does, for MobilityDB and PyMEOS.

MEOS writes little-endian: a byte 1, the type as 16 bits, a byte of flags, the SRID as 32 bits if there is one; then a
sequence is the number of instants, a byte of bounds, and for each instant its point as EWKB and the microseconds since
2000. A set of sequences has their number before them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstream._errors import BadInput
from slipstream._moving.moving_point import MovingPoint
from slipstream._tools.numba_tools import Floats

#: MEOS's number of the type tgeompoint
_TGEOMPOINT = 46
_INSTANT, _SEQUENCE, _SET = 1, 2, 3
_SUBTYPE, _INTERPOLATION, _LINEAR, _GEODETIC, _HAS_Z, _HAS_SRID = 0x03, 0x0C, 0x0C, 0x20, 0x10, 0x40
_LOWER, _UPPER = 1, 2
#: microseconds from 1970 to 2000
_EPOCH = 946_684_800_000_000
#: EWKB of a point: its type, and the flag that an SRID follows
_POINT, _WITH_SRID = 1, 0x20000000
_LINE, _LINES = 2, 5


def encode_path(m: MovingPoint) -> bytes:
    """Return the path as WKB: a line, several lines, or a point for a trip of one position.

    >>> encode_path(MovingPoint.from_wkt("POINT(3 4)@2026-05-04")).hex()
    '010100000000000000000008400000000000001040'
    """
    lines = [np.c_[m.x[s], m.y[s]] for s in m.sequences]
    if len(lines) == 1 and len(lines[0]) == 1:
        return struct.pack("<BI", 1, _POINT) + bytes(lines[0].tobytes())
    if len(lines) == 1:
        return _encode_line(lines[0])
    return struct.pack("<BII", 1, _LINES, len(lines)) + b"".join(map(_encode_line, lines))


def _encode_line(line: Floats) -> bytes:
    # a line has at least two points
    line = line if len(line) > 1 else np.repeat(line, 2, axis=0)
    return struct.pack("<BII", 1, _LINE, len(line)) + line.tobytes()


def _instant_type(srid: int) -> np.dtype[Any]:
    """The layout of an instant of a temporal point."""
    middle = [("srid", "<i4")] if srid else []
    return np.dtype([("order", "u1"), ("kind", "<u4"), *middle, ("x", "<f8"), ("y", "<f8"), ("t", "<i8")])


def encode_meos(m: MovingPoint, srid: int = 0) -> bytes:
    """Return a moving point as MEOS-WKB: a sequence, or a set of sequences.

    >>> encode_meos(MovingPoint.from_wkt("POINT(1 2)@2000-01-01 00:00:01"))[:16].hex()
    '012e000e010000000301010000000000'
    """
    parts = m.sequences
    subtype = _SEQUENCE if len(parts) == 1 else _SET
    flags = subtype | _LINEAR | (_HAS_SRID if srid else 0)
    head = struct.pack("<BHB", 1, _TGEOMPOINT, flags) + (struct.pack("<i", srid) if srid else b"")
    body = b"".join(_encode_sequence(m, part, srid) for part in parts)
    return head + body if subtype == _SEQUENCE else head + struct.pack("<I", len(parts)) + body


def _encode_sequence(m: MovingPoint, part: slice, srid: int) -> bytes:
    rows: npt.NDArray[Any] = np.zeros(part.stop - part.start, _instant_type(srid))
    rows["order"], rows["kind"] = 1, _POINT | (_WITH_SRID if srid else 0)
    if srid:
        rows["srid"] = srid
    rows["x"], rows["y"], rows["t"] = m.x[part], m.y[part], m.t[part] - _EPOCH
    return struct.pack("<IB", len(rows), _LOWER | _UPPER) + rows.tobytes()


def decode_meos(blob: bytes) -> tuple[MovingPoint, int]:
    """Return the moving point and the SRID of MEOS-WKB; refuse other types, open bounds and steps.

    >>> m, srid = decode_meos(encode_meos(MovingPoint.from_wkt("POINT(1 2)@2000-01-01"), 32633))
    >>> m.x.tolist(), m.y.tolist(), srid
    ([1.0], [2.0], 32633)
    """
    try:
        order, kind, flags = struct.unpack_from("<BHB", blob)
        srid = struct.unpack_from("<i", blob, 4)[0] if flags & _HAS_SRID else 0
        _check_kind(order, kind, flags)
        parts = list(_decode_sequences(blob, 8 if srid else 4, flags & _SUBTYPE, srid))
    except (struct.error, ValueError) as error:
        raise _malformed(str(error)) from error
    rows = np.concatenate(parts) if parts else np.zeros(0, _instant_type(srid))
    starts = np.concatenate(([0], np.cumsum([len(part) for part in parts])))[: len(parts)].astype(np.int32)
    t, x, y = rows["t"] + _EPOCH, rows["x"].astype(np.float64), rows["y"].astype(np.float64)
    return MovingPoint(t.astype(np.int64), x, y, starts).checked("MEOS-WKB"), srid


def _check_kind(order: int, kind: int, flags: int) -> None:
    if order != 1 or kind != _TGEOMPOINT or flags & (_GEODETIC | _HAS_Z):
        raise _malformed("not a temporal point in a plane, with two dimensions")
    if flags & _SUBTYPE != _INSTANT and flags & _INTERPOLATION != _LINEAR:
        raise _malformed("its interpolation is not linear")


def _decode_sequences(blob: bytes, at: int, subtype: int, srid: int) -> Iterator[npt.NDArray[Any]]:
    layout = _instant_type(srid)
    if subtype == _INSTANT:
        yield np.frombuffer(blob, layout, 1, at)
        return
    count, at = (1, at) if subtype == _SEQUENCE else (struct.unpack_from("<I", blob, at)[0], at + 4)
    for _ in range(count):
        size, bounds = struct.unpack_from("<IB", blob, at)
        if bounds & (_LOWER | _UPPER) != _LOWER | _UPPER:
            raise _malformed("a sequence is without its first or last instant")
        yield np.frombuffer(blob, layout, size, at + 5)
        at += 5 + size * layout.itemsize


def _malformed(why: str) -> BadInput:
    return BadInput(
        f"MEOS-WKB: {why}.", hint="Expected a tgeompoint with linear interpolation.", code="malformed-value"
    )
