"""Positions for the map: rows of a table as tracks, in the metres of one plane.

The page draws everything in one plane: Web Mercator for what has a place on Earth, or a plane without a name. A track
is what moves in straight lines between its positions: all positions of one vehicle, or one trip.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slipstream._archive.trip_tables import TRIP
from slipstream._console.maps.map_layers import MapLayer, is_numeric
from slipstream._console.trips.journeys import sequences
from slipstream._errors import BadInput
from slipstream._moving.columns import MPoints, read
from slipstream._moving.space.plane import are_degrees
from slipstream._moving.space.systems import System
from slipstream._tools.numba_tools import Floats, Ints, Longs

World = Literal["earth", "plane"]

#: the radius of the sphere of Web Mercator in metres, and the latitude where it ends
RADIUS, _NORTHMOST = 6_378_137.0, 85.05
#: attributes of a point that are sent, and different texts that one may have
MOST_ATTRIBUTES, MOST_TEXTS = 8, 64
#: what is computed where a table has no speed of its own
SPEED = "speed_kmh"
#: numbers for times beyond it are milliseconds: the year 5138 in seconds
_SECONDS = 1e11


class Attribute(NamedTuple):
    """A value of each position; ``texts`` if the values are numbers of texts."""

    values: Floats
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Positions:
    """Tracks: positions ``rows[k]:rows[k + 1]`` belong to ``owners[owner[k]]``, in the order of time."""

    owners: list[str]
    owner: Ints
    rows: Ints
    t: Floats  # seconds, since 1970 or since the begin of a run
    x: Floats
    y: Floats
    world: World
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    is_timed: bool = True
    unplaced: int = 0  # rows without a place or a time, which are left out


def mercator(lon: Any, lat: Any) -> tuple[Floats, Floats]:
    """Project degrees to Web Mercator (EPSG:3857).

    >>> x, y = mercator([90.0, 180.0], [-45.0, 45.0])
    >>> x.round(2).tolist(), y.round(2).tolist()
    ([10018754.17, 20037508.34], [-5621521.49, 5621521.49])
    """
    lat_ = np.radians(np.clip(np.asarray(lat, float), -_NORTHMOST, _NORTHMOST))
    return RADIUS * np.radians(np.asarray(lon, float)), RADIUS * np.log(np.tan(math.pi / 4 + lat_ / 2))


def place_on_map(x: Floats, y: Floats, crs: str, *, in_degrees: bool) -> tuple[Floats, Floats, World]:
    """Return coordinates in the plane of the map; ``crs`` is their system if it is known."""
    if crs:
        return *mercator(*System.parse(crs).locate(x, y)), "earth"
    return (*mercator(x, y), "earth") if in_degrees else (x, y, "plane")


def read_positions(table: pa.Table, layer: MapLayer, crs: str = "") -> Positions:
    """Return the rows of a table of positions as tracks."""
    x, y = (_read_numbers(table[name]) for name in (layer.x, layer.y))
    t = read_times(table[layer.time]) if layer.time else np.zeros(table.num_rows)
    in_degrees = layer.in_degrees and not crs
    good = np.isfinite(x) & np.isfinite(y) & (np.abs(t) <= _SECONDS)
    if in_degrees:
        good &= (np.abs(x) <= 180) & (np.abs(y) <= 90)
    owners, codes = _number_owners(table, layer.id)
    kept = np.flatnonzero(good)
    order = kept[np.lexsort((t[kept], codes[kept]))]
    codes = codes[order]
    # without a time nothing moves: each position is a track
    first = np.flatnonzero(np.diff(codes, prepend=-1)) if layer.time else np.arange(len(order))
    px, py, world = place_on_map(x[order], y[order], crs, in_degrees=in_degrees)
    attributes = {name: found.take(order) for name, found in _attributes(table, layer)}
    return Positions(
        owners=owners,
        owner=codes[first].astype(np.int32),
        rows=np.append(first, len(order)).astype(np.int32),
        t=t[order],
        x=px,
        y=py,
        world=world,
        attributes={name: one.attribute for name, one in attributes.items()},
        is_timed=bool(layer.time),
        unplaced=int(table.num_rows - len(order)),
    )


def read_trips_as_positions(table: pa.Table, layer: MapLayer, crs: str = "", *, most: int) -> Positions:
    """Return trips as tracks, the newest ``most`` positions of them, with the speed on the way as an attribute."""
    column = table[TRIP].combine_chunks()
    sizes = pc.list_value_length(pc.struct_field(column, "t")).fill_null(0).to_numpy()[::-1].cumsum()[::-1]
    kept = np.flatnonzero(sizes <= most)
    table, column = table.take(pa.array(kept)), column.take(pa.array(kept))
    trips: MPoints = read(column)
    labels, codes = _number_owners(table, layer.id)
    offsets, owner = sequences(codes.astype(np.int32), trips)
    row, _ = sequences(np.arange(len(kept), dtype=np.int32), trips)[::-1]
    spread = np.repeat(row, np.diff(offsets))
    in_degrees = not crs and are_degrees(trips.x, trips.y)
    x, y, world = place_on_map(trips.x, trips.y, crs, in_degrees=in_degrees)
    given = {name: found.take(spread).attribute for name, found in _attributes(table, layer)}
    made = Positions(labels, owner, offsets, trips.t / 1e6, x, y, world, given)
    return add_speed(made)


def add_speed(given: Positions) -> Positions:
    """Return positions with the speed towards each in km/h, unless they have one."""
    taken = {name.lower() for name in given.attributes}
    if not given.is_timed or any(name.startswith("speed") for name in taken) or len(taken) >= MOST_ATTRIBUTES:
        return given
    # lengths in Web Mercator are too long by 1 / cos(latitude) = cosh(y / R)
    stretch = np.cosh(given.y / RADIUS) if given.world == "earth" else np.ones(len(given.y))
    metres = np.hypot(np.diff(given.x), np.diff(given.y)) / stretch[1:]
    seconds = np.diff(given.t)
    speed = np.full(len(given.t), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        speed[1:] = np.where(seconds > 0, 3.6 * metres / seconds, np.nan)
    first = given.rows[:-1][np.diff(given.rows) > 0]
    speed[first] = np.where(np.diff(np.append(first, len(speed))) > 1, np.append(speed, np.nan)[first + 1], np.nan)
    return Positions(**{**given.__dict__, "attributes": {**given.attributes, SPEED: Attribute(speed)}})


def read_times(column: pa.ChunkedArray) -> Floats:
    """Return times in seconds: timestamps and texts since 1970, numbers as they are (milliseconds if they are huge)."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        try:
            column = pc.cast(column, pa.timestamp("us", "UTC"))
        except pa.ArrowInvalid as error:
            raise BadInput(
                f"A time cannot be read: {str(error).splitlines()[0]}.",
                hint="Write times as 2026-05-04T08:00:00Z, or as seconds since 1970.",
                code="unreadable-file",
            ) from error
    if pa.types.is_timestamp(column.type):
        micros = pc.cast(pc.cast(column, pa.timestamp("us", column.type.tz), safe=False), pa.int64())
        return _read_numbers(micros) / 1e6
    numbers = _read_numbers(column)
    return np.where(np.abs(numbers) > _SECONDS, numbers / 1000, numbers)


def _read_numbers(column: pa.ChunkedArray) -> Floats:
    found: Floats = pc.cast(column, pa.float64(), safe=False).to_numpy().astype(np.float64)
    return found


def _number_owners(table: pa.Table, id_: str) -> tuple[list[str], Longs]:
    """Return who is in a table, and the number of each row's; without ids each row has an owner without a name."""
    if not id_:
        return [""] * table.num_rows, np.arange(table.num_rows)
    found = pc.cast(table[id_], pa.string()).fill_null("").combine_chunks().dictionary_encode()
    encoded = found.chunk(0) if isinstance(found, pa.ChunkedArray) else found
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


@dataclass(frozen=True)
class _Column:
    attribute: Attribute

    def take(self, rows: Longs | Ints) -> _Column:
        return _Column(Attribute(self.attribute.values[rows], self.attribute.texts))


def _attributes(table: pa.Table, layer: MapLayer) -> Iterator[tuple[str, _Column]]:
    """Return the attributes of rows: numbers, and texts of which there are few."""
    sent = 0
    for name in layer.attributes:
        if name not in table.column_names or sent == MOST_ATTRIBUTES:
            continue
        found = _read_attribute(table[name])
        if found is not None:
            sent += 1
            yield name, _Column(found)


def _read_attribute(column: pa.ChunkedArray) -> Attribute | None:
    if is_numeric(column.type):
        return Attribute(_read_numbers(column))
    texts = pc.cast(column, pa.string())
    different = sorted(text for text in pc.unique(texts).to_pylist() if text is not None)
    if not 0 < len(different) <= MOST_TEXTS:
        return None
    codes = pc.index_in(texts, pa.array(different, pa.string()))
    return Attribute(_read_numbers(codes), tuple(different))
