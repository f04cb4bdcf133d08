"""What a tolling run did: counts, rates and delays, from the journal of its sink."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstream.cuboid import rtc
from slipstream.cuboid.files import FILE, FOLDER
from slipstream.feeds.clock import FULL_SPEED, Clock
from slipstream.tolls.answers import LIMITS, NAMES
from slipstream.tolls.sink import journal

#: what stands in ``summary.json``
MEANING = {
    "batches": "committed batches",
    "seconds": "the newest second with an answer, plus one",
    "wall_seconds": "how long this start took",
    "speed": "1 real time, 0 no clock",
    "rejects": "rejected lines and tuples",
    "answers": "answers of each kind",
    "response_seconds": "with a clock: p50, p99, max and limit of each kind, and how many answers were later than that",
    "rtc": "with a snapshot: real-time consistency",
}


def summarise(out: Path, *, began: float, clock: Clock | None) -> dict[str, Any]:
    """Write ``summary.json`` and return what is in it."""
    batches = journal(out)
    took = time.time() - began
    summary: dict[str, Any] = {
        "batches": len(batches),
        "seconds": max((batch.newest for batch in batches), default=-1) + 1,
        "wall_seconds": round(took, 1),
        "speed": clock.speed if clock else FULL_SPEED,
        "rejects": sum(batch.rejects for batch in batches),
        "answers": dict.fromkeys(NAMES, 0),
        "response_seconds": {},
    }
    rows = np.array([(*row, batch.emit_ms) for batch in batches for row in batch.answers], np.int64).reshape(-1, 4)
    for kind, name in enumerate(NAMES):
        mine = rows[rows[:, 0] == kind]
        summary["answers"][name] = int(mine[:, 2].sum())
        if clock and clock.runs and mine.size:
            delays, counts = mine[:, 3] / 1000.0 - mine[:, 1], mine[:, 2]
            p50, p99 = (quantile(delays, counts, share) for share in (0.5, 0.99))
            response = {"p50": p50, "p99": p99, "max": delays.max()}
            summary["response_seconds"][name] = {k: round(float(v), 3) for k, v in response.items()} | {
                "limit": LIMITS[kind],
                "late": int(counts[delays > LIMITS[kind]].sum()),
            }
    if (out / FOLDER / FILE).exists():
        summary["rtc"] = rtc.figures(rtc.moments(out))
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return summary


def quantile(values: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], share: float) -> float:
    """The value that a share of all do not exceed, without writing each out as often as it is there.

    >>> quantile(np.array([3.0, 1.0, 2.0]), np.array([1, 98, 1]), 0.99)
    2.0
    """
    order = np.argsort(values)
    reached = np.cumsum(counts[order])
    return float(values[order][np.searchsorted(reached, share * reached[-1])])
