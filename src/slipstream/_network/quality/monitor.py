"""The QoS monitor: what each batch delivered to each output, how late, and with what utility.

Its figures are part of the journal (``_io.outputs``), one line per batch. For an output they are the number of tuples,
their mean and worst delay (seconds from the arrival of the oldest tuple behind a result to its delivery), the share in
the good zone, the share that load shedding left, and the utility: the product of the utilities of the delays, of the
share delivered and of the values, each also listed separately. For a tapped arc or a connection point they are tuples
and delays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slipstream._io.outputs import Batch, read_journal
from slipstream._network.algebra import Network, NetworkOutput
from slipstream._network.quality.qos import DELAY, Graph
from slipstream._tools.quantiles import quantiles

#: what is averaged over a run
_MEANS = ("delay", "good", "delivered", "utility")
#: the number of quantiles that represent a distribution, so that the driver need not see every tuple
QUANTILES = 21
_SHARES = np.linspace(0, 1, QUANTILES).tolist()


@dataclass(frozen=True)
class Measured:
    """What a batch delivered to an output or a point: the number of tuples, their arrivals, and their values."""

    tuples: int
    arrival: float  # the mean, in microseconds
    oldest: int
    arrivals: list[int]  # quantiles
    values: list[float]  # quantiles of the column with a value graph, if there is one

    @classmethod
    def measure(cls, ts: npt.NDArray[Any], values: pa.Array | None) -> Measured:
        """Measure tuples that arrived at ``ts``."""
        worth = np.empty(0) if values is None else values.drop_null().to_numpy(zero_copy_only=False).astype(np.float64)
        return cls(len(ts), float(ts.mean()), int(ts.min()), _quantiles(ts), _quantiles(worth))

    @classmethod
    def merge(cls, parts: list[Measured]) -> Measured:
        """Merge the measurements of several tasks; quantiles are weighted by the number of tuples."""
        if len(parts) == 1:
            return parts[0]
        total = sum(part.tuples for part in parts)
        mean = sum(part.arrival * part.tuples for part in parts) / total
        arrivals = _merge_quantiles([(part.arrivals, part.tuples) for part in parts])
        values = _merge_quantiles([(part.values, part.tuples) for part in parts])
        return cls(total, mean, min(part.oldest for part in parts), arrivals, values)


def _quantiles(values: npt.NDArray[Any]) -> list[Any]:
    if not values.size:
        return []
    return quantiles(values, _SHARES)


def _merge_quantiles(parts: list[tuple[list[Any], int]]) -> list[Any]:
    """Quantiles of everything from those of the parts, weighted by their sizes."""
    known = [(values, tuples) for values, tuples in parts if values]
    if not known:
        return []
    weights = np.concatenate([np.full(len(values), tuples / len(values)) for values, tuples in known])
    values = np.concatenate([np.asarray(values) for values, _ in known])
    return quantiles(values, _SHARES, weights)


@dataclass(frozen=True)
class Monitor:
    """The monitor of one run, in its folder."""

    folder: Path
    outputs: tuple[NetworkOutput, ...]

    def line(
        self,
        measured: Mapping[str, Measured],
        delivered: Mapping[str, float],
        taken: Mapping[str, int],
        committed_ms: int,
    ) -> dict[str, Any]:
        """Return the details of a batch for the journal.

        ``delivered`` is the share of each output that load shedding leaves, ``taken`` the tuples read per source.
        """
        now = committed_ms * 1000
        wanted = {output.name: output for output in self.outputs}
        return {
            "taken": dict(taken),
            "outputs": {n: _line(wanted[n], one, now, delivered[n]) for n, one in measured.items() if n in wanted},
            "arcs": {name: _counts(one, now) for name, one in measured.items() if name not in wanted},
        }

    def entries(self) -> list[dict[str, Any]]:
        """The batches so far that had tuples, each with its number and the microsecond of its commit."""
        return monitor_entries(read_journal(self.folder))

    def rejected(self) -> tuple[int, int]:
        """The number of rejected lines and tuples, and the total number."""
        batches = read_journal(self.folder)
        taken = (sum(batch.detail.get("taken", {}).values()) for batch in batches)
        return sum(batch.rejects for batch in batches), sum(taken)

    def totals(self) -> dict[str, dict[str, float]]:
        """Each output over the whole run: tuples, and the means of the other figures, weighted by tuples."""
        nothing: dict[str, float] = dict.fromkeys(("tuples", *_MEANS, "worst"), 0)
        totals = {output.name: nothing for output in self.outputs}
        for entry in self.entries():
            for name, line in entry["outputs"].items():
                totals[name] = _add_line(totals[name], line)
        return totals


def monitor_entries(batches: Iterable[Batch]) -> list[dict[str, Any]]:
    """The monitor's figures of the batches that had tuples."""
    return [
        {"batch": line.batch, "at": line.committed_ms * 1000, **line.detail}
        for line in batches
        if "outputs" in line.detail
    ]


def longest_delays(batch: Batch, pace: float = 1.0) -> dict[str, float]:  # noqa: ARG001  (delays are real time)
    """Return the longest delay of each output in a batch, in seconds.

    >>> longest_delays(Batch(0, 0, detail={"outputs": {"alerts": {"tuples": 3, "delay": 0.5, "worst": 1.5}}}))
    {'alerts': 1.5}
    """
    found = batch.detail.get("outputs")
    lines = found.items() if isinstance(found, dict) else ()
    return {name: line["worst"] for name, line in lines if isinstance(line, dict) and _is_number(line.get("worst"))}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def delay_limits(network: Network) -> dict[str, float]:
    """Return the delay until which each output is in its good zone, where the network states it."""
    stated = {output.name: output.quality.delay for output in network.outputs if output.quality.delay != DELAY}
    return {name: graph.good_until for name, graph in stated.items()}


def _counts(measured: Measured, now: int) -> dict[str, Any]:
    seconds = {"delay": now - measured.arrival, "worst": now - measured.oldest}
    return {"tuples": measured.tuples} | {name: micros / 1e6 for name, micros in seconds.items()}


def _line(output: NetworkOutput, measured: Measured, now: int, delivered: float) -> dict[str, Any]:
    quality, delays = output.quality, [(now - arrival) / 1e6 for arrival in measured.arrivals]
    utilities = {"delay": _mean(quality.delay, delays), "drop": quality.drop.at(delivered)}
    if quality.value and measured.values:
        utilities["value"] = _mean(quality.value, measured.values)
    utility = 1.0
    for one in utilities.values():
        utility *= one
    good = sum(delay <= quality.delay.good_until for delay in delays) / len(delays)
    return _counts(measured, now) | {
        "good": good,
        "delivered": delivered,
        "utility": utility,
        "utilities": utilities,
    }


def _mean(graph: Graph, values: list[float]) -> float:
    return float(graph.over(values).mean())


def _add_line(total: dict[str, float], line: Mapping[str, Any]) -> dict[str, float]:
    count = total["tuples"] + line["tuples"]
    means = {key: (total[key] * total["tuples"] + line[key] * line["tuples"]) / count for key in _MEANS}
    return {"tuples": count, **means, "worst": max(total["worst"], line["worst"])}
