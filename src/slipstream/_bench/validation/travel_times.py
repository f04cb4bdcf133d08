"""Travel times by the ten-week means, for many journeys at once.

The one answer that is sequential: the time at a segment depends on all segments before it. All journeys advance one
segment at a time, together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slipstream._bench.validation.editions import Edition

COLUMNS = "qid int, time int, seconds bigint, toll bigint"
MINUTES = 1440
#: keeps a sum that should be whole from being floored to the number below
EPSILON = 1e-9

Whole = npt.NDArray[np.int64]


def answer_journeys(history: Path, edition: Edition) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for ``mapInArrow`` that answers travel time requests from the arrays in ``history``."""

    def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = {name: batch.column(name).to_numpy().astype(np.int64) for name in batch.schema.names}
            seconds, toll = np.empty((2, batch.num_rows), dtype=np.int64)
            for xway in np.unique(columns["xway"]):
                rows = np.flatnonzero(columns["xway"] == xway)
                journeys = {name: values[rows] for name, values in columns.items()}
                seconds[rows], toll[rows] = _estimate_on_expressway(history, int(xway), journeys, edition)
            asked = [batch.column("qid"), batch.column("time")]
            yield pa.RecordBatch.from_arrays(
                [*asked, pa.array(seconds), pa.array(toll)], names=["qid", "time", "seconds", "toll"]
            )

    return answer


def _estimate_on_expressway(
    history: Path, xway: int, journeys: dict[str, Whole], edition: Edition
) -> tuple[Whole, Whole]:
    files = [history / "arrays" / f"{what}-{xway:05d}.npy" for what in ("speed", "count")]
    if all(file.exists() for file in files):
        speeds, counts = (np.load(file, mmap_mode="r") for file in files)
        return walk(speeds, counts, journeys, edition)
    unknown = np.where(journeys["sinit"] == journeys["send"], 0, -1)
    return unknown, unknown


def walk(
    speeds: npt.NDArray[np.float32], counts: npt.NDArray[np.float32], journeys: dict[str, Whole], edition: Edition
) -> tuple[Whole, Whole]:
    """Return seconds and tolls of journeys; the means are indexed by [day of week, minute, direction, segment]."""
    sinit, send, dow, tod = (journeys[name] for name in ("sinit", "send", "dow", "tod"))
    west = (send <= sinit).astype(np.int64)
    start = (tod - 1) * 60
    seconds, tolls = np.zeros((2, sinit.size))
    for step in range(int(np.abs(send - sinit).max(initial=0))):
        on = np.flatnonzero(np.abs(send - sinit) > step)
        days, minute = np.divmod(np.floor((start[on] + seconds[on]) / 60 + EPSILON).astype(np.int64), MINUTES)
        place = (dow[on] - 1 + days) % 7, minute, west[on], sinit[on] + step * (1 - 2 * west[on])
        speed, count = speeds[place].astype(np.float64), counts[place].astype(np.float64)
        seconds[on] += 3600 / np.maximum(speed, 1)
        tolled = (speed < 40) & (count > edition.free_cars)
        tolls[on] += np.where(tolled, edition.base_toll * (count - edition.free_cars) ** 2, 0)
    return np.floor(seconds + EPSILON).astype(np.int64), np.floor(tolls + EPSILON).astype(np.int64)
