"""The positions of a layer of a job, as of its last committed batch, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slipstream._archive.trip_tables import TRIP
from slipstream._console.errors import NotFound
from slipstream._console.maps.map_layers import MapLayer, find_layers
from slipstream._console.maps.map_positions import Positions, add_speed, read_positions, read_trips_as_positions
from slipstream._cuboid.query.one_off import run_query
from slipstream._cuboid.schema import AST
from slipstream._cuboid.snapshots.snapshot import Snapshot
from slipstream._io import outputs

#: the most positions of one response, and the most trips that are looked at for them
MOST_POSITIONS, _MOST_TRIPS = 1_000_000, 20_000


class ReadLayer(NamedTuple):
    """Positions, the last batch that they are part of, and whether older ones were left out."""

    positions: Positions
    batch: int
    is_cut: bool


def pick_layer(folder: Path, name: str) -> MapLayer:
    """Return the layer of a job with a name."""
    found = {layer.name: layer for layer in find_layers(folder)}
    if name not in found:
        raise NotFound(
            f"No layer {name!r} in this job.", hint=f"It has: {', '.join(found) or 'no output with a place'}."
        )
    return found[name]


def read_layer(folder: Path, layer: MapLayer, crs: str, most: int, after: int = -1) -> ReadLayer:
    """Read the newest positions of a layer, at most ``most``; only those of batches after ``after``."""
    if layer.kind == "cuboid":
        return _read_cuboid(folder, layer, crs, most)
    visible = outputs.visible_files(folder, layer.name, since=after + 1)
    is_trips = layer.kind == "trips"
    stored = sum(file.rows for file in visible.files)
    rows = min(most, _MOST_TRIPS) if is_trips else most
    table = outputs.read_newest(folder, layer.name, min(rows, stored) or 1, until=visible.last)
    table = table.filter(pc.field(outputs.BATCH) > after).drop_columns(outputs.BATCH)
    is_cut = table.num_rows < stored and after < 0
    if not is_trips:
        return ReadLayer(add_speed(read_positions(table, layer, crs)), visible.last, is_cut)
    found = read_trips_as_positions(table, layer, crs, most=most)
    total = pc.sum(pc.list_value_length(pc.struct_field(table[TRIP].combine_chunks(), "t"))).as_py() or 0
    return ReadLayer(found, visible.last, is_cut or len(found.t) < total)


def _read_cuboid(folder: Path, layer: MapLayer, crs: str, most: int) -> ReadLayer:
    """Read the current place of each key: what a cuboid knows of now."""
    snapshot = Snapshot.open(folder)
    names = [layer.x, layer.y, *layer.attributes]
    past = {one.name for one in snapshot.schemas[layer.name].attributes if isinstance(one, AST)}
    chosen = ", ".join([layer.id, *(f"{name}[0]" if name in past else name for name in names)])
    found = list(run_query(snapshot, f"SELECT {chosen} FROM {layer.name}").values())
    columns = {name: np.asarray(values)[:most] for name, values in zip([layer.id, *names], found, strict=True)}
    is_cut = len(found[0]) > most
    return ReadLayer(read_positions(pa.table(columns), layer, crs), snapshot.batch, is_cut)
