"""One moving point in Python: built from instants, checked, and drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from slipstream._errors import BadArgument, BadInput
from slipstream._moving import columns, types
from slipstream._moving.columns import MPoints
from slipstream._moving.space import plane
from slipstream._moving.space.plane import Plane
from slipstream._tools.numba_tools import Floats, Ints, Longs

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO = timedelta(microseconds=1)


def micros(instant: datetime) -> int:
    """Return microseconds since 1970; an instant without a time zone is UTC.

    >>> micros(datetime(1970, 1, 1, 0, 0, 2))
    2000000
    """
    aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return (aware - EPOCH) // _MICRO


def instant(micros_: int) -> datetime:
    """Return the instant ``micros_`` microseconds after 1970, in UTC."""
    return EPOCH + int(micros_) * _MICRO


#: an instant and a place
Vertex = tuple[datetime, float, float]


def project(vertices: Sequence[Vertex], onto: Plane | None) -> list[Vertex]:
    """Project vertices in degrees to a plane; without one they are in metres already.

    >>> project([(EPOCH, 13.4, 52.5)], None) == [(EPOCH, 13.4, 52.5)]
    True
    """
    if onto is None or not vertices:
        return list(vertices)
    times, lon, lat = zip(*vertices, strict=True)
    x, y = onto.project(np.array(lon), np.array(lat))
    return list(zip(times, x.tolist(), y.tolist(), strict=True))


@dataclass(frozen=True)
class MovingPoint:
    """A moving point: vertices in time order, and where its sequences start.

    >>> day = datetime(2007, 5, 28, tzinfo=UTC)
    >>> MovingPoint.of([[(day, 0.0, 0.0), (day + timedelta(hours=1), 3.0, 4.0)]]).length
    5.0
    """

    t: Longs
    x: Floats
    y: Floats
    starts: Ints

    @classmethod
    def of(cls, sequences: Iterable[Sequence[Vertex]]) -> MovingPoint:
        """Build a moving point from sequences of (instant, x, y)."""
        rows = [[(micros(t), x, y) for t, x, y in sequence] for sequence in sequences]
        sizes = [len(row) for row in rows]
        flat = [vertex for row in rows for vertex in row]
        starts = np.concatenate(([0], np.cumsum(sizes)))[: len(rows)].astype(np.int32)
        t = np.array([v[0] for v in flat], dtype=np.int64)
        place = np.array([v[1:] for v in flat], dtype=np.float64).reshape(-1, 2)
        return cls(t, place[:, 0].copy(), place[:, 1].copy(), starts).checked("moving point")

    def checked(self, where: str) -> MovingPoint:
        """Return itself; raise an error if it is invalid."""
        if problem := self.problem():
            raise BadInput(
                f"{where}: {problem}",
                hint="Sort by time, keep one row per instant, and drop invalid points.",
                code="invalid-trajectory",
            )
        return self

    def problem(self) -> str:
        """Describe what is wrong with it; empty if it is valid."""
        values = [self.t.view("M8[us]"), self.x, self.y, self.starts]
        lists = [pa.ListArray.from_arrays(pa.array([0, len(v)], pa.int32()), pa.array(v)) for v in values]
        found = columns.faults(pa.StructArray.from_arrays(lists, names=["t", "x", "y", "starts"]))
        return found.text(0) if found.code[0] else ""

    @property
    def sequences(self) -> list[slice]:
        """The vertices of each sequence."""
        stops = [*self.starts[1:].tolist(), len(self.t)]
        return [slice(a, b) for a, b in zip(self.starts.tolist(), stops[: len(self.starts)], strict=True)]

    @property
    def length(self) -> float:
        """The distance travelled in metres."""
        return float(sum(np.hypot(np.diff(self.x[s]), np.diff(self.y[s])).sum() for s in self.sequences))

    def _repr_svg_(self) -> str:
        """Draw its path for a notebook: north is up, a dot marks the start."""
        if not len(self.t):
            return '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'
        x, y = self.x - self.x.min(), self.y.max() - self.y
        size = max(float(x.max()), float(y.max()), 1.0)
        paths = [" ".join(f"{a:.2f},{b:.2f}" for a, b in zip(x[s], y[s], strict=True)) for s in self.sequences]
        style = f'fill="none" stroke="#4878a8" stroke-width="{size / 150:.3f}" stroke-linejoin="round"'
        lines = "".join(f'<polyline points="{path}" {style}/>' for path in paths)
        dot = f'<circle cx="{x[0]:.2f}" cy="{y[0]:.2f}" r="{size / 60:.3f}" fill="#c0392b"/>'
        box = f"{-size / 20:.2f} {-size / 20:.2f} {1.1 * size:.2f} {1.1 * size:.2f}"
        return f'<svg xmlns="http://www.w3.org/2000/svg" width="300" height="300" viewBox="{box}">{lines}{dot}</svg>'

    @classmethod
    def from_wkt(cls, text: str, *, plane: Plane | None = None, units: str | None = None) -> MovingPoint:
        """Parse MobilityDB's text: an instant, a sequence or a set of sequences, with or without ``SRID=...;``.

        With a ``plane``, coordinates are degrees and projected to it. Otherwise they are metres; what looks like
        degrees is rejected unless ``units="m"`` is given.

        >>> MovingPoint.from_wkt("[POINT(0 0)@2026-05-04 08:00:00, POINT(300 400)@2026-05-04 08:01:00]").length
        500.0
        """
        from slipstream._moving.exchange import trip_texts

        return trip_texts.from_wkt(text, plane=plane, units=units)

    def to_wkt(self) -> str:
        """Format it as MobilityDB's text: sequences in brackets, all of them in braces.

        >>> MovingPoint.from_wkt("POINT(3 4)@2026-05-04 08:00:00").to_wkt()
        '{[POINT(3.0 4.0)@2026-05-04 08:00:00+00:00]}'
        """
        from slipstream._moving.exchange import trip_texts

        return trip_texts.to_wkt(self)

    @classmethod
    def from_mfjson(cls, text: str, *, plane: Plane | None = None, units: str | None = None) -> MovingPoint:
        """Parse OGC Moving Features JSON: a MovingPoint with sequences, or with the members of a single sequence.

        ``plane`` and ``units`` are those of :meth:`from_wkt`.

        >>> MovingPoint.from_mfjson(MovingPoint.from_wkt("POINT(3 4)@2026-05-04").to_mfjson()).x
        array([3.])
        """
        from slipstream._moving.exchange import trip_texts

        return trip_texts.from_mfjson(text, plane=plane, units=units)

    def to_mfjson(self) -> str:
        """Format it as OGC Moving Features JSON: a MovingPoint with linear interpolation."""
        from slipstream._moving.exchange import trip_texts

        return trip_texts.to_mfjson(self)

    def column(self) -> MPoints:
        """Return a column with this one row."""
        rows = np.array([0, len(self.t)], dtype=np.int32)
        parts = np.array([0, len(self.starts)], dtype=np.int32)
        made = MPoints(rows, self.t, self.x, self.y, parts, self.starts)
        return columns.freeze_all(made)

    @classmethod
    def from_column(cls, m: MPoints, row: int = 0) -> MovingPoint:
        """Return row ``row`` of a column."""
        low, high = m.rows[row], m.rows[row + 1]
        return cls(m.t[low:high], m.x[low:high], m.y[low:high], m.starts[m.parts[row] : m.parts[row + 1]])

    @classmethod
    def from_row(cls, row: Any) -> MovingPoint:
        """Build a moving point from a collected Spark row or a dict with t, x, y and starts."""
        t = np.array([micros(i) for i in row["t"]], dtype=np.int64)
        return cls(t, np.array(row["x"], float), np.array(row["y"], float), np.array(row["starts"], np.int32))

    def to_row(self) -> dict[str, Any]:
        """Return a dict that ``createDataFrame`` accepts with ``types.MPOINT.sql``."""
        t = [instant(i) for i in self.t.tolist()]
        return {"t": t, "x": self.x.tolist(), "y": self.y.tolist(), "starts": self.starts.tolist()}


def to_column(points: Sequence[MovingPoint]) -> MPoints:
    """Convert moving points to a column."""
    rows = np.concatenate(([0], np.cumsum([len(p.t) for p in points]))).astype(np.int32)
    parts = np.concatenate(([0], np.cumsum([len(p.starts) for p in points]))).astype(np.int32)
    empty = MovingPoint(np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0, np.int32))
    each = [*points, empty]
    t, x, y = (np.concatenate([getattr(p, name) for p in each]) for name in "txy")
    starts = np.concatenate([p.starts for p in each]).astype(np.int32)
    made = MPoints(rows, t, x, y, parts, starts)
    return columns.freeze_all(made)


def to_arrow(points: Sequence[MovingPoint]) -> pa.Array:
    """Convert moving points to an Arrow column."""
    return columns.write(to_column(points), types.MPOINT)


#: how to declare coordinates as metres, in a hint
METRES = 'if they are metres, use units="m"'


def check_metres(points: Iterable[MovingPoint], where: str, what: str, hint: str, units: str | None) -> None:
    """Reject moving points that look like degrees (``plane.are_degrees``), unless ``units`` is "m".

    ``{plane}`` in ``hint`` is replaced by a suitable plane.
    """
    if units not in (None, "m"):
        raise BadArgument(
            f"units={units!r} is unknown.", hint='Use units="m", or omit it.', code="unknown-value", found=units
        )
    if units is None and (every := list(points)):
        m = to_column(every)
        speed = plane.speeds(m.t, m.x, m.y, np.repeat(np.arange(len(every)), np.diff(m.rows)))
        plane.refuse_degrees(where, m.x, m.y, speed, columns=what, hint=hint)
