"""What of a job can be drawn on a map: outputs and cuboids whose columns have a place.

A layer is found by the names and types of columns alone, so that the list of all jobs is cheap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa

from slipstream._archive.trip_tables import TRIP
from slipstream._cuboid.snapshots.snapshot_files import FOLDER as SNAPSHOT
from slipstream._cuboid.snapshots.snapshot_files import Catalogue
from slipstream._errors import SlipstreamError
from slipstream._io import outputs
from slipstream._moving.exchange.trip_files import PLACES

Kind = Literal["positions", "trips", "cuboid"]

#: names of columns that say who moved and when, in the order in which they are looked for
IDS = ("id", "vid", "vin", "vehicle", "vehicle_id", "licence", "car", "device", "mmsi", "trip", "name")
TIMES = ("time", "t", "timestamp", "ts", "at", "datetime", "instant", "second")
#: pairs of columns that are a place, degrees first: a table that has both has the metres of some plane in x and y
_PLACES = (*PLACES[1:], PLACES[0])


@dataclass(frozen=True)
class MapLayer:
    """A table with places: which columns say where, when and who, and what points can be coloured by."""

    name: str
    kind: Kind
    x: str = ""  # empty for trips, whose column has the place
    y: str = ""
    time: str = ""  # empty: positions without a time
    id: str = ""  # empty: positions that belong to nobody
    in_degrees: bool = False  # as far as the names say
    attributes: tuple[str, ...] = ()


def find_layers(folder: Path) -> list[MapLayer]:
    """Return the layers of a job; an output that cannot be read has none."""
    return [*_find_in_outputs(folder), *_find_in_cuboids(folder)]


def find_layer(name: str, schema: pa.Schema) -> MapLayer | None:
    """Return how a table is drawn; None if it has no place.

    >>> places = {"lon": pa.float64(), "lat": pa.float64()}
    >>> found = find_layer("gps", pa.schema({"id": pa.int64(), "t": pa.float64(), **places}))
    >>> (found.x, found.y, found.time, found.id, found.in_degrees)
    ('lon', 'lat', 't', 'id', True)
    >>> find_layer("tolls", pa.schema({"id": pa.int64(), "toll": pa.int64()}))
    """
    names = [name for name in schema.names if name != outputs.BATCH]
    if TRIP in names and pa.types.is_struct(schema.field(TRIP).type):
        others = [one for one in names if one != TRIP]
        return MapLayer(
            name, "trips", id=_pick(IDS, others) or next(iter(others), ""), attributes=_plain(schema, others)
        )
    pair = next((pair for pair in _PLACES if all(_is_number(schema, one) for one in pair)), None)
    if pair is None:
        return None
    time, id_ = _pick(TIMES, names) or _first_timestamp(schema), _pick(IDS, names)
    rest = [one for one in names if one not in (*pair, time, id_)]
    return MapLayer(name, "positions", *pair, time, id_, pair in PLACES[1:], _plain(schema, rest))


def _find_in_outputs(folder: Path) -> Iterator[MapLayer]:
    for name in outputs.output_names(folder):
        with suppress(SlipstreamError, OSError):
            found = find_layer(name, outputs.visible_files(folder, name).schema)
            if found is not None:
                yield found


def _find_in_cuboids(folder: Path) -> Iterator[MapLayer]:
    if not (folder / SNAPSHOT).is_dir():
        return
    with suppress(SlipstreamError, OSError):
        for name, schema in Catalogue.read(folder / SNAPSHOT).cuboids.items():
            pair = next((pair for pair in _PLACES if set(pair) <= set(schema.names)), None)
            if pair is not None:
                rest = tuple(one for one in schema.names if one not in pair)
                yield MapLayer(name, "cuboid", *pair, "", schema.key, pair in PLACES[1:], rest)


def _pick(wanted: Sequence[str], names: Sequence[str]) -> str:
    return next((one for one in wanted if one in names), "")


def _first_timestamp(schema: pa.Schema) -> str:
    return next((field.name for field in schema if pa.types.is_timestamp(field.type)), "")


def _is_number(schema: pa.Schema, name: str) -> bool:
    return name in schema.names and is_numeric(schema.field(name).type)


def is_numeric(kind: pa.DataType) -> bool:
    """Return whether values of a type are numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _plain(schema: pa.Schema, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that a point can be coloured by: numbers and texts, without those that order stored rows."""
    kinds = {name: schema.field(name).type for name in names if not name.startswith("_")}
    return tuple(
        name
        for name, kind in kinds.items()
        if is_numeric(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    )
