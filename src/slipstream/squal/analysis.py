"""Static analysis: will the machine hold the load? Asked before the run (section 4.4 of the paper).

From each source's rate r, each box takes r tuples a second at a cost of c(b) each and passes on s(b) of them; the sum
of r * c over all boxes is the least capacity, in cores, with which queues do not grow. Of the capacity there is, only
the share ``headroom`` is for continuous queries; the rest is for ad hoc ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipstream.errors import BadArgument
from slipstream.squal.algebra import Arc
from slipstream.squal.schemas import Checked
from slipstream.squal.statistics import Statistics


@dataclass(frozen=True)
class Load:
    """What a box does in a second."""

    box: str
    rate: float
    cost: float

    @property
    def cores(self) -> float:
        """The capacity it takes."""
        return self.rate * self.cost


@dataclass(frozen=True)
class Analysis:
    """The load of every box, and the verdict."""

    loads: tuple[Load, ...]
    outputs: dict[str, float]
    capacity: float
    headroom: float

    @property
    def min_cap(self) -> float:
        """The cores that a steady state takes."""
        return sum(load.cores for load in self.loads)

    @property
    def holds(self) -> bool:
        """Whether the machine holds the load and keeps its headroom."""
        return self.min_cap <= self.capacity * self.headroom

    @property
    def factor(self) -> float:
        """By how much all rates could grow until it just holds."""
        return self.capacity * self.headroom / self.min_cap if self.min_cap else float("inf")


def analyse(
    checked: Checked,
    statistics: Statistics,
    rates: Mapping[str, float],
    *,
    cores: float,
    headroom: float = 1.0,
    dropped: Mapping[tuple[str, int, bool], float] | None = None,
) -> Analysis:
    """Carry the sources' rates (tuples a second) through the network.

    ``dropped`` is the share lost before a side of a box or (True) before an output.
    """
    lost = dropped or {}
    flow: dict[Arc, float] = {}
    for source in checked.network.sources:
        if source.name not in rates:
            raise BadArgument(f"no rate for the source {source.name}.", hint=f"Give --rate {source.name}=1000.")
        flow[Arc(source.name)] = rates[source.name]
    loads = []
    for node in checked.nodes:
        figures = statistics.of(node.name)
        rate = sum(
            flow.get(arc, 0.0) * (1 - lost.get((node.name, side, False), 0.0)) for side, arc in enumerate(node.inputs)
        )
        loads.append(Load(node.name, rate, figures.cost))
        served = min(rate, cores / figures.cost) if figures.cost > 0 else rate
        for arc in checked.schemas:
            if arc.origin == node.name:
                flow[arc] = served * figures.shares[min(arc.port, len(figures.shares) - 1)]
    outputs = {o.name: flow[o.arc] * (1 - lost.get((o.name, 0, True), 0.0)) for o in checked.network.outputs}
    return Analysis(tuple(loads), outputs, cores, headroom)
