"""GPS receivers on recorded movement: positions at an interval, with noise, jitter and losses.

Every vehicle of a data set carries one. What it reports is a function of the seed and the trip, so a feed can be driven
again, in parts, or to another destination, and is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slipstream._archive.trip_tables import TRIP, TRIPS, is_archive, read_trips, trip_outputs
from slipstream._bench.driving.encoders import Encoding, encode_csv, encode_objects
from slipstream._berlinmod.dataset import Dataset
from slipstream._errors import BadArgument
from slipstream._io.outputs import BATCH
from slipstream._moving.columns import MPoints, read
from slipstream._moving.space.plane import Plane
from slipstream._tools.numba_tools import Floats, Ints, Longs, compiled, uniform

#: what a receiver reports: seconds since 1970, degrees, km/h, and degrees clockwise from north
COLUMNS = ("id", "time", "lon", "lat", "speed", "heading")
#: BerlinMOD's plane has no reference system: the middle of its city is put where Berlin's is
CITY = Plane(13.3777, 52.5163, 1.0, 9_500.0, 11_500.0)
MICROS = 1_000_000
#: a receiver is silent when its vehicle has stood for so long, in microseconds
SLEEP = 300 * MICROS
#: the random numbers of a report are for these
_PHASE, _LOSS, _JITTER, _RADIUS, _ANGLE = range(5)


def encoding(name: str) -> Encoding:
    """Return an encoding of positions; CSV has no header."""
    known = {
        "json": Encoding(".json", encode_objects, bytes.splitlines),
        "csv": Encoding(".csv", encode_csv, bytes.splitlines),
    }
    if name not in known:
        raise BadArgument(
            f"--format {name}: not a format of positions.",
            hint=f"Use one of: {', '.join(known)}.",
            code="unknown-value",
            expected=[*known],
            found=name,
        )
    return known[name]


def place_city(centre: str) -> Plane:
    """Return the plane of BerlinMOD's city with its middle at LON,LAT; Berlin's if that is empty."""
    if not centre:
        return CITY
    try:
        lon, lat = map(float, centre.split(","))
    except ValueError as error:
        raise BadArgument(
            f"--centre {centre}: not a place.", hint="Write longitude,latitude: 13.4,52.5.", code="malformed-value"
        ) from error
    return Plane(lon, lat, CITY.scale, CITY.x0, CITY.y0)


@dataclass(frozen=True)
class GpsReceiver:
    """How positions are received: every ``interval`` seconds, up to ``jitter`` later, some lost, off by ``noise``.

    ``noise`` is the standard deviation in metres, east and north; ``loss`` the share of reports that do not arrive. A
    receiver sleeps when its vehicle has stood for five minutes.
    """

    interval: float = 10.0
    noise: float = 0.0
    loss: float = 0.0
    jitter: float = 0.0
    seed: int = 1

    def __post_init__(self) -> None:
        checks = (
            (0.1 <= self.interval <= 3600, f"--interval {self.interval}", "Give 0.1 to 3600 seconds."),
            (0 <= self.noise <= 10_000, f"--noise {self.noise}", "Give 0 to 10000 metres."),
            (0 <= self.loss < 1, f"--loss {self.loss}", "Give a share: 0 or more, less than 1."),
            (0 <= self.jitter < self.interval, f"--jitter {self.jitter}", "Give less than the interval."),
        )
        for good, what, hint in checks:
            if not good:
                raise BadArgument(f"{what}: out of range.", hint=hint, code="out-of-range")

    def draw(self, trip: Ints | Longs, number: Longs, purpose: int) -> Floats:
        """Return numbers in [0, 1) for reports of trips."""
        keys = (trip.astype(np.uint64) << np.uint64(32)) ^ (number.astype(np.uint64) << np.uint64(3))
        return uniform(keys ^ np.uint64(purpose) ^ (np.uint64(self.seed & 0xFFFF) << np.uint64(48)))


@dataclass(frozen=True)
class Movement:
    """The recorded trips of vehicles, and the plane that they are in."""

    ids: pa.Array  # of the vehicle of each trip
    trips: MPoints
    plane: Plane

    @property
    def begin(self) -> int:
        """The first second."""
        return int(self.trips.t.min() // MICROS)

    @property
    def seconds(self) -> int:
        """How many seconds it lasts."""
        return int(self.trips.t.max() // MICROS) - self.begin + 1


def open_movement(folder: Path, plane: Plane = CITY) -> Movement:
    """Open a BerlinMOD data set or an archive; ``plane`` is for those without a reference system."""
    if (folder / "dataMtrip").is_dir():
        srid = Dataset.open(folder).manifest.srid
        parts = pq.read_table(folder / "dataMtrip", columns=["Moid", TRIP]).sort_by("Moid")
        return _read_movement(folder, parts, "Moid", _find_plane(folder, srid) if srid else plane)
    if not folder.is_dir() or not is_archive(folder):
        raise BadArgument(
            f"{folder}: neither a BerlinMOD data set nor trips.",
            hint="Make one: `slipstream berlinmod generate --out DATA`, or `slipstream archive INPUT --out DATA`.",
            code="no-such-file" if not folder.exists() else "wrong-file-type",
        )
    output = (trip_outputs(folder) or [TRIPS])[0]
    names = [name for name in _read_column_names(folder, output) if name not in (TRIP, BATCH)]
    return _read_movement(folder, read_trips(folder, [names[0], TRIP], output), names[0], plane)


def _read_column_names(folder: Path, output: str) -> Sequence[str]:
    from slipstream._io import outputs

    if trip_outputs(folder):
        return list(outputs.visible_files(folder, output).schema.names)
    return list(pq.read_schema(next(iter(sorted((folder / TRIPS).rglob("*.parquet"))))).names)


def _find_plane(folder: Path, srid: int) -> Plane:
    zone = srid % 100
    if srid // 100 not in (326, 327) or not 1 <= zone <= 60:
        raise BadArgument(
            f"{folder}: EPSG:{srid} is not a UTM zone.",
            hint="Load the data set again, in a UTM zone.",
            code="bad-coordinates",
        )
    return Plane.utm(zone, south=srid // 100 == 327)


def _read_movement(folder: Path, table: pa.Table, who: str, plane: Plane) -> Movement:
    trips = read(table[TRIP].combine_chunks())
    if not isinstance(trips, MPoints) or not trips.t.size:
        raise BadArgument(f"{folder}: has no trips.", hint="Use a data set with trips.", code="empty-input")
    return Movement(table[who].combine_chunks(), trips, plane)


@compiled
def count_reports(m: MPoints, first: Longs, every: int, since: int, until: int) -> int:
    """Return how many reports are due, and at most how many are taken."""
    count = 0
    for row in range(m.rows.size - 1):
        if m.rows[row + 1] > m.rows[row]:
            begin, end = max(m.t[m.rows[row]] + first[row], since), min(m.t[m.rows[row + 1] - 1], until)
            count += max((end - begin) // every + 2, 0)
    return count


@compiled
def take_positions(
    m: MPoints,
    first: Longs,
    every: int,
    since: int,
    until: int,
    trip: Ints,
    number: Longs,
    t: Longs,
    place: Floats,
) -> int:
    """Take the positions of trips at multiples of ``every`` after ``first``; returns how many.

    ``place`` gets x, y, and the velocity east and north in metres per second. Nothing is known between sequences.
    """
    n = 0
    for row in range(m.rows.size - 1):
        if m.rows[row + 1] == m.rows[row]:
            continue
        start = m.t[m.rows[row]] + first[row]
        k = max((since - start + every - 1) // every, 0)
        for part in range(m.parts[row], m.parts[row + 1]):
            v = m.rows[row] + m.starts[part]
            last = m.rows[row + 1] if part + 1 == m.parts[row + 1] else m.rows[row] + m.starts[part + 1]
            while start + k * every < m.t[v]:
                k += 1
            while v + 1 < last:
                now = start + k * every
                if now >= until:
                    break
                if now >= m.t[v + 1]:
                    v += 1
                    continue
                if now - m.t[v] > SLEEP and m.x[v + 1] == m.x[v] and m.y[v + 1] == m.y[v]:
                    k = (m.t[v + 1] - start + every - 1) // every
                    continue
                span = (m.t[v + 1] - m.t[v]) / 1e6
                east, north = (m.x[v + 1] - m.x[v]) / span, (m.y[v + 1] - m.y[v]) / span
                after = (now - m.t[v]) / 1e6
                trip[n], number[n], t[n] = row, k, now
                place[0, n], place[1, n] = m.x[v] + after * east, m.y[v] + after * north
                place[2, n], place[3, n] = east, north
                n += 1
                k += 1
    return n


def receive(movement: Movement, receiver: GpsReceiver, since: int = 0, until: int | None = None) -> pa.Table:
    """Return what is received in some seconds of a movement, counted from its first, in the order of time."""
    m, origin = movement.trips, movement.begin * MICROS
    end = origin + (movement.seconds if until is None else until) * MICROS
    every = round(receiver.interval * MICROS)
    rows = np.arange(m.rows.size - 1)
    phase = (receiver.draw(rows, np.zeros_like(rows), _PHASE) * every).astype(np.int64)
    # reports come up to the jitter later than they are due, so some are due before
    begin = origin + since * MICROS - round(receiver.jitter * MICROS)
    room = count_reports(m, phase, every, begin, end)
    trip, number, t = np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int64)
    place = np.empty((4, room))
    taken = take_positions(m, phase, every, begin, end, trip, number, t, place)
    trip, number, t, place = trip[:taken], number[:taken], t[:taken], place[:, :taken]
    jitter = (receiver.draw(trip, number, _JITTER) * receiver.jitter * MICROS).astype(np.int64)
    received = receiver.draw(trip, number, _LOSS) >= receiver.loss
    received &= (t + jitter >= origin + since * MICROS) & (t + jitter < end)
    x, y = _blur(place, jitter / MICROS, receiver, trip, number)
    order = np.flatnonzero(received)
    order = order[np.lexsort((trip[order], (t + jitter)[order]))]
    lon, lat = movement.plane.locate(x[order], y[order])
    east, north = place[2:, order]
    columns = {
        "id": movement.ids.take(pa.array(trip[order])),
        "time": np.round((t + jitter)[order] / MICROS, 3),
        "lon": np.round(lon, 7),
        "lat": np.round(lat, 7),
        "speed": np.round(3.6 * np.hypot(east, north), 1),
        "heading": np.round(np.degrees(np.arctan2(east, north)) % 360, 0) % 360,
    }
    return pa.table(columns)


def _blur(place: Floats, late: Floats, receiver: GpsReceiver, trip: Ints, number: Longs) -> tuple[Floats, Floats]:
    """Return positions as they are received: a little later on the way, and off by a normal error (Box and Muller)."""
    radius = receiver.noise * np.sqrt(-2 * np.log1p(-receiver.draw(trip, number, _RADIUS)))
    angle = 2 * np.pi * receiver.draw(trip, number, _ANGLE)
    x, y, east, north = place
    return x + late * east + radius * np.cos(angle), y + late * north + radius * np.sin(angle)


def split_seconds(positions: pa.Table, begin: int) -> Iterator[tuple[int, pa.Table]]:
    """Return the positions of every second that has some, counted from ``begin``."""
    second = np.floor(positions["time"].to_numpy()).astype(np.int64) - begin
    cuts = np.flatnonzero(np.diff(second)) + 1
    for first, last in zip([0, *cuts], [*cuts, second.size], strict=True):
        if last > first:
            yield int(second[first]), positions.slice(first, last - first)


def spread_vehicles(positions: pa.Table, partitions: int) -> list[pa.Table]:
    """Divide the positions of a second among the partitions of a topic, by vehicle."""
    if partitions == 1:
        return [positions]
    text = pc.cast(positions["id"], pa.string()).to_pylist()
    part = np.array([sum(name.encode()) % partitions for name in text])
    return [positions.filter(pa.array(part == number)) for number in range(partitions)]
