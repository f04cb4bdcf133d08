"""The QoS monitor: what each batch delivered to each output, how late, and what that was worth.

One line of JSON a batch. For an output it tells the tuples, their mean and worst delay (seconds from the arrival of the
oldest tuple behind a result to its delivery), the share in the good zone, the share that load shedding left, and the
utility: that of the delays, times that of the share delivered, times that of the values, each also by itself. For a
tapped arc or a connection point it tells tuples and delays.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream.logs import add_lines, whole_lines
from slipstream.network.algebra import Output
from slipstream.network.qos import Graph

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: what is averaged over a run
_MEANS = ("delay", "good", "delivered", "utility")
#: so many quantiles stand for a distribution; the driver need not see every tuple
QUANTILES = 21


@dataclass(frozen=True)
class Monitor:
    """The monitor of one run, in its file."""

    file: Path
    outputs: tuple[Output, ...]

    def note(self, batch: DataFrame, number: int, delivered: Mapping[str, float]) -> None:
        """Add a batch's line; ``delivered`` is the share of each output that load shedding leaves."""
        add_lines(self.file, [self.measured(batch, number, delivered)])

    def measured(self, batch: DataFrame, number: int, delivered: Mapping[str, float]) -> dict[str, Any]:
        """What is to be said of a batch."""
        now = time.time_ns() // 1000
        rows = batch.groupBy("output").agg(*_measures(now, self.outputs)).collect()
        found = {row["output"]: row.asDict() for row in rows}
        wanted = {output.name: output for output in self.outputs}
        return {
            "batch": number,
            "at": now,
            "outputs": {n: _line(wanted[n], row, delivered[n]) for n, row in found.items() if n in wanted},
            "arcs": {name: _counts(row) for name, row in found.items() if name not in wanted},
        }

    def entries(self) -> list[dict[str, Any]]:
        """The lines so far; of a repeated batch the last."""
        return list({entry["batch"]: entry for entry in whole_lines(self.file)}.values())

    def totals(self) -> dict[str, dict[str, float]]:
        """Each output over the whole run: tuples, and the mean of the other figures, a tuple one vote."""
        nothing: dict[str, float] = dict.fromkeys(("tuples", *_MEANS, "worst"), 0)
        totals = {output.name: nothing for output in self.outputs}
        for entry in self.entries():
            for name, line in entry["outputs"].items():
                totals[name] = _added(totals[name], line)
        return totals


def _counts(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("tuples", "delay", "worst")}


def _line(output: Output, row: Mapping[str, Any], delivered: float) -> dict[str, Any]:
    quality, delays = output.quality, row["delays"]
    utilities = {"delay": _mean(quality.delay, delays), "drop": quality.drop.at(delivered)}
    if quality.value and row.get(f"values_{output.name}"):
        utilities["value"] = _mean(quality.value, row[f"values_{output.name}"])
    utility = 1.0
    for one in utilities.values():
        utility *= one
    good = sum(delay <= quality.delay.good_until for delay in delays) / len(delays)
    return _counts(row) | {"good": good, "delivered": delivered, "utility": utility, "utilities": utilities}


def _mean(graph: Graph, quantiles: list[float]) -> float:
    return float(graph.over(quantiles).mean())


def _added(total: dict[str, float], line: Mapping[str, Any]) -> dict[str, float]:
    count = total["tuples"] + line["tuples"]
    means = {key: (total[key] * total["tuples"] + line[key] * line["tuples"]) / count for key in _MEANS}
    return {"tuples": count, **means, "worst": max(total["worst"], line["worst"])}


def _measures(now: int, outputs: tuple[Output, ...]) -> Iterator[Any]:
    from pyspark.sql import functions as sf

    delay = f"({now} - ts) / 1e6"
    shares = ", ".join(f"{i / (QUANTILES - 1)}D" for i in range(QUANTILES))
    yield sf.count("*").alias("tuples")
    yield sf.expr(f"avg({delay})").alias("delay")
    yield sf.expr(f"max({delay})").alias("worst")
    yield sf.expr(f"percentile_approx({delay}, array({shares}))").alias("delays")
    for output in outputs:
        if output.quality.value:
            value = f"cast({output.name}.{output.quality.value_column} as double)"
            yield sf.expr(f"percentile_approx({value}, array({shares}))").alias(f"values_{output.name}")
