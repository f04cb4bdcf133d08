"""Ended trips: as stages exchange them, and as moving points in the plane of Linear City.

In that plane, x is the distance from the western end and y the expressway (ten miles apart) plus the lane, in metres.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slipstream._errors import BadArgument, BadInput
from slipstream._moving import columns, types
from slipstream._moving.columns import MPoints
from slipstream._moving.moving_point import micros
from slipstream._tools.numba_tools import Bytes, Floats, Ints, Longs

FOOT = 0.3048
#: twelve feet, and ten miles between expressways
LANE = 12 * FOOT
APART = 10 * 5280 * FOOT
#: the default instant of second 0 of a run: a Monday
START = "2007-05-28 00:00:00"

#: reports per piece: 36 MB, and four times that as moving points
MOST = 1 << 22

#: the type of a moving point
MOVING: pa.DataType = types.MPOINT.arrow
SCHEMA = pa.schema([("vid", pa.int32()), ("xway", pa.int32()), ("dir", pa.int32()), ("Trip", MOVING)])
#: the same for Spark
COLUMNS = f"vid int, xway int, dir int, Trip {types.MPOINT.sql}"

#: columns whose values repeat; places do not
REPEATED = ["xway", "dir", "Trip.t.list.element", "Trip.y.list.element", "Trip.starts.list.element"]


class EndedTrips(NamedTuple):
    """Trips and their reports, trip by trip."""

    vid: Ints
    xway: Ints
    size: Ints  # of the trip's reports
    dir: Bytes
    time: Ints
    pos: Ints
    lane: Bytes

    def to_bytes(self) -> bytes:
        """Encode as bytes."""
        return b"".join(column.tobytes() for column in self)

    @classmethod
    def from_bytes(cls, blob: bytes, trips: int, reports: int) -> EndedTrips:
        """Decode from bytes.

        >>> EndedTrips.from_bytes(NO_TRIPS.to_bytes(), 0, 0).vid.size
        0
        """
        sizes = [trips] * 4 + [reports] * 3
        kinds: list[Any] = [np.int32, np.int32, np.int32, np.uint8, np.int32, np.int32, np.uint8]
        widths = [np.dtype(kind).itemsize * size for kind, size in zip(kinds, sizes, strict=True)]
        if sum(widths) != len(blob):
            raise BadInput(
                f"Expected {trips} trips with {reports} reports, got {len(blob)} bytes.",
                hint="Run the job again.",
                code="damaged-file",
            )
        places = np.cumsum([0, *widths[:-1]]).tolist()
        return cls(*(np.frombuffer(blob, *form) for form in zip(kinds, sizes, places, strict=True)))

    def pieces(self, most: int = MOST) -> Iterator[EndedTrips]:
        """Split into pieces of about ``most`` reports and whole trips; none if there are no trips."""
        ends = np.cumsum(self.size, dtype=np.int64)
        cuts = np.flatnonzero(np.diff((ends - self.size) // most)) + 1
        for first, last in zip([0, *cuts], [*cuts, self.vid.size], strict=True):
            if last > first:
                reports = slice(ends[first] - self.size[first], ends[last - 1])
                heads, vertices = [column[first:last] for column in self[:4]], [column[reports] for column in self[4:]]
                yield EndedTrips(*heads, *vertices)  # type: ignore[arg-type]


_INTS, _BYTES = np.empty(0, np.int32), np.empty(0, np.uint8)
NO_TRIPS = EndedTrips(_INTS, _INTS, _INTS, _BYTES, _INTS, _INTS, _BYTES)


def parse_instant(start: str) -> int:
    """Return the seconds since 1970 of an instant, in UTC unless it names a time zone.

    >>> parse_instant("1970-01-01T02:00:30+02:00")
    30
    """
    try:
        return micros(datetime.fromisoformat(start)) // types.MICROS
    except ValueError as error:
        raise BadArgument(
            f"--start {start}: not a date and time.",
            hint="For example: 2007-05-28 00:00:00.",
            code="malformed-value",
            found=start,
        ) from error


def as_table(trips: EndedTrips, start: int) -> pa.Table:
    """Convert trips to rows with a moving point each; second 0 is ``start`` seconds after 1970."""
    moving = moving_points(
        trips.size,
        (trips.time.astype(np.int64) + start) * types.MICROS,
        trips.pos * np.float64(FOOT),
        _locate_across(np.repeat(trips.xway, trips.size), np.repeat(trips.dir, trips.size), trips.lane),
    )
    rows: list[Any] = [trips.vid, trips.xway, trips.dir.astype(np.int32), moving]
    return pa.table(rows, schema=SCHEMA)


def moving_points(sizes: npt.NDArray[Any], micros: Longs, x: Floats, y: Floats) -> pa.Array:
    """Build moving points from trips with ``sizes`` points each; instants are microseconds since 1970."""
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    each: npt.NDArray[np.int32] = np.arange(len(sizes) + 1, dtype=np.int32)
    return columns.write(MPoints(ends, micros, x, y, each, np.zeros(len(sizes), np.int32)), types.MPOINT)


def _locate_across(xway: Ints, direction: Bytes, lane: Bytes) -> Floats:
    """Return the position across the road: eastbound lanes are north of the median, westbound lanes south."""
    side = np.where(direction == 0, LANE, -LANE)
    return np.asarray(xway * APART + side * (lane.astype(np.float64) + 1))
