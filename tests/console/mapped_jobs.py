"""Jobs with places, made without Spark: vehicles on streets, on a plane, and trips."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slipstream._io import outputs
from slipstream._io.outputs import Outputs
from slipstream._roads.importing.graph_building import build
from slipstream._roads.road_tables import save_roads
from slipstream._roads.street_network import Street, StreetNetwork
from slipstream._runtime.job import JobFile

#: 2026-05-04, eight in the morning
EIGHT = 1_777_881_600.0
#: the south-western corner of the streets in UTM zone 33: some place in Berlin
EAST, NORTH = 390_000.0, 5_818_000.0

GPS = pa.schema(
    [
        ("id", pa.string()),
        ("time", pa.float64()),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        ("speed", pa.float64()),
        ("kind", pa.string()),
        ("edge", pa.int64()),
    ]
)


def commit(folder: Path, batches: list[dict[str, pa.Table]], network: str = "") -> Outputs:
    """A job that has committed tables; with the text of its network."""
    job = JobFile("network", 1, {"source": "gps"}, {})
    job.write(folder)
    if network:
        (folder / "network.yaml").write_text(network)
    committed = Outputs(folder, job.id, {name: table.schema for name, table in batches[0].items()})
    for number, tables in enumerate(batches):
        append(committed, folder, number, tables)
    return committed


def append(committed: Outputs, folder: Path, batch: int, tables: dict[str, pa.Table]) -> None:
    written = [outputs.write(folder, name, table, batch) for name, table in tables.items() if table.num_rows]
    committed.commit(batch, written, tuples=sum(table.num_rows for table in tables.values()), rejects=0)


def gps(rows: list[tuple[Any, ...]]) -> pa.Table:
    """Positions: id, seconds after eight, lon, lat, speed, kind, edge."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(GPS.names)
    columns[1] = tuple(EIGHT + seconds for seconds in columns[1])
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, GPS, strict=True)], GPS)


def swarm(vehicles: int, seconds: int, every: int = 10) -> pa.Table:
    """Vehicles that circle around a place in Berlin."""
    k, t = (part.ravel() for part in np.meshgrid(np.arange(vehicles), np.arange(0, seconds, every)))
    angle = k * 2.399963 + t / (60 + k % 50)
    far = 0.002 + 0.05 * np.sqrt(k / vehicles)
    return pa.table(
        {
            "id": pa.array([f"v{one}" for one in k.tolist()]),
            "time": EIGHT + t.astype(np.float64),
            "lon": 13.4 + far * 1.6 * np.cos(angle),
            "lat": 52.52 + far * np.sin(angle),
            "speed": 20 + 40 * (k % 50) / 50.0,
            "kind": pa.array(np.where(k % 7 == 0, "bus", "car").tolist()),
        }
    )


def grid(folder: Path, size: int = 6, step: float = 800.0) -> StreetNetwork:
    """Imported roads: a grid of two-way streets in UTM zone 33."""
    streets = []
    for i in range(size):
        for j in range(size - 1):
            across = (EAST + j * step, NORTH + i * step, EAST + (j + 1) * step, NORTH + i * step)
            along = (EAST + i * step, NORTH + j * step, EAST + i * step, NORTH + (j + 1) * step)
            streets += [Street(50.0, [across]), Street(50.0, [along])]
    network = build(streets, srid=32633)
    folder.mkdir(parents=True)
    save_roads(network, folder)
    return network


def unpack(body: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """What the page gets: the header and the bytes of each array. An independent reading of the layout."""
    (count,) = struct.unpack_from("<I", body)
    lengths = struct.unpack_from(f"<{count}I", body, 4)
    place, parts = -(-(4 + 4 * count) // 8) * 8, []
    for length in lengths:
        parts.append(body[place : place + 4 * length])
        place = -(-(place + 4 * length) // 8) * 8
    assert place == len(body)
    return json.loads(parts[0]), parts[1:]


def tracks(body: bytes) -> dict[str, list[tuple[float, ...]]]:
    """Positions by owner: seconds, x and y in the plane of the map, and the attributes."""
    header, parts = unpack(body)
    rows, owner, ticks = (np.frombuffer(part, "<i4") for part in parts[:3])
    x, y, *values = (np.frombuffer(part, "<f4").astype(float) for part in parts[3:])
    found: dict[str, list[tuple[float, ...]]] = {}
    for track, whose in enumerate(owner.tolist()):
        name = header["owners"][whose] if header["owners"] else str(track)
        found.setdefault(name, []).extend(
            (
                header["begin"] + ticks[i] * header["tick"],
                header["origin"][0] + x[i],
                header["origin"][1] + y[i],
                *(column[i] for column in values),
            )
            for i in range(rows[track], rows[track + 1])
        )
    return found
