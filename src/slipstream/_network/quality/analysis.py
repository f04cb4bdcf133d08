"""Static analysis: whether the machine can sustain a load, computed before the run (section 4.4 of the paper).

From each source's rate r, each box processes r tuples per second at a cost of c(b) each and emits s(b) of them; the sum
of r * c over all boxes is the least capacity, in cores, with which queues do not grow. Reading a tuple has a cost too,
and so has carrying it to an order-sensitive box or out of the network, the same everywhere. Only the share ``headroom``
of the capacity is for continuous queries; the rest is for ad hoc ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slipstream._errors import BadArgument
from slipstream._network.algebra import Arc, Network
from slipstream._network.planning.plan import is_agnostic
from slipstream._network.quality.statistics import Statistics
from slipstream._network.schemas import Checked


@dataclass(frozen=True)
class BoxLoad:
    """The load of a box; a source only reads, an output only carries."""

    box: str
    rate: float
    cost: float
    carried: bool = True

    @property
    def cores(self) -> float:
        """The capacity it needs."""
        return self.rate * self.cost


@dataclass(frozen=True)
class Analysis:
    """The load of every box, and the verdict."""

    loads: tuple[BoxLoad, ...]
    outputs: dict[str, float]
    capacity: float
    headroom: float

    @property
    def min_cap(self) -> float:
        """The cores that a steady state needs."""
        return sum(load.cores for load in self.loads)

    @property
    def carried(self) -> float:
        """Tuples per second that are carried to order-sensitive boxes and out of the network."""
        return sum(load.rate for load in self.loads if load.carried)

    @property
    def holds(self) -> bool:
        """Whether the machine can sustain the load within its headroom."""
        return self.min_cap <= self.capacity * self.headroom * (1 + 1e-9)

    @property
    def factor(self) -> float:
        """The factor by which all rates could grow until the load just fits."""
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
    """Propagate the sources' rates (tuples per second) through the network.

    ``dropped`` is the share dropped before a side of a box or (True) before an output; what all consumers of a source
    drop is not even read.
    """
    lost = dropped or {}
    flow: dict[Arc, float] = {}
    loads = []
    for source in checked.network.sources:
        if source.name not in rates:
            raise BadArgument(
                f"no rate for the source {source.name}.", hint=f"Give --rate {source.name}=1000.", code="missing-value"
            )
        flow[Arc(source.name)] = rates[source.name]
        nowhere = min((lost.get(way, 0.0) for way in takers(checked.network, source.name)), default=0.0)
        loads.append(BoxLoad(source.name, rates[source.name] * (1 - nowhere), statistics.reading, carried=False))
    for node in checked.nodes:
        figures = statistics.of(node.name)
        rate = sum(
            flow.get(arc, 0.0) * (1 - lost.get((node.name, side, False), 0.0)) for side, arc in enumerate(node.inputs)
        )
        carried = not is_agnostic(node) and not checked.is_lookup(node)
        cost = figures.cost + carried * statistics.carrying
        loads.append(BoxLoad(node.name, rate, cost, carried))
        served = min(rate, cores / cost) if cost > 0 else rate
        for arc in checked.ports[node.name]:
            flow[arc] = served * figures.shares[min(arc.port, len(figures.shares) - 1)]
    outputs = {o.name: flow[o.arc] * (1 - lost.get((o.name, 0, True), 0.0)) for o in checked.network.outputs}
    loads += [BoxLoad(name, rate, statistics.carrying) for name, rate in outputs.items()]
    return Analysis(tuple(loads), outputs, cores, headroom)


def takers(network: Network, source: str) -> set[tuple[str, int, bool]]:
    """All consumers of a source: sides of boxes, and (True) outputs and points."""
    sides = {
        (node.name, side, False)
        for node in network.consumers(source)
        for side, arc in enumerate(node.inputs)
        if arc.origin == source
    }
    return sides | {(end.name, 0, True) for end in network.ends if end.arc.origin == source}
