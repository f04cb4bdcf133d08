"""Recorded journeys in memory, for the Trajectories page to play and query.

A data set of ``slipstream berlinmod`` or an archive of ``slipstream archive`` is read once, as arrays for the moving
kernels, and every query is one call of those kernels: all movement in a time span (*atperiods*), vehicles in a region
(*at*), the distance travelled (*travelled*).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._archive.ended_trips import APART
from slipstream._archive.trip_tables import TRIP, TRIPS, is_archive, is_linear_city, read_trips, trip_outputs
from slipstream._berlinmod.dataset import FORMAT, Dataset
from slipstream._console.workspace import Workspace, format_of
from slipstream._errors import BadArgument, BadInput
from slipstream._io import outputs
from slipstream._moving.columns import Lines, MPoints, Periods, freeze, read
from slipstream._moving.kernels import motion, places
from slipstream._roads.street_network import StreetNetwork
from slipstream._tools.numba_tools import Floats, Ints, Longs

SECOND = 1_000_000
#: the most vertices to load: 24 bytes each
MOST = 30_000_000


@dataclass(frozen=True)
class RecordedVehicle:
    """A vehicle of a data set."""

    licence: str
    model: str = ""
    type: str = ""


@dataclass(frozen=True)
class Stay:
    """A vehicle in the region, and when."""

    vehicle: int
    seconds: float
    first: float
    last: float
    visits: int


@dataclass(frozen=True)
class Drive:
    """One drive of a vehicle, from departure to arrival."""

    begin: float
    end: float
    metres: float
    fastest: float


class DataSet(NamedTuple):
    """The place of journeys: a folder and, for a job, its output."""

    folder: Path
    output: str = TRIPS


def data_sets(workspace: Workspace) -> dict[str, DataSet]:
    """Return the data sets and archives of the workspace, by name; a job has one for each archive output."""
    found: dict[str, DataSet] = {}
    for name, folder in workspace.find(lambda folder: is_berlinmod(folder) or is_archive(folder)).items():
        several = trip_outputs(folder) or [TRIPS]
        found |= {name if len(several) == 1 else f"{name}/{one}": DataSet(folder, one) for one in several}
    return found


def is_berlinmod(folder: Path) -> bool:
    """Return whether a folder is a BerlinMOD data set."""
    return format_of(folder) == FORMAT


class Journeys:
    """The movements of one data set."""

    def __init__(
        self,
        vehicles: list[RecordedVehicle],
        owner: Ints,
        trips: MPoints,
        network: StreetNetwork | None = None,
        *,
        on_expressways: bool = False,
    ) -> None:
        self.vehicles, self.owner, self.trips, self.network = vehicles, owner, trips, network
        self._on_expressways = on_expressways

    @classmethod
    def open(cls, data: DataSet) -> Journeys:
        """Read a data set."""
        return cls._berlinmod(Dataset.open(data.folder)) if is_berlinmod(data.folder) else cls._archive(*data)

    @classmethod
    def _berlinmod(cls, data: Dataset) -> Journeys:
        if data.manifest.units > MOST:
            raise BadArgument(
                f"{data.path.name} has {data.manifest.units:,} units of movement; the page supports {MOST:,}.",
                hint="Query it with `slipstream berlinmod run`, or generate one with a smaller --scale.",
                code="too-large",
            )
        cars = _table(data.path / "dataMcar", ["Moid", "Licence", "Model", "Type"]).sort_by("Moid")
        rows = cars.to_pylist()
        trips = _table(data.path / "dataMtrip", ["Moid", "Trip"])
        owner = np.searchsorted(cars["Moid"].to_numpy(), trips["Moid"].to_numpy()).astype(np.int32)
        vehicles = [RecordedVehicle(row["Licence"] or "", row["Model"] or "", row["Type"] or "") for row in rows]
        return cls(vehicles, owner, _movements(trips), data.network())

    @classmethod
    def _archive(cls, folder: Path, output: str) -> Journeys:
        with _report_unreadable(folder):
            trips = read_trips(folder, [_find_id_column(folder, output), TRIP], output)
        if not trips.num_rows:
            raise BadInput(f"{folder.name}: no trip has ended yet.", hint="Try again later.", code="not-ready")
        vids, owner = np.unique(trips[0].to_numpy(zero_copy_only=False), return_inverse=True)
        vehicles = [RecordedVehicle(str(vid)) for vid in vids.tolist()]
        return cls(vehicles, owner.astype(np.int32), _movements(trips), on_expressways=is_linear_city(folder))

    @cached_property
    def begins(self) -> Longs:
        """The begin of each trip; the maximum for empty trips."""
        return self._at(self.trips.rows[:-1], np.iinfo(np.int64).max)

    @cached_property
    def ends(self) -> Longs:
        """The end of each trip; the minimum for empty trips."""
        return self._at(self.trips.rows[1:] - 1, np.iinfo(np.int64).min)

    def _at(self, vertices: Ints, never: int) -> Longs:
        empty = np.diff(self.trips.rows) == 0
        return np.where(empty, never, self.trips.t[np.where(empty, 0, vertices)])

    @cached_property
    def span(self) -> tuple[float, float]:
        """The first and last second of the data set."""
        return self.begins.min() / SECOND, self.ends.max() / SECOND

    @cached_property
    def box(self) -> tuple[float, float, float, float]:
        """The bounding box: smallest x and y, largest x and y."""
        xs, ys = [self.trips.x], [self.trips.y]
        if self.network is not None:
            xs.append(self.network.x)
            ys.append(self.network.y)
        x, y = np.concatenate(xs), np.concatenate(ys)
        return float(x.min()), float(y.min()), float(x.max()), float(y.max())

    @cached_property
    def _boxes(self) -> tuple[Floats, Floats, Floats, Floats]:
        return motion.boxes(self.trips)

    # --- queries

    def during(self, begin: float, end: float) -> tuple[Ints, MPoints]:
        """Return all movement in a time span: the vehicle of each row, and the rows."""
        t0, t1 = int(begin * SECOND), int(end * SECOND)
        rows = np.flatnonzero((self.begins <= t1) & (self.ends >= t0))
        part = _rows(self.trips, rows)
        return self.owner[rows], motion.restrict(part, _period(t0, t1, len(rows)))

    def of(self, vehicle: int) -> MPoints:
        """Return the trips of one vehicle, in time order."""
        rows = np.flatnonzero(self.owner == vehicle)
        return _rows(self.trips, rows[np.argsort(self.begins[rows], kind="stable")])

    def drives(self, vehicle: int) -> list[Drive]:
        """Return when, how far and how fast a vehicle drove."""
        found, trips = [], self.of(vehicle)
        lengths = motion.lengths(trips)
        for row in np.flatnonzero(lengths > 0).tolist():
            part = slice(trips.rows[row], trips.rows[row + 1])
            t, x, y = trips.t[part] / SECOND, trips.x[part], trips.y[part]
            speeds = np.hypot(np.diff(x), np.diff(y)) / np.maximum(np.diff(t), 1e-6)
            found.append(Drive(float(t[0]), float(t[-1]), float(lengths[row]), float(speeds.max(initial=0.0))))
        return found

    def find_visitors(self, region: Sequence[tuple[float, float]], begin: float, end: float) -> list[Stay]:
        """Return the vehicles in a region in a period, including border and ends, longest stay first."""
        owner, there = self._near(region, begin, end)
        when = places.when_inside(there, _repeat_region(region, len(owner)), False)
        stays: dict[int, list[tuple[int, int]]] = {}
        for row, vehicle in enumerate(owner.tolist()):
            part = slice(when.rows[row], when.rows[row + 1])
            spans = zip(when.begin[part].tolist(), when.end[part].tolist(), strict=True)
            stays.setdefault(vehicle, []).extend(spans)
        found = [_stay(vehicle, spans) for vehicle, spans in stays.items() if spans]
        return sorted(found, key=lambda stay: (-stay.seconds, stay.vehicle))

    def _near(self, region: Sequence[tuple[float, float]], begin: float, end: float) -> tuple[Ints, MPoints]:
        """Return the movement in a period of trips whose bounding box intersects the region's."""
        t0, t1 = int(begin * SECOND), int(end * SECOND)
        corners = np.array(region)
        (x0, y0), (x1, y1) = corners.min(axis=0), corners.max(axis=0)
        bx0, by0, bx1, by1 = self._boxes
        meets = (bx0 <= x1) & (bx1 >= x0) & (by0 <= y1) & (by1 >= y0)
        rows = np.flatnonzero(meets & (self.begins <= t1) & (self.ends >= t0))
        part = motion.restrict(_rows(self.trips, rows), _period(t0, t1, len(rows)))
        return self.owner[rows], MPoints(*(freeze(array) for array in part))

    def streets(self) -> tuple[Ints, Floats, Floats, Floats]:
        """Return the lines of the streets, each street once: offsets, x, y, and the speed of each line in km/h.

        Without a street network there are none, unless the trips are on Linear Road's expressways.
        """
        if self.network is None:
            return self._expressways(np.unique(np.round(self.trips.y / APART)) if self._on_expressways else np.empty(0))
        network = self.network
        once = np.flatnonzero(network.source < network.target)
        sizes = (network.shape[once + 1] - network.shape[once]).astype(np.int64)
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        inner = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
        at = np.repeat(network.shape[once].astype(np.int64), sizes) + inner
        return offsets.astype(np.int32), network.shape_x[at], network.shape_y[at], network.vmax[once]

    def _expressways(self, ways: Floats) -> tuple[Ints, Floats, Floats, Floats]:
        """Return Linear City's streets: a straight line for each expressway with trips."""
        x0, _, x1, _ = self.box
        offsets = np.arange(len(ways) + 1, dtype=np.int32) * 2
        return offsets, np.tile([x0, x1], len(ways)), np.repeat(ways * APART, 2), np.full(len(ways), 70.0)


def _table(folder: Path, columns: list[str]) -> pa.Table:
    """Read columns of a folder of Parquet files."""
    with _report_unreadable(folder):
        return pq.read_table(folder, columns=columns)


def _find_id_column(folder: Path, output: str) -> str:
    """Return the column that identifies vehicles, whose name depends on what wrote the trips."""
    if output in outputs.output_names(folder):
        names = outputs.visible_files(folder, output).schema.names
    else:
        names = pq.read_schema(next((folder / TRIPS).rglob("*.parquet"))).names
    others = [name for name in names if name not in (TRIP, outputs.BATCH)]
    return "vid" if "vid" in names or not others else others[0]


@contextmanager
def _report_unreadable(folder: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, KeyError) as error:
        raise BadInput(
            f"{folder.name}: {str(error).splitlines()[0]}", hint="Create the data set again.", code="damaged-output"
        ) from error


def _movements(table: pa.Table) -> MPoints:
    column = table.column("Trip").combine_chunks()
    if len(column) == 0:
        raise BadInput(
            "The data set has no trips.", hint="Create it again with more vehicles or days.", code="empty-input"
        )
    trips: MPoints = read(column)
    return trips


def _rows(m: MPoints, rows: npt.NDArray[np.intp]) -> MPoints:
    """Return some rows of a column of moving points."""
    vertices, at = _take_rows(m.rows, rows)
    parts, starts = _take_rows(m.parts, rows)
    taken = MPoints(vertices, m.t[at], m.x[at], m.y[at], parts, m.starts[starts])
    return MPoints(*(freeze(array) for array in taken))


def _take_rows(offsets: Ints, rows: npt.NDArray[np.intp]) -> tuple[Ints, Longs]:
    """Return the new offsets of some rows, and the indices of their values."""
    first = offsets[rows].astype(np.int64)
    sizes = offsets[rows + 1] - first
    fresh = np.concatenate(([0], np.cumsum(sizes)))
    at = np.arange(fresh[-1]) - np.repeat(fresh[:-1], sizes) + np.repeat(first, sizes)
    return fresh.astype(np.int32), at


def _period(begin: int, end: int, rows: int) -> Periods:
    offsets = np.arange(rows + 1, dtype=np.int32)
    return Periods(freeze(offsets), freeze(np.full(rows, begin)), freeze(np.full(rows, end)))


def _repeat_region(region: Sequence[tuple[float, float]], rows: int) -> Lines:
    corners = np.array(region, dtype=np.float64)
    offsets = np.arange(rows + 1, dtype=np.int32) * len(corners)
    x, y = np.tile(corners[:, 0], rows), np.tile(corners[:, 1], rows)
    parts = np.arange(rows + 1, dtype=np.int32)
    return Lines(*(freeze(a) for a in (offsets, x, y, parts, np.zeros(rows, dtype=np.int32))))


def _stay(vehicle: int, spans: list[tuple[int, int]]) -> Stay:
    """Combine the spans of one vehicle; touching spans are merged."""
    united: list[list[int]] = []
    for begin, end in sorted(spans):
        if united and begin <= united[-1][1]:
            united[-1][1] = max(united[-1][1], end)
        else:
            united.append([begin, end])
    seconds = sum(end - begin for begin, end in united) / SECOND
    return Stay(vehicle, seconds, united[0][0] / SECOND, united[-1][1] / SECOND, len(united))


def sequences(owner: Ints, m: MPoints) -> tuple[Ints, Ints]:
    """Return the offsets of sequences among the vertices, and the vehicle of each."""
    counts = np.diff(m.parts)
    starts = m.starts + np.repeat(m.rows[:-1], counts)
    return np.append(starts, m.rows[-1]).astype(np.int32), np.repeat(owner, counts)


def pack_arrays(*arrays: np.ndarray[Any, Any]) -> bytes:
    """Encode arrays for the page: their number, their lengths, then the bytes of each, aligned to eight."""
    head = np.array([len(arrays), *(len(array) for array in arrays)], dtype="<u4").tobytes()
    parts = [head, *(array.astype(array.dtype.newbyteorder("<")).tobytes() for array in arrays)]
    return b"".join(part + b"\0" * (-len(part) % 8) for part in parts)
