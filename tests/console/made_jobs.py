"""Folders of jobs, made without Spark: what a job writes, by the functions that jobs write it with."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from slipstream._io import outputs
from slipstream._io.outputs import Outputs
from slipstream._runtime.job import JobFile

CARS = pa.schema([("vid", pa.int64()), ("speed", pa.float64())])


def begun(folder: Path, kind: str = "network") -> Outputs:
    """A job that has not committed anything."""
    made = JobFile(kind, 1, {"source": "cars.csv"}, {"parallel": 2})
    made.write(folder)
    return Outputs(folder, made.id, {"fast": CARS, "rejects": pa.schema([("line", pa.string())])})


def commit(committed: Outputs, folder: Path, batch: int, rows: list[tuple[int, float]]) -> None:
    table = pa.table({"vid": [vid for vid, _ in rows], "speed": [speed for _, speed in rows]}, CARS)
    written = outputs.write(folder, "fast", table, batch)
    committed.commit(batch, [written] if rows else [], tuples=len(rows), rejects=1)
