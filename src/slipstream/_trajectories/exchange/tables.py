"""Trips as Parquet for others: GeoParquet, Parquet's own GEOMETRY, and TemporalParquet, MobilityDB's convention.

TemporalParquet has the trip as MEOS-WKB in a binary column, a JSON document in the footer that describes it, and
columns with its bounds, by whose statistics readers skip row groups.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._errors import MALFORMED, BadInput
from slipstream._moving import types
from slipstream._moving.columns import MPoints, read
from slipstream._moving.moving_point import MovingPoint, to_arrow
from slipstream._moving.space.systems import System
from slipstream._tools.files.staging import atomic_write
from slipstream._trajectories.cutting.assembling import TRIP
from slipstream._trajectories.exchange.binary import decode_meos, encode_meos, encode_path
from slipstream._trajectories.exchange.meos import common_system

GEO, TEMPORAL, GEOMETRY = "geo", "temporal", "geometry"
_BOUNDS = ("xmin", "xmax", "ymin", "ymax", "tmin", "tmax")

Batches = Iterable[pa.RecordBatch]


class _Wkb(pa.ExtensionType):  # type: ignore[misc]
    """Arrow's name for geometries, which its Parquet writer turns into the type GEOMETRY."""

    def __init__(self, crs: str) -> None:
        self._crs = crs
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return self._crs.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> _Wkb:
        return cls(serialized.decode())


def moving_points(batch: pa.RecordBatch) -> tuple[MPoints, list[MovingPoint]]:
    """Return the trips of a batch, as arrays and one by one."""
    m = read(batch[TRIP])
    return m, [MovingPoint.from_column(m, row) for row in range(len(m.rows) - 1)]


def _plain(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns beside the trip."""
    return {name: batch[name] for name in batch.schema.names if name != TRIP}


def _bounds(m: MPoints) -> dict[str, pa.Array]:
    """The box of each trip, which has at least one vertex."""
    first = m.rows[:-1]
    values: dict[str, pa.Array] = {}
    for name, column in (("x", m.x), ("y", m.y)):
        values |= {f"{name}min": pa.array(np.minimum.reduceat(column, first))}
        values |= {f"{name}max": pa.array(np.maximum.reduceat(column, first))}
    values["tmin"] = pa.array(m.t[first]).view(types.INSTANT)
    values["tmax"] = pa.array(m.t[m.rows[1:] - 1]).view(types.INSTANT)
    return values


def write_temporal(batches: Batches, crs: str, out: Path) -> None:
    """Write TemporalParquet: the column ``Trip`` as MEOS-WKB, its bounds, and the footer that describes them."""
    srid = System.parse(crs).srid if crs else 0
    column = {
        "encoding": "MEOS-WKB",
        "encoding_version": "1.0",
        "base_type": "tgeompoint",
        "interpolation": "linear",
        "srid": srid,
        "geodetic": False,
        "has_z": False,
    }
    footer = {"version": "1.0.0", "primary_temporal_column": TRIP, "columns": {TRIP: column}}

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        m, points = moving_points(batch)
        blobs = pa.array([encode_meos(point, srid) for point in points], pa.binary())
        srids = pa.array(np.full(len(points), srid, np.int32))
        return pa.RecordBatch.from_pydict({**_plain(batch), TRIP: blobs, **_bounds(m), "srid": srids})

    _write(batches, convert, {TEMPORAL: json.dumps(footer)}, out)


def read_temporal(path: Path) -> tuple[pa.Table, str]:
    """Read TemporalParquet: its columns with moving points, and the reference system."""
    with pq.ParquetFile(path) as file:
        footer = (file.schema_arrow.metadata or {}).get(TEMPORAL.encode())
        name = _primary_column(path, footer)
        table = file.read()
    decoded = [decode_meos(blob) for blob in table[name].to_pylist()]
    crs = common_system(str(path), {srid for _, srid in decoded})
    rest = [one for one in table.column_names if one not in (name, *_BOUNDS, "srid")]
    trips = table.select(rest).append_column(TRIP, to_arrow([m for m, _ in decoded]))
    return trips.replace_schema_metadata(None), crs


def is_temporal(path: Path) -> bool:
    """Whether a file is TemporalParquet."""
    if path.suffix != ".parquet" or not path.is_file():
        return False
    try:
        return TEMPORAL.encode() in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return False


def _primary_column(path: Path, footer: bytes | None) -> str:
    try:
        body = json.loads(footer or b"")
        name = str(body["primary_temporal_column"])
        column = body["columns"][name]
        known = (column["encoding"], column["base_type"], column["encoding_version"].split(".")[0])
    except MALFORMED as error:
        raise BadInput(f"{path}: not TemporalParquet ({error}).", hint="", code="unreadable-file") from error
    if known != ("MEOS-WKB", "tgeompoint", "1"):
        raise BadInput(
            f"{path}: column {name} is {' '.join(known)}.",
            hint="Expected tgeompoint as MEOS-WKB, version 1.",
            code="wrong-version",
        )
    return name


def write_geoparquet(batches: Batches, crs: str, out: Path) -> None:
    """Write GeoParquet 1.1: the path of each trip as WKB, its times and bounds as columns."""
    column: dict[str, Any] = {"encoding": "WKB", "geometry_types": [], "edges": "planar"}
    column["crs"] = System.parse(crs).to_json() if crs else None
    footer = {"version": "1.1.0", "primary_column": GEOMETRY, "columns": {GEOMETRY: column}}
    _write(batches, _to_paths, {GEO: json.dumps(footer)}, out)


def write_geometry(batches: Batches, crs: str, out: Path) -> None:
    """Write the path of each trip as Parquet's own type GEOMETRY, its times and bounds as columns."""
    system = System.parse(crs) if crs else None
    # a code, as Spark writes it: its reader refuses definitions
    kind = _Wkb(json.dumps({"crs": system.name if system.srid else system.to_json()} if system else {}))

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        plain = _to_paths(batch)
        geometry = pa.ExtensionArray.from_storage(kind, plain[GEOMETRY])
        return plain.set_column(plain.schema.get_field_index(GEOMETRY), pa.field(GEOMETRY, kind), geometry)

    _write(batches, convert, {}, out)


def _to_paths(batch: pa.RecordBatch) -> pa.RecordBatch:
    m, points = moving_points(batch)
    paths = pa.array([encode_path(point) for point in points], pa.binary())
    return pa.RecordBatch.from_pydict({**_plain(batch), **_bounds(m), GEOMETRY: paths})


def _write(
    batches: Batches, convert: Callable[[pa.RecordBatch], pa.RecordBatch], footer: dict[str, str], out: Path
) -> None:
    """Write converted batches as the row groups of a file that appears when it is complete."""
    converted: Iterator[pa.RecordBatch] = (convert(batch) for batch in batches if batch.num_rows)
    first = next(converted, None)
    if first is None:
        raise BadInput("There are no trips to export.", hint="Select at least one.", code="empty-input")
    schema = first.schema.with_metadata(footer)
    with atomic_write(out) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        writer.write_batch(first.replace_schema_metadata(footer))
        for batch in converted:
            writer.write_batch(batch.replace_schema_metadata(footer))
