"""What a folder of trajectories is about, in a few figures; read batch by batch, without Spark."""

from __future__ import annotations

from typing import Any

import numpy as np

from slipstream._errors import BadInput
from slipstream._moving import columns
from slipstream._moving.columns import MPoints
from slipstream._moving.kernels import motion
from slipstream._moving.moving_point import instant
from slipstream._trajectories.cutting.assembling import TRIP
from slipstream._trajectories.data import Data


def describe(data: Data) -> dict[str, Any]:
    """Return when and where trips are, and the medians of their lengths, durations, speeds and steps of time."""
    batches = [columns.read(batch[TRIP]) for batch in data.read_batches()]
    if not batches:
        raise BadInput(f"{data.folder}: its files are missing.", hint="Build the data again.", code="damaged-file")
    metres = np.concatenate([motion.lengths(m) for m in batches])
    seconds = np.concatenate([_durations(m) for m in batches])
    steps = np.concatenate([_steps(m) for m in batches])
    moving = seconds > 0
    return {
        "begin": instant(min(int(m.t.min()) for m in batches)).isoformat(),
        "end": instant(max(int(m.t.max()) for m in batches)).isoformat(),
        **_extent(data, batches),
        "kilometres": round(float(metres.sum()) / 1000, 3),
        "median_trip_metres": _median(metres),
        "median_trip_seconds": _median(seconds),
        "median_kmh": _median(metres[moving] / seconds[moving] * 3.6),
        "median_seconds_between_positions": _median(steps),
        "trips_of_one_position": int(sum((np.diff(m.rows) == 1).sum() for m in batches)),
    }


def _median(values: Any) -> float:
    return round(float(np.median(values)), 3) if len(values) else 0.0


def _durations(m: MPoints) -> Any:
    return (m.t[m.rows[1:] - 1] - m.t[m.rows[:-1]]) / 1e6


def _steps(m: MPoints) -> Any:
    """Seconds from each vertex to the next of its trip."""
    low, high = m.rows[0], m.rows[-1]
    same = np.ones(high - low, np.bool_)
    same[m.rows[:-1] - low] = False
    return np.diff(m.t[low:high], prepend=m.t[low])[same] / 1e6


def _extent(data: Data, batches: list[MPoints]) -> dict[str, Any]:
    west, east = min(float(m.x.min()) for m in batches), max(float(m.x.max()) for m in batches)
    south, north = min(float(m.y.min()) for m in batches), max(float(m.y.max()) for m in batches)
    found: dict[str, Any] = {"x": [round(west, 1), round(east, 1)], "y": [round(south, 1), round(north, 1)]}
    if (system := data.system) is not None:
        lon, lat = system.locate([west, west, east, east], [south, north, south, north])
        found |= {"lon": [round(float(v), 5) for v in (lon.min(), lon.max())]}
        found |= {"lat": [round(float(v), 5) for v in (lat.min(), lat.max())]}
    return found
