"""Load shedding: which tuples to drop when the machine cannot sustain the load, at the least loss of utility.

Tuples can be dropped at the head of each output's own branch (as far upstream as the branch serves only that output)
and at each source. ``plan`` follows the drop graphs in small steps: each at the place where the least utility is lost
for the capacity gained, until the load fits.

Which tuples to drop is decided when a train is released, and written into it: bit i of a tuple's ``_shed`` means that
it is dropped at place i. So a restart drops the same tuples again, the shares can change with every train without
changing the query, and without shares nothing is dropped. Tuples of feeds are marked as they enter the boxes.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from slipstream._network.algebra import Arc, Network
from slipstream._network.boxes.operators import Operator
from slipstream._network.quality.analysis import Analysis, analyse, takers
from slipstream._network.quality.qos import Graph
from slipstream._network.quality.statistics import Statistics
from slipstream._network.running.train_folder import SEQ, SHED
from slipstream._network.schemas import Checked
from slipstream._tools.files.locations import to_path
from slipstream._tools.numba_tools import Bools, Longs, uniform

#: the file with the share to drop at each place
SHARES = "shed.json"
STEP = 0.02
#: an output is late when less than GOOD of it is in its good zone, and on time when more than ALL_GOOD is
GOOD, ALL_GOOD = 0.9, 0.99
#: when outputs are late, the controller assumes this share of the capacity that it measured; when they are not, it
#: assumes more by this factor with every batch
FASTER_DOWN, SLOWLY_UP = 0.7, 1.1
#: batches grow when they take longer than their tuples took to arrive by this factor
GROWING = 1.1
#: the batches from which it learns how much the machine does
RECENT = 3
#: bits in a tuple's mask
MAX_PLACES = 62


@dataclass(frozen=True)
class DropPlace:
    """A place where tuples can be dropped: the arc into one side of a box, or into an output."""

    arc: Arc
    taker: str
    side: int = 0
    is_output: bool = False

    def __str__(self) -> str:
        side = f" ({self.side + 1})" if self.side else ""
        return f"{self.arc} -> {'output ' * self.is_output}{self.taker}{side}"


@dataclass(frozen=True)
class Shedding:
    """The share to drop at each place, and what that leaves of each output."""

    shares: dict[DropPlace, float]
    delivered: dict[str, float]
    utility: float
    analysis: Analysis


def places(network: Network) -> tuple[DropPlace, ...]:
    """The places where tuples can be dropped: heads of the outputs' own branches, then the arcs out of the sources."""
    found = [place for output in network.outputs for place in own_branches(network, output.name)]
    for source in network.sources:
        for node in network.consumers(source.name):
            for side, arc in enumerate(node.inputs):
                if arc.origin == source.name:
                    found.append(DropPlace(arc, node.name, side))
    # a box that borrows the state of the one before it must see all tuples that this one processed
    borrows = {node.name for node in network.nodes if isinstance(node.box, Operator) and node.box.borrows}
    found = [place for place in found if place.is_output or place.side or place.taker not in borrows]
    return tuple(dict.fromkeys(found))[:MAX_PLACES]


def own_branches(network: Network, output: str) -> tuple[DropPlace, ...]:
    """The furthest places upstream of an output after which everything serves only that output."""
    nodes = {node.name: node for node in network.nodes}
    tables = {table.name for table in network.tables}

    def climb(place: DropPlace) -> Iterator[DropPlace]:
        node = nodes.get(place.arc.origin)
        if node is None or _audience(network, node.name) != {output}:
            yield place
            return
        for side, arc in enumerate(node.inputs):
            if arc.origin not in tables:
                yield from climb(DropPlace(arc, node.name, side))

    end = next(o for o in network.outputs if o.name == output)
    return tuple(dict.fromkeys(climb(DropPlace(end.arc, output, is_output=True))))


def _audience(network: Network, origin: str) -> set[str]:
    """The outputs and connection points downstream of a box."""
    heard = {end.name for end in network.ends if end.arc.origin == origin}
    return heard.union(*(_audience(network, node.name) for node in network.consumers(origin)))


def plan(
    checked: Checked, statistics: Statistics, rates: Mapping[str, float], *, cores: float, headroom: float = 1.0
) -> Shedding:
    """The drops that make the load fit at little loss of utility; none if it fits.

    A graph with a cliff would mislead a greedy search, so it follows the graphs' concave envelopes; if dropping evenly
    is still better, that is the plan.
    """
    shares = dict.fromkeys(places(checked.network), 0.0)
    full = analyse(checked, statistics, rates, cores=math.inf)

    def tried(wanted: Mapping[DropPlace, float]) -> Shedding:
        dropped = {(place.taker, place.side, place.is_output): share for place, share in wanted.items()}
        found = analyse(checked, statistics, rates, cores=cores, headroom=headroom, dropped=dropped)
        delivered = {name: found.outputs[name] / rate if rate else 1.0 for name, rate in full.outputs.items()}
        return Shedding(dict(wanted), delivered, total_utility(checked.network, delivered), found)

    now, envelopes = tried(shares), [(o.name, o.quality.drop.envelope()) for o in checked.network.outputs]
    while not now.analysis.holds:
        options = [tried({**now.shares, p: min(s + STEP, 1.0)}) for p, s in now.shares.items() if s < 1]
        useful = [option for option in options if option.analysis.min_cap < now.analysis.min_cap - 1e-12]
        if not useful:
            break
        now = min(useful, key=lambda option: _price(envelopes, now, option))
    even = plan_evenly(checked, statistics, rates, cores=cores, headroom=headroom)
    return even if even.utility > now.utility else now


def _price(envelopes: Sequence[tuple[str, Graph]], now: Shedding, then: Shedding) -> float:
    """The utility that a step loses for the capacity it gains."""
    lost = sum(graph.at(now.delivered[name]) - graph.at(then.delivered[name]) for name, graph in envelopes)
    return lost / (now.analysis.min_cap - then.analysis.min_cap)


def plan_evenly(
    checked: Checked, statistics: Statistics, rates: Mapping[str, float], *, cores: float, headroom: float = 1.0
) -> Shedding:
    """The result of dropping the same share of everything, for comparison."""
    # without a capacity limit, since a saturated box would hide load from those downstream of it
    full = analyse(checked, statistics, rates, cores=math.inf)
    share = max(0.0, 1 - cores * headroom / full.min_cap) if full.min_cap else 0.0
    delivered = dict.fromkeys(full.outputs, 1 - share)
    fits = analyse(
        checked, statistics, {name: rate * (1 - share) for name, rate in rates.items()}, cores=cores, headroom=headroom
    )
    everywhere = {p: share for p in places(checked.network) if p.arc.origin in rates}
    return Shedding(everywhere, delivered, total_utility(checked.network, delivered), fits)


def delivered_shares(checked: Checked, wanted: Sequence[DropPlace], shares: Mapping[str, float]) -> dict[str, float]:
    """The share of each output that drops at places (by their text) leave, as far as the network determines it."""
    rates = {source.name: 1.0 for source in checked.network.sources}
    dropped = {(p.taker, p.side, p.is_output): shares.get(str(p), 0.0) for p in wanted}
    full, left = (analyse(checked, Statistics(), rates, cores=1.0, dropped=d).outputs for d in (None, dropped))
    return {name: left[name] / rate if rate else 1.0 for name, rate in full.items()}


def total_utility(network: Network, delivered: Mapping[str, float]) -> float:
    """The total utility of all outputs when these shares of them are delivered."""
    return sum(output.quality.drop.at(delivered[output.name]) for output in network.outputs)


def stamp(
    train: pa.Table, wanted: Sequence[DropPlace], shares: Mapping[str, float], values: Mapping[str, Any]
) -> pa.Table:
    """Mark in a train which of its tuples to drop where.

    ``wanted`` numbers the places, ``shares`` has the share to drop at each, by its text. For places that shed by value,
    ``values`` has a column of the train and the graph of its utility: the tuples with the least utility go first.
    """
    mask = np.zeros(train.num_rows, dtype=np.int64)
    for bit, place in enumerate(wanted):
        share = shares.get(str(place), 0.0)
        if share > 0:
            mask |= np.where(_choose(train, share, values.get(str(place))), np.int64(1) << bit, 0)
    kept = train.drop_columns([SHED]) if SHED in train.column_names else train
    return kept.append_column(SHED, pa.array(mask))


def _choose(train: pa.Table, share: float, value: tuple[str, Graph] | None) -> Bools:
    """Which tuples to drop: a random share, or those whose values have the least utility.

    A tuple has one random number for all places, so what is dropped everywhere need not even enter the network.
    """
    numbers: Longs = train[SEQ].to_numpy().astype(np.int64)
    lot = uniform(numbers.astype(np.uint64))
    if value is None:
        return np.asarray(lot < share)
    column, graph = value
    utility = graph.over(train[column].to_numpy())
    order = np.lexsort((lot, utility))
    chosen = np.zeros(numbers.size, dtype=bool)
    chosen[order[: round(share * numbers.size)]] = True
    return chosen


def drop_unused(stamped: pa.Table, network: Network, source: str, wanted: Sequence[DropPlace]) -> pa.Table:
    """The tuples of a stamped train that are not dropped on every way out of the source."""
    ways = takers(network, source)
    bits = [bit for bit, place in enumerate(wanted) if (place.taker, place.side, place.is_output) in ways]
    if len(bits) < len(ways):
        return stamped
    everywhere = sum(1 << bit for bit in bits)
    return stamped.filter(pa.array((stamped[SHED].to_numpy() & everywhere) != everywhere))


def value_graphs(network: Network, wanted: Sequence[DropPlace]) -> dict[str, tuple[str, Graph]]:
    """The places that can shed by value: their output has a value graph, and their arc is a source's."""
    found = {}
    sources = {source.name: source for source in network.sources}
    for output in network.outputs:
        value, column = output.quality.value, output.quality.value_column
        for place in own_branches(network, output.name) if value else ():
            source = sources.get(place.arc.origin)
            if value and place in wanted and source and column in source.schema:
                found[str(place)] = (column, value)
    return found


def read_shares(folder: Path) -> dict[str, float]:
    """Read the share of tuples to drop at each place of the network in a folder; empty by default."""
    place = folder / SHARES
    return dict(json.loads(place.read_text(encoding="utf-8"))) if place.exists() else {}


@dataclass(frozen=True)
class Marker:
    """Marks the tuples of feeds to drop, by the shares in effect when a batch begins."""

    folder: str
    network: Network

    def mark(self, tuples: pa.Table) -> tuple[pa.Table, dict[str, int]]:
        """Mark tuples; also returns how many are dropped at each place."""
        shares = read_shares(to_path(self.folder))
        if not shares:
            return tuples, {}
        wanted = places(self.network)
        marked = stamp(tuples, wanted, shares, value_graphs(self.network, wanted))
        return marked, count_dropped(marked, wanted)


def count_dropped(stamped: pa.Table, wanted: Sequence[DropPlace]) -> dict[str, int]:
    """Count the tuples of a stamped train that are dropped at each place."""
    mask = stamped[SHED].to_numpy()
    lost = {str(place): int(((mask >> bit) & 1).sum()) for bit, place in enumerate(wanted)}
    return {place: count for place, count in lost.items() if count}


def recent_rates(
    monitor: Sequence[Mapping[str, Any]], rates: Mapping[str, float], seconds: float = 10.0
) -> dict[str, float]:
    """The recent rate of each source of ``rates``, in tuples per second."""
    entries = [entry for entry in monitor if monitor[-1]["at"] - entry["at"] <= seconds * 1e6]
    span = (entries[-1]["at"] - entries[0]["at"]) / 1e6 if len(entries) > 1 else 0.0
    if not span:
        return dict(rates)
    return {name: sum(entry["taken"].get(name, 0) for entry in entries[1:]) / span for name in rates}


@dataclass
class Controller:
    """Dynamic shedding: assumes less capacity when outputs are late, and more when they are not.

    ``level`` is the share of the machine's cores that it assumes. Once that is enough for the rates, the plan drops
    nothing: shedding ends when the overload does.

    Late outputs say that there is less capacity, but not how much less. That follows from the batches: the work that
    they did, by ``statistics``, in the time that they took. So the level does not fall further and further while a
    backlog is processed, which stays late whatever is dropped of new tuples.
    """

    checked: Checked
    statistics: Statistics
    rates: Mapping[str, float]
    cores: float
    level: float = 1.0
    counts_dropped: bool = False  # whether the tuples that a batch took include those dropped on every way, as feeds do
    seen: int = -1
    shares: dict[str, float] = field(default_factory=dict)
    done: deque[_Work] = field(default_factory=lambda: deque(maxlen=RECENT))
    until: float | None = None  # when the last batch was committed, in seconds

    def begin(self) -> dict[str, float]:
        """Return the shares to begin with: nothing is dropped until outputs are late if costs were not measured."""
        if not self.statistics.figures:
            self.level = math.inf
        return self._plan()

    def adjust(self, monitor: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
        """Return new shares, based on new lines of the monitor; None if there are none."""
        new = [entry for entry in monitor if entry["batch"] > self.seen]
        good = [line["good"] for entry in new[-1:] for line in entry["outputs"].values()]
        if not good:
            return None
        self.seen = new[-1]["batch"]
        self._watch(new)
        if min(good) < GOOD:
            self.level = min(self.level, FASTER_DOWN * self._estimate_level())
        elif self._falls_behind():
            self.level = min(self.level, self._estimate_level())
        elif min(good) > ALL_GOOD:
            self.level *= SLOWLY_UP
        return self._plan()

    def _plan(self) -> dict[str, float]:
        shed = plan(self.checked, self.statistics, self.rates, cores=self.cores, headroom=self.level)
        self.shares = {str(place): round(share, 4) for place, share in shed.shares.items() if share > 0}
        return self.shares

    def _watch(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Note what batches did, and the time since the batch before."""
        cores, taken = self._find_load()
        for entry in entries:
            at, arrived = entry["at"] / 1e6, sum(entry["taken"].values()) / taken if taken else 0.0
            if self.until is not None:
                self.done.append(_Work(cores * arrived, arrived, at - self.until))
            self.until = at

    def _find_load(self) -> tuple[float, float]:
        """The cores that the rates require with the shares in effect, and the tuples per second that batches take."""
        dropped = {(p.taker, p.side, p.is_output): self.shares.get(str(p), 0.0) for p in places(self.checked.network)}
        found = analyse(self.checked, self.statistics, self.rates, cores=math.inf, dropped=dropped)
        entering = {load.box: load.rate for load in found.loads}
        return found.min_cap, sum(self.rates.values() if self.counts_dropped else (entering[s] for s in self.rates))

    def _estimate_level(self) -> float:
        """The share of the cores that recent batches had; the assumed one if none is known."""
        seconds = sum(one.seconds for one in self.done)
        return sum(one.cores for one in self.done) / seconds / self.cores if seconds > 0 else self.level

    def _falls_behind(self) -> bool:
        """Whether batches take so much longer than their tuples took to arrive that the next one will be late."""
        if not self.done or self.done[-1].seconds <= GROWING * self.done[-1].arrived:
            return False
        last = self.done[-1]
        # the next one has what arrived during the last one, and takes longer again
        good = min(output.quality.delay.good_until for output in self.checked.network.outputs)
        return last.seconds * (1 + last.seconds / max(last.arrived, 1e-9)) > good


class _Work(NamedTuple):
    """What a batch did: seconds of a core, by the statistics; the seconds in which its tuples arrived, and its own."""

    cores: float
    arrived: float
    seconds: float
