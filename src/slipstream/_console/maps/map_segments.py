"""What the segments of a tolled road are like now, for the streets of the map.

A toll job publishes its segments as a cuboid; the table of a corridor, which its network joins positions with, says
which edges of the streets they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slipstream._cuboid.query.one_off import run_query
from slipstream._cuboid.snapshots.snapshot import Snapshot
from slipstream._cuboid.snapshots.snapshot_files import FOLDER as SNAPSHOT
from slipstream._errors import MALFORMED, SlipstreamError
from slipstream._network.state.stored import open_table
from slipstream._tools.numba_tools import Longs

#: columns of the table of a corridor (``_roads.corridors.make_table``), and of the published segments
_CORRIDOR = ("edge", "route", "dir", "start", "segment_m")
_SEGMENT = "segment"
_QUERY = "SELECT xway, dir, segment, minute, toll, lav, cars[0], speed[0] FROM segment"


@dataclass(frozen=True)
class RoadValues:
    """Values of edges as of a batch; none where a segment has no value, such as a speed without cars."""

    batch: int = -1
    edges: list[int] = field(default_factory=list)
    values: dict[str, list[float | None]] = field(default_factory=dict)


def has_segments(folder: Path) -> bool:
    """Return whether a job publishes segments whose edges are known."""
    return (folder / SNAPSHOT / _SEGMENT).is_dir() and any(True for _ in _find_corridors(folder))


def read_segments(folder: Path) -> RoadValues:
    """Return the newest values of all edges of a job's corridors."""
    corridors = list(_find_corridors(folder))
    if not corridors or not (folder / SNAPSHOT).is_dir():
        return RoadValues()
    snapshot = Snapshot.open(folder)
    if _SEGMENT not in snapshot.schemas:
        return RoadValues()
    found = {name.partition("[")[0]: np.asarray(column) for name, column in run_query(snapshot, _QUERY).items()}
    edges, rows = find_rows(found, corridors)
    values = {"toll": found["toll"], "speed": found["speed"], "average speed": found["lav"], "cars": found["cars"]}
    return RoadValues(snapshot.batch, edges.tolist(), {name: _to_json(column[rows]) for name, column in values.items()})


def find_rows(segments: dict[str, Any], corridors: list[pa.Table]) -> tuple[Longs, Longs]:
    """Return edges of corridors, and for each the row of the segment that it begins in; edges in none are left out."""
    keys = np.column_stack([np.asarray(segments[name], np.int64) for name in ("xway", "dir", "segment")])
    known = {tuple(key): row for row, key in enumerate(keys.tolist())}
    edges, rows = list[int](), list[int]()
    for table in corridors:
        segment = np.floor(table["start"].to_numpy() / table["segment_m"].to_numpy()).astype(np.int64)
        for edge, *key in zip(*(table[name].to_pylist() for name in _CORRIDOR[:3]), segment.tolist(), strict=True):
            if (row := known.get(tuple(key))) is not None:
                edges.append(edge)
                rows.append(row)
    return np.array(edges, np.int64), np.array(rows, np.int64)


def _find_corridors(folder: Path) -> Iterator[pa.Table]:
    for place in sorted((folder / "tables").glob("*/columns")):
        with suppress(SlipstreamError, OSError, *MALFORMED):
            if set(_CORRIDOR) <= set(json.loads(place.read_text(encoding="utf-8"))):
                stored = open_table(str(place.parent))
                yield pa.table({name: np.asarray(stored[name]) for name in _CORRIDOR})


def _to_json(values: np.ndarray[Any, Any]) -> list[float | None]:
    """Return numbers for JSON; what is missing, or below zero as where nothing was measured, is none."""
    return [value if value >= 0 else None for value in values.astype(float).tolist()]
