"""Data sets of the workspace as collections of movers, with their trips in longitudes and latitudes.

Between two instants a temporal geometry is a straight line in the coordinates that are sent, so filters and cuts are
computed in longitudes and latitudes as well: what a client computes from a response agrees with them. Lengths are those
of the plane.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._archive.trip_tables import TRIP, is_archive
from slipstream._berlinmod.dataset import Dataset
from slipstream._console.errors import NotFound
from slipstream._console.trips import journeys
from slipstream._console.workspace import Workspace
from slipstream._errors import BadArgument, BadInput
from slipstream._moving.columns import Lines, MPoints, Periods, Temporals, freeze, freeze_all, read, take_rows
from slipstream._moving.kernels import motion, places
from slipstream._moving.space.systems import System
from slipstream._tools.numba_tools import Bools, Floats, Ints, Longs
from slipstream._trajectories.data import Data
from slipstream._trajectories.exchange.temporal_properties import is_over_time

#: degrees with seven decimals are a centimetre
DIGITS = 7


class Extent(NamedTuple):
    """West, south, east, north; the first and the last instant."""

    box: tuple[float, float, float, float]
    span: tuple[int, int]


@dataclass(frozen=True)
class ServedData:
    """A data set that can be served: where it is, and the system of its coordinates."""

    name: str
    folder: Path
    system: System
    files: tuple[Path, ...]
    id: str  # the column that says who moved

    @property
    def version(self) -> tuple[tuple[str, int], ...]:
        """What changes when the data set does."""
        return tuple((str(file), file.stat().st_mtime_ns) for file in self.files)


def find_sources(workspace: Workspace) -> dict[str, ServedData]:
    """Return the data sets that have a reference system, by the id of their collection."""
    found = workspace.find(lambda folder: journeys.is_berlinmod(folder) or is_archive(folder))
    sources = (_open_source(name, folder) for name, folder in found.items())
    return {to_segment(source.name): source for source in sources if source is not None}


def _open_source(name: str, folder: Path) -> ServedData | None:
    """Return a data set; None if its reference system is not known, or it cannot be read."""
    with suppress(BadInput, OSError):
        if Data.is_at(folder):
            data = Data.open(folder)
            return ServedData(name, folder, data.system, tuple(data.files), "id") if data.system else None
        if journeys.is_berlinmod(folder):
            srid = Dataset.open(folder).manifest.srid
            files = tuple(sorted((folder / "dataMtrip").glob("*.parquet")))
            return ServedData(name, folder, System.parse(srid), files, "Licence") if srid else None
    return None


def to_segment(name: str) -> str:
    """Return a name as one segment of an address: a slash would end it (RFC 6901 has the same escapes).

    >>> to_segment("runs/monday")
    'runs~1monday'
    """
    return name.replace("~", "~0").replace("/", "~1")


# --- what a data set has


@dataclass(frozen=True)
class Collection:
    """Movers with their trips in the order of time, in longitudes and latitudes."""

    ids: list[str]  # of movers, sorted
    first: Ints  # mover i has the trips first[i]:first[i + 1]
    trips: MPoints
    metres: Floats  # the length of each trip
    values: dict[str, Temporals]  # what travels with the trips, by the name of the column

    @classmethod
    def open(cls, source: ServedData) -> Collection:
        """Read a data set."""
        table = _read(source)
        moving: MPoints = read(table[TRIP].combine_chunks())
        if len(moving.t) > journeys.MOST:
            raise BadArgument(
                f"{source.name} has {len(moving.t):,} positions; the console serves {journeys.MOST:,}.",
                hint="Read the files with Spark, or build smaller data sets.",
                code="too-large",
            )
        ids = table[source.id].cast(pa.string()).combine_chunks()
        kept = np.flatnonzero(np.diff(moving.rows) > 0)
        begins = moving.t[moving.rows[:-1][kept]]
        names, owner = np.unique(ids.take(pa.array(kept)).to_numpy(zero_copy_only=False), return_inverse=True)
        order = kept[np.lexsort((begins, owner))]
        first = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(names))))).astype(np.int32)
        sorted_ = freeze_all(take_rows(moving, order))
        values = {name: read(table[name].combine_chunks().take(pa.array(order))) for name in _temporal(table.schema)}
        lon, lat = source.system.locate(sorted_.x, sorted_.y)
        on_globe = freeze_all(sorted_._replace(x=lon.round(DIGITS), y=lat.round(DIGITS)))
        return cls([to_segment(str(name)) for name in names], first, on_globe, motion.lengths(sorted_), values)

    def find(self, id_: str) -> int:
        """Return the number of the mover with an id."""
        at = int(np.searchsorted(np.array(self.ids, dtype=object), id_)) if self.ids else 0
        if at == len(self.ids) or self.ids[at] != id_:
            raise NotFound(f"No moving feature {id_!r} in this collection.", hint="Ask for its items.")
        return at

    def select(self, box: Boxes | None, span: Periods | None) -> Ints:
        """Return the movers that are in a box at some time, and move at some time of a span."""
        chosen = np.ones(len(self.ids), np.bool_)
        if box is not None:
            chosen &= self._any(visits(self.trips, box))
        if span is not None:
            chosen &= self._any(motion.overlaps(self.trips, spread(span, len(self.metres))))
        return np.flatnonzero(chosen).astype(np.int32)

    def _any(self, trips: Bools) -> Bools:
        """Return which movers have one of these trips."""
        return np.logical_or.reduceat(trips, self.first[:-1]) if len(self.ids) else np.zeros(0, np.bool_)

    def of(self, mover: int) -> MPoints:
        """Return the trips of a mover."""
        return self.some(np.array([mover]))

    def some(self, movers: Ints | Longs) -> MPoints:
        """Return the trips of some movers."""
        rows = [np.arange(self.first[mover], self.first[mover + 1]) for mover in movers]
        return freeze_all(take_rows(self.trips, np.concatenate(rows) if rows else np.zeros(0, np.int64)))


def _read(source: ServedData) -> pa.Table:
    try:
        schema = pq.read_schema(source.files[0])
        names = [source.id, TRIP, *_temporal(schema)]
        return pa.concat_tables([pq.read_table(file, columns=names) for file in source.files])
    except (pa.ArrowException, OSError, KeyError, IndexError) as error:
        raise BadInput(
            f"{source.name}: {str(error).splitlines()[0]}", hint="Create the data set again.", code="damaged-output"
        ) from error


def _temporal(schema: pa.Schema) -> list[str]:
    """Return the columns that are values over time."""
    return [field.name for field in schema if is_over_time(field.type)]


#: a box, or two if it crosses the 180th meridian: west, south, east, north
Boxes = tuple[tuple[float, float, float, float], ...]


def visits(m: MPoints, boxes: Boxes) -> Bools:
    """Return which movements are in one of the boxes at some time, borders included."""
    found = np.zeros(len(m.rows) - 1, np.bool_)
    west, south, east, north = motion.boxes(m)
    for box in boxes:
        near = np.flatnonzero((west <= box[2]) & (east >= box[0]) & (south <= box[3]) & (north >= box[1]))
        inside = places.when_inside(freeze_all(take_rows(m, near)), _rings(box, len(near)), True)
        found[near] |= np.diff(inside.rows) > 0
    return found


def _rings(box: tuple[float, float, float, float], rows: int) -> Lines:
    """Return a box as a region, once for each row."""
    west, south, east, north = box
    x, y = np.array([west, east, east, west]), np.array([south, south, north, north])
    offsets = np.arange(rows + 1, dtype=np.int32)
    made = (offsets * 4, np.tile(x, rows), np.tile(y, rows), offsets, np.zeros(rows, np.int32))
    return Lines(*(freeze(np.ascontiguousarray(part)) for part in made))


def spread(span: Periods, rows: int) -> Periods:
    """Return one period for each of several rows."""
    offsets = np.arange(rows + 1, dtype=np.int32)
    return freeze_all(Periods(offsets, np.repeat(span.begin, rows), np.repeat(span.end, rows)))


# --- what is kept in memory


class Shelf:
    """The collection that was opened last, and the extents of all that were asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: tuple[Any, Collection] | None = None
        self._extents: dict[Any, Extent | None] = {}

    def open(self, source: ServedData) -> Collection:
        """Open a collection; it is read again when its files have changed."""
        key = source, source.version
        with self._lock:
            if self._opened is None or self._opened[0] != key:
                self._opened = None
                self._opened = key, Collection.open(source)
            return self._opened[1]

    def extent(self, source: ServedData) -> Extent | None:
        """Return where and when the trips are: at least, as the statistics of the files say; None without trips."""
        key = source, source.version
        with self._lock:
            if key not in self._extents:
                self._extents[key] = find_extent(source)
            return self._extents[key]


def find_extent(source: ServedData) -> Extent | None:
    """Return the extent of a data set from the statistics of its files, or else from its rows."""
    try:
        bounds = [bound for file in source.files for bound in _bounds(file)]
    except (pa.ArrowException, OSError) as error:
        raise BadInput(
            f"{source.name}: {str(error).splitlines()[0]}", hint="Create the data set again.", code="damaged-output"
        ) from error
    if not bounds:
        return None
    edges = [
        pick(bound[place] for bound in bounds) for pick, place in zip((min, max) * 3, (0, 1, 2, 3, 4, 5), strict=True)
    ]
    t0, t1, x0, x1, y0, y1 = edges
    # the edges of a rectangle of the plane are curves on the globe
    along = np.linspace(0.0, 1.0, 21)
    x = np.concatenate([x0 + (x1 - x0) * along] * 2 + [np.full(21, x0), np.full(21, x1)])
    y = np.concatenate([np.full(21, y0), np.full(21, y1)] + [y0 + (y1 - y0) * along] * 2)
    lon, lat = source.system.locate(x, y)
    box = float(lon.min()), float(lat.min()), float(lon.max()), float(lat.max())
    return Extent(box, (int(t0), int(t1)))


def _bounds(file: Path) -> Iterator[tuple[Any, ...]]:
    """Return the least and greatest instant, x and y of each row group."""
    with pq.ParquetFile(file) as opened:
        leaves = {f"{TRIP}.{name}.": name for name in ("t", "x", "y")}
        for group in range(opened.num_row_groups):
            found: dict[str, tuple[Any, Any]] = {}
            described = opened.metadata.row_group(group)
            for column in (described.column(number) for number in range(described.num_columns)):
                name = next((leaf for path, leaf in leaves.items() if column.path_in_schema.startswith(path)), None)
                if name and column.statistics is not None and column.statistics.has_min_max:
                    found[name] = column.statistics.min, column.statistics.max
            if len(found) == len(leaves):
                yield (*map(_micros, found["t"]), *found["x"], *found["y"])
            else:
                yield from _measured(opened.read_row_group(group, columns=[TRIP])[TRIP])


def _measured(column: pa.ChunkedArray) -> Iterator[tuple[Any, ...]]:
    m: MPoints = read(column.combine_chunks())
    if len(m.t):
        yield tuple(edge(values) for values in (m.t, m.x, m.y) for edge in (np.min, np.max))


def _micros(instant: Any) -> int:
    return int(pa.scalar(instant, pa.timestamp("us", "UTC")).value)
