"""The summary of a job: counts, rates and response times, computed from its journal."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstream._cuboid import consistency
from slipstream._cuboid.snapshots.snapshot_files import FILE as CATALOGUE
from slipstream._cuboid.snapshots.snapshot_files import FOLDER
from slipstream._feeds.clock import FULL_SPEED, Clock
from slipstream._linear_road.answers import LIMITS, NAMES
from slipstream._linear_road.job.toll_journal import TollBatch, read_journal
from slipstream._linear_road.job.toll_layout import ANSWERS, TRIPS
from slipstream._linear_road.schedule import Irregular
from slipstream._tools.quantiles import quantiles

FILE = "summary.json"

#: its keys
MEANING = {
    "batches": "committed batches",
    "seconds": "the newest second with an answer or in a trip, plus one",
    "wall_seconds": "how long this start took",
    "speed": "1 real time, 0 no clock",
    "tuples": "accepted tuples",
    "rejects": "rejected lines and tuples",
    "irregular": "position reports off the benchmark's schedule of one every 30 s: how many, and the first",
    "answers": "answers of each kind",
    "response_seconds": "with a clock: p50, p99, max and limit of each kind, how many answers exceeded the limit, "
    "and how many precede their request, which means that clocks are not synchronised",
    "rtc": "with a snapshot: real-time consistency",
    "trips": "with an archive: trips that have ended",
    "archived": "with an archive: position reports in these trips",
}


def summarise(out: Path, *, began: float, clock: Clock | None, outputs: str = ANSWERS) -> dict[str, Any]:
    """Write ``summary.json`` and return its contents."""
    batches = read_journal(out)
    took = time.time() - began
    summary: dict[str, Any] = {
        "batches": len(batches),
        "seconds": max((batch.newest for batch in batches), default=-1) + 1,
        "wall_seconds": round(took, 1),
        "speed": clock.speed if clock else FULL_SPEED,
        "tuples": sum(batch.tuples for batch in batches),
        "rejects": sum(batch.rejects for batch in batches),
    }
    if outputs != TRIPS:
        summary |= _summarise_answers(batches, clock)
    if outputs != ANSWERS:
        archived = sum(batch.detail.archived for batch in batches)
        summary |= {"trips": sum(batch.trips for batch in batches), "archived": archived}
    if (out / FOLDER / CATALOGUE).exists():
        summary["rtc"] = consistency.compute_figures(consistency.read_moments(out))
    (out / FILE).write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    return summary


def _summarise_answers(batches: list[TollBatch], clock: Clock | None) -> dict[str, Any]:
    """Return the summary's keys about answers."""
    answers, timed = dict.fromkeys(NAMES, 0), {}
    rows = np.array([row for batch in batches for row in batch.answers], np.int64).reshape(-1, 4)
    for kind, name in enumerate(NAMES):
        mine = rows[rows[:, 0] == kind]
        answers[name] = int(mine[:, 2].sum())
        if clock and clock.runs and mine.size:
            timed[name] = summarise_responses(mine[:, 3] / 1000.0, mine[:, 2], LIMITS[kind])
    irregular = Irregular.total(Irregular(*batch.detail.irregular) for batch in batches).to_dict()
    return {"irregular": irregular, "answers": answers, "response_seconds": timed}


def summarise_responses(seconds: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], limit: int) -> dict[str, Any]:
    """Return quantiles of response times, and how many are late or negative.

    >>> summarise_responses(np.array([0.5, 6.0]), np.array([99, 1]), 5)
    {'p50': 0.5, 'p99': 0.5, 'max': 6.0, 'limit': 5, 'late': 1, 'negative': 0}
    """
    found = zip(("p50", "p99", "max"), quantiles(seconds, (0.5, 0.99, 1), counts), strict=True)
    return {name: round(value, 3) for name, value in found} | {
        "limit": limit,
        "late": int(counts[seconds > limit].sum()),
        "negative": int(counts[seconds < 0].sum()),
    }
