"""Real-time consistency in figures: arrival rate, commit time, query time capacity, stability; and the QoS map.

The thesis' quantities, per batch as its distributed system has them (section 5.4): tuples come in at a rate λ; making a
batch consistent takes δ; every continuous query q takes L_q on top. What is left of the time until the next batch,
QTC = 1/λ - (δ + Σ L_q), is the capacity for more queries, and the system is stable while it is above 0. Divided by the
batch's tuples, the figures are per tuple, as the thesis gives them.

Spark says how long a batch took from its start to its commit; the fragments say what each query took in them. They work
side by side, so a query takes as long as its slowest fragment.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstream.cuboid.files import FILE, FOLDER, Catalogue, as_line
from slipstream.cuboid.keeper import QUERY

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql.streaming.query import StreamingQuery

PROGRESS = "progress.jsonl"
#: seconds between looks at a query; Spark remembers its last hundred batches
_EVERY = 2.0


@contextmanager
def recorded(query: StreamingQuery, out: Path) -> Iterator[None]:
    """While the block runs, note how long the query's batches take, if the folder has a snapshot."""
    if not (out / FOLDER / FILE).exists():
        yield
        return
    ended, seen = threading.Event(), set[int]()

    def watch() -> None:
        while not ended.wait(_EVERY):
            _note(query, out, seen)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        _note(query, out, seen)


def _note(query: StreamingQuery, out: Path, seen: set[int]) -> None:
    fresh = [found for found in query.recentProgress if found["batchId"] not in seen and found["numInputRows"]]
    with (out / FOLDER / PROGRESS).open("ab") as log:
        for found in fresh:
            seen.add(found["batchId"])
            start = datetime.fromisoformat(found["timestamp"]).timestamp()
            took = found["durationMs"]["triggerExecution"] / 1000
            log.write(as_line({"batch": found["batchId"], "start": start, "seconds": took}))


@dataclass
class Moment:
    """One batch; times in seconds."""

    batch: int
    start: float
    seconds: float
    tuples: int = 0
    queries: dict[str, float] = field(default_factory=dict)
    period: float = 0.0  # until the next batch began

    @property
    def commit(self) -> float:
        """δ: the batch without its queries."""
        return max(self.seconds - sum(self.queries.values()), 0.0)

    @property
    def capacity(self) -> float:
        """QTC: what is left until the next batch."""
        return self.period - self.seconds


def moments(folder: Path) -> list[Moment]:
    """The committed batches of a snapshot that were measured, in order."""
    folder = folder / FOLDER if (folder / FOLDER / FILE).exists() else folder
    committed = Catalogue.read(folder).committed(folder)
    lines = _lines(folder / PROGRESS)
    found = {line["batch"]: Moment(line["batch"], line["start"], line["seconds"]) for line in lines}
    found = {batch: found[batch] for batch in sorted(found) if batch <= committed}
    for place in (folder / "metrics").glob("fragment=*.jsonl"):
        latest = {line["batch"]: line for line in _lines(place)}
        for batch, line in latest.items():
            if (moment := found.get(batch)) is not None:
                moment.tuples += line["tuples"]
                for name, seconds in line["seconds"].items():
                    if name.startswith(QUERY):
                        query = name.removeprefix(QUERY)
                        moment.queries[query] = max(moment.queries.get(query, 0.0), seconds)
    ordered = [moment for moment in found.values() if moment.tuples]
    for moment, following in zip(ordered, [*ordered[1:], None], strict=True):
        # a pause between two starts of the engine is no arrival
        gap = following.start - moment.start if following else moment.seconds
        moment.period = max(gap if gap < 60 + 2 * moment.seconds else moment.seconds, moment.seconds)
    return ordered


def _lines(place: Path) -> list[dict[str, Any]]:
    if not place.exists():
        return []
    whole = place.read_bytes().rpartition(b"\n")[0]
    return [json.loads(line) for line in whole.splitlines()]


def figures(found: list[Moment]) -> dict[str, Any]:
    """The quantities over a run, per tuple in microseconds."""
    tuples, period = sum(m.tuples for m in found), sum(m.period for m in found)
    if not tuples:
        return {"batches": 0, "tuples": 0}
    queries = {name: sum(m.queries.get(name, 0.0) for m in found) for m in found for name in m.queries}
    micro = 1e6 / tuples
    busy = sum(m.seconds for m in found)
    return {
        "batches": len(found),
        "tuples": tuples,
        "arrival_rate_per_s": round(tuples / period, 1),
        "interarrival_us": round(period * micro, 3),
        "commit_us": round(sum(m.commit for m in found) * micro, 3),
        "query_us": {name: round(seconds * micro, 3) for name, seconds in queries.items()},
        "query_time_capacity_us": round((period - busy) * micro, 3),
        "capacity_left": round((period - busy) / period, 4),
        "commit_seconds_per_batch": round(float(np.mean([m.commit for m in found])), 3),
        "longest_batch_seconds": round(max(m.seconds for m in found), 3),
        "stable": bool(busy < period),
    }


COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#8A6D00")


def qos_map(found: list[Moment]) -> Figure:
    """Time per tuple over the run: what commits take, what each query adds, and the line they must stay below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), dpi=130, layout="constrained")
    axes = figure.subplots()
    minutes = np.array([m.start - found[0].start for m in found]) / 60
    micro = 1e6 / np.array([m.tuples for m in found])
    names = sorted({name for m in found for name in m.queries})
    bands = [np.array([m.commit for m in found]) * micro]
    bands += [np.array([m.queries.get(name, 0.0) for m in found]) * micro for name in names]
    labels = ["δ: making the batch consistent", *(f"query {name}" for name in names)]
    axes.stackplot(
        minutes, bands, labels=labels, colors=[COLOURS[k % len(COLOURS)] for k in range(len(bands))], alpha=0.8
    )
    between = np.array([m.period for m in found]) * micro
    axes.plot(minutes, between, color="#D55E00", linewidth=1.8, label="1/λ: time between tuples")
    top = np.maximum(between, sum(bands))
    axes.fill_between(minutes, sum(bands), between, color="#D55E00", alpha=0.08, label="QTC: capacity left")
    axes.set(xlabel="minute of the run", ylabel="µs per tuple", ylim=(0, 1.25 * float(np.percentile(top, 95))))
    axes.set_xlim(minutes[0], max(minutes[-1], minutes[0] + 1e-3))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e5e9ee")
    axes.set_title(_title(figures(found)), loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    return figure


def _title(run: dict[str, Any]) -> str:
    stable = "stable" if run["stable"] else "at its limit"
    return (
        f"QoS map: {run['arrival_rate_per_s']:,.0f} tuples/s in {run['batches']} batches, "
        f"{100 * run['capacity_left']:.0f} % of the time left for more queries ({stable})"
    )
