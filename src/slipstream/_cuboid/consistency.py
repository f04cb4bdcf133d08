"""Figures of real-time consistency: arrival rate, commit time, query time capacity, stability; and the QoS map.

The thesis' quantities, per batch as in its distributed system (section 5.4): tuples arrive at a rate λ; making a batch
consistent takes δ; every continuous query q takes an additional L_q. The time left until the next batch, QTC = 1/λ -
(δ + Σ L_q), is the capacity for more queries, and the system is stable while it is above 0. Divided by the batch's
tuples, the figures are per tuple, as in the thesis.

Spark reports the time of a batch from its start to its commit; the fragments report the time of each query in them.
They work in parallel, so a query takes as long as its slowest fragment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstream._cuboid.fragment_state import QUERY
from slipstream._cuboid.snapshots.snapshot_files import FILE, FOLDER, Catalogue
from slipstream._runtime.watching import metrics
from slipstream._runtime.watching.metrics import BatchMetrics
from slipstream._tools.logs import read_lines
from slipstream._tools.quantiles import quantiles

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass
class Moment:
    """One batch; times in seconds."""

    batch: int
    start: float
    seconds: float
    tuples: int = 0
    queries: dict[str, float] = field(default_factory=dict)
    period: float = 0.0  # until the next batch began; for the last one, its duration
    run: str = ""  # the id of this start of the query

    @classmethod
    def from_metrics(cls, measured: BatchMetrics) -> Moment:
        """A batch before its queries and its successor are known."""
        seconds = measured.commit_ms / 1000
        return cls(measured.batch, measured.start, seconds, period=seconds, run=measured.run)

    @property
    def commit(self) -> float:
        """δ: the batch without its queries."""
        return max(self.seconds - sum(self.queries.values()), 0.0)

    @property
    def capacity(self) -> float:
        """QTC: the time left until the next batch."""
        return self.period - self.seconds


def read_moments(folder: Path) -> list[Moment]:
    """Read the measurements of a snapshot's committed batches, in order."""
    folder = folder / FOLDER if (folder / FOLDER / FILE).exists() else folder
    committed = Catalogue.read(folder).committed(folder)
    measured = {found.batch: found for found in metrics.read(folder.parent)}
    found = {batch: Moment.from_metrics(line) for batch, line in measured.items()}
    found = {batch: found[batch] for batch in sorted(found) if batch <= committed}
    for place in (folder / "metrics").glob("fragment=*.jsonl"):
        latest = {line["batch"]: line for line in read_lines(place)}
        for batch, line in latest.items():
            if (moment := found.get(batch)) is not None:
                moment.tuples += line["tuples"]
                for name, seconds in line["seconds"].items():
                    if name.startswith(QUERY):
                        query = name.removeprefix(QUERY)
                        moment.queries[query] = max(moment.queries.get(query, 0.0), seconds)
    ordered = [moment for moment in found.values() if moment.tuples]
    for moment, following in pairwise(ordered):
        # the pause between two starts of a job does not count
        same = following.run == moment.run
        moment.period = max(following.start - moment.start, moment.seconds) if same else moment.seconds
    return ordered


#: the meaning of the ``figures``
MEANING = {
    "batches": "measured batches",
    "tuples": "tuples in them",
    "arrival_rate_per_s": "λ",
    "interarrival_us": "1/λ",
    "commit_us": "δ: making a tuple consistent",
    "query_us": "L_q of each continuous query",
    "query_time_capacity_us": "QTC = 1/λ - (δ + Σ L_q)",
    "capacity_left": "QTC as a share of 1/λ",
    "commit_seconds_per_batch": "mean δ of a batch",
    "longest_batch_seconds": "from start to commit",
    "stable": "whether QTC > 0",
}


def compute_figures(found: list[Moment]) -> dict[str, Any]:
    """Compute the figures of a run, in microseconds per tuple."""
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


def plot_qos_map(found: list[Moment]) -> Figure:
    """Plot the time per tuple over the run: commits, each query on top, and the limit they must stay below."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), dpi=130, layout="constrained")
    axes = figure.subplots()
    minutes = np.array([m.start - found[0].start for m in found]) / 60
    micro = 1e6 / np.array([m.tuples for m in found])
    # in the order in which they were added
    names = list(dict.fromkeys(name for m in found for name in sorted(m.queries)))
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
    axes.set(xlabel="minute of the run", ylabel="µs per tuple", ylim=(0, 1.25 * quantiles(top, (0.95,))[0]))
    axes.set_xlim(minutes[0], max(minutes[-1], minutes[0] + 1e-3))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e5e9ee")
    axes.set_axisbelow(True)
    axes.set_title(_make_title(compute_figures(found)), loc="left", fontsize=10)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    return figure


def _make_title(run: dict[str, Any]) -> str:
    stable = "stable" if run["stable"] else "at its limit"
    return (
        f"QoS map: {run['arrival_rate_per_s']:,.0f} tuples/s in {run['batches']} batches, "
        f"{100 * run['capacity_left']:.0f} % of the time left for more queries ({stable})"
    )
