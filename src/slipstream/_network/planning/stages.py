"""The stages of a network: which boxes run in one stateful operator, and by which key it is partitioned.

A box that groups its input needs all tuples of a group in one place, and nothing of other groups. So it can run in as
many partitions as there are groups, and stays in the stage of the box before it if its groups contain the key of that
stage. Otherwise, tuples are exchanged between two stages. What concerns all groups, such as a clock that closes their
windows, goes to all partitions. A keep box and the lookups that ask it by its key are spread by that key, in the stage
that the last of the questions can reach. Boxes whose answers depend on all tuples (a sort without groups, operators
without a key) run in one partition. Filter, Map, Union and look-ups in stored tables run wherever tuples are.

With parallelism 1 all boxes run in one stage, unless an expression between two of them needs Spark (``translation``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias

from slipstream._errors import BadArgument
from slipstream._network.algebra import Aggregate, Join, Latest, Resample
from slipstream._network.boxes.operators import Operator
from slipstream._network.planning.plan import Plan, Recipient, Runner, Way
from slipstream._network.schemas import join_columns, latest_columns
from slipstream._network.sql.translation import Translations

#: consecutive ways, with a look-up in a stored table between two of them
Chain: TypeAlias = tuple[Way, ...]


@dataclass(frozen=True)
class Home:
    """The stage and partition to which the tuples of a side of a box or of an output go.

    ``keys`` are the columns whose hash selects the partition; without any, all go to the first. With ``bounds``
    partitions are ranges of the one key, and these the first of each but the first. An output that is ``anywhere``
    takes its tuples in whatever stage and partition they are. ``everywhere`` sends all of them to all partitions.
    """

    stage: int
    keys: tuple[str, ...] = ()
    anywhere: bool = False
    bounds: tuple[int, ...] = ()
    everywhere: bool = False


@dataclass(frozen=True)
class StageInfo:
    """A stateful operator: its boxes, the columns by which it is partitioned, and the number of partitions.

    Boxes of one stage that are not connected may have different keys.
    """

    stage: int
    boxes: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    partitions: int

    @property
    def summary(self) -> str:
        """A description for people.

        >>> StageInfo(1, ("by_car",), (("vid",),), 4).summary
        'stage 1: 4 partitions by vid'
        """
        by = " or ".join(", ".join(key) for key in self.keys)
        parts = "1 partition" if self.partitions == 1 else f"{self.partitions} partitions"
        return f"stage {self.stage}: {parts}{f' by {by}' if by and self.partitions > 1 else ''}"


@dataclass
class Stages:
    """How a network is laid out over Spark."""

    parallel: int
    count: int = 1
    homes: dict[int, Home] = field(default_factory=dict)  # of deliveries, by the numbers of their layouts
    of: dict[str, int] = field(default_factory=dict)  # the stage of each stateful box
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)  # the columns that partition its input
    places: dict[str, int] = field(default_factory=dict)  # the stage in which any box runs; 0 where tuples are read
    rounds: list[int] = field(default_factory=list)  # passes through Spark before the first stage, after it...

    @property
    def is_read_apart(self) -> bool:
        """Whether tuples are exchanged, or pass through Spark, between the source and the first stage."""
        return self.parallel > 1 or bool(self.rounds[0])

    @property
    def listed(self) -> list[StageInfo]:
        """Descriptions of the stages, in order."""
        return [self._stage(number) for number in range(1, self.count + 1)]

    def _stage(self, number: int) -> StageInfo:
        boxes = tuple(name for name, stage in self.places.items() if stage == number)
        keyed = [self.keys[name] for name in boxes if name in self.keys]
        keys = tuple(dict.fromkeys(key for key in keyed if key and self.parallel > 1))
        # a stage without stateful boxes only writes what it receives
        return StageInfo(number, boxes, keys, self.parallel if keys or not keyed else 1)


def plan_stages(plan: Plan, translations: Translations, parallel: int) -> Stages:
    """Divide a plan into stages with ``parallel`` partitions."""
    return _StagePlanner(plan, translations, parallel).stages()


def output_keys(plan: Plan, translations: Translations) -> dict[str, tuple[str, ...]]:
    """The columns of each output by which the boxes that it comes from group tuples; none if there are no such."""
    return _StagePlanner(plan, translations, 1).output_keys()


class _StagePlanner:
    def __init__(self, plan: Plan, translations: Translations, parallel: int) -> None:
        self._plan = plan
        self._translations = translations
        self._nodes = {node.name: node for node in plan.checked.nodes}
        self._runners = {runner.node.name: runner for runner in plan.runners}
        self._made = Stages(parallel)
        self._places: dict[str, tuple[int, ...]] = {}  # which of its groups spread the input of each stateful box

    def stages(self) -> Stages:
        for name in self._sequence():
            self._settle(self._runners[name])
        kept = {point.name for point in self._plan.checked.network.kept}
        for name, delivery in self._plan.outputs.items():
            self._made.homes[delivery.layout.id] = self._gather(delivery) if name in kept else Home(0, anywhere=True)
        ends = [self._find_stage_after(chain, d) for d in self._plan.outputs.values() for chain in self._chains(d)]
        self._made.count = max([1, *ends, *(home.stage for home in self._made.homes.values())])
        self._made.rounds = self._rounds()
        self._place_all()
        return self._made

    def output_keys(self) -> dict[str, tuple[str, ...]]:
        """Where tuples come along several ways, all must have the same key."""
        found = {}
        for name, delivery in self._plan.outputs.items():
            keys = {self._find_key(chain, delivery) for chain in self._chains(delivery)}
            found[name] = keys.pop() if len(keys) == 1 else ()
        return found

    def _find_key(self, chain: Chain, delivery: Recipient) -> tuple[str, ...]:
        before = self._runners.get(chain[0].origin.origin)
        if before is None:
            return ()
        columns = delivery.layout.columns
        return tuple(name for name in columns if self._origin_place(name, chain, before) is not None)

    def _place_all(self) -> None:
        """Assign every box its stage: a box without state runs in the stage of its input."""
        reads = int(not self._made.is_read_apart)
        for node in self._plan.checked.nodes:
            before = [self._made.places.get(arc.origin, reads) for arc in node.inputs]
            self._made.places[node.name] = self._made.of.get(node.name, max(before))

    # --- what is upstream

    def _chains(self, delivery: Recipient) -> Iterator[Chain]:
        """All ways to a delivery from sources and stateful boxes."""
        for way in delivery.paths:
            origin = self._runners.get(way.origin.origin)
            if origin is None or origin.is_stateful:
                yield (way,)
            else:
                yield from ((*chain, way) for chain in self._chains(origin.sides[0]))

    def _stage_before(self, chain: Chain) -> int:
        """Return the stage from which tuples arrive; 0 for sources."""
        return self._made.of.get(chain[0].origin.origin, 0)

    def _cuts(self, chain: Chain, delivery: Recipient) -> int:
        """How often tuples pass through Spark on a chain."""
        ends = [self._runners[way.origin.origin].sides[0] for way in chain[1:]]
        return sum(len(self._translations.cuts(end, way)) for way, end in zip(chain, [*ends, delivery], strict=True))

    def _find_stage_after(self, chain: Chain, delivery: Recipient) -> int:
        """The first stage that can receive the tuples of a chain."""
        return max(self._stage_before(chain) + (self._cuts(chain, delivery) > 0), 1)

    def _rounds(self) -> list[int]:
        rounds = [0] * (self._made.count + 1)
        for delivery in self._plan.deliveries:
            for chain in self._chains(delivery):
                before = self._stage_before(chain)
                rounds[before] = max(rounds[before], self._cuts(chain, delivery))
        return rounds

    # --- where a box goes

    def _sequence(self) -> list[str]:
        """The stateful boxes, each after those whose tuples it takes, or whose tuples ask for its state."""
        found = sorted(self._plan.runners, key=lambda runner: self._plan.levels[runner.node.name])
        runners = {runner.node.name: runner for runner in found if runner.is_stateful}
        before = {
            name: [chain[0].origin.origin for chain, _ in (*self._inputs(runner), *self._questions(runner))]
            for name, runner in runners.items()
        }
        try:
            order = list(TopologicalSorter(before).static_order())
        except CycleError:  # of two boxes that are asked by what is behind the other; ``_check_lender`` refuses one
            order = list(runners)
        return [name for name in order if name in runners]

    def _inputs(self, runner: Runner) -> list[tuple[Chain, Recipient]]:
        return [(chain, side) for side in runner.sides for chain in self._chains(side)]

    def _questions(self, runner: Runner) -> list[tuple[Chain, Recipient]]:
        """How other boxes are asked about the state of a box, except by what is behind it."""
        name = runner.node.name
        takers = (self._runners.get(node.name) for node in self._plan.checked.network.consumers(name))
        borrowers = [t for t in takers if t and isinstance(t.node.box, Operator) and t.node.box.borrows]
        found = [(chain, side) for taker in borrowers for side in taker.sides[1:] for chain in self._chains(side)]
        origins = ((chain[0].origin.origin, (chain, side)) for chain, side in found)
        return [asked for origin, asked in origins if origin != name and not self._plan.is_behind(origin, name)]

    def _settle(self, runner: Runner) -> None:
        """Put a stateful box into the stage of the boxes before it, or into the next if it needs another key."""
        # a box that is asked for its state is where the questions can be
        asked = [(c, side) for c, side in self._questions(runner) if self._is_known(c)]
        chains = self._inputs(runner) + asked
        stage = max(self._find_stage_after(chain, side) for chain, side in chains)
        inside = [
            (chain, side)
            for chain, side in chains
            if self._stage_before(chain) == stage and not self._cuts(chain, side)
        ]
        groups = runner.group_by
        wanted = tuple(range(len(groups)))
        places = self._places_inside(inside) if inside else wanted
        if places is None:
            stage, places = stage + 1, wanted
        name = runner.node.name
        self._check_lender(runner, stage)
        self._made.of[name], self._places[name] = stage, places
        self._made.keys[name] = tuple(groups[place] for place in places)
        for side in runner.sides:
            self._made.homes[side.layout.id] = self._home(runner, side, stage, places)

    def _is_known(self, chain: Chain) -> bool:
        origin = self._runners.get(chain[0].origin.origin)
        return origin is None or origin.node.name in self._made.of

    def _home(self, runner: Runner, side: Recipient, stage: int, places: tuple[int, ...]) -> Home:
        if side.everywhere:
            return Home(stage, everywhere=bool(places))
        names = side.group_by if runner.kernel is None else [f"g{place}" for place in range(len(runner.group_by))]
        keys = tuple(names[place] for place in places)
        return Home(stage, keys, bounds=self._bounds(runner) if keys else ())

    def _bounds(self, runner: Runner) -> tuple[int, ...]:
        """Where partitions begin, of a box with ranges, and of those that work on its state."""
        box = runner.node.box
        if isinstance(box, Operator) and box.borrows:
            box = self._nodes[runner.node.inputs[0].origin].box
        return box.bounds if isinstance(box, Operator) else ()

    def _check_lender(self, runner: Runner, stage: int) -> None:
        """Refuse a box that uses the state of a box in another stage."""
        box, lender = runner.node.box, runner.node.inputs[0].origin
        if isinstance(box, Operator) and box.borrows and self._made.of.get(lender) != stage:
            raise BadArgument(
                f"box {runner.node.name} ({box.name}) uses the state of {lender}, but its other inputs come from a "
                "later stage.",
                hint="Run the network with --parallel 1, and without expressions that only Spark can compute there.",
                code="bad-network",
            )

    def _places_inside(self, inside: list[tuple[Chain, Recipient]]) -> tuple[int, ...] | None:
        """Which groups of a box are the key of the boxes before it in their stage; None if there is no such key."""
        if self._made.parallel == 1:
            return ()
        found = {self._places_on(chain, side) for chain, side in inside}
        return found.pop() if len(found) == 1 else None

    def _places_on(self, chain: Chain, side: Recipient) -> tuple[int, ...] | None:
        before = self._runners[chain[0].origin.origin]
        if side.everywhere:
            return None  # other partitions would not hear of it in this stage
        if not self._places[before.node.name]:
            return None if side.group_by else ()
        at = {self._origin_place(group, chain, before): place for place, group in enumerate(side.group_by)}
        places = [at.get(place) for place in self._places[before.node.name]]
        return None if None in places else tuple(place for place in places if place is not None)

    def _origin_place(self, column: str, chain: Chain, before: Runner) -> int | None:
        """Which group of the box at the beginning of a chain a column at its end is, if it is one unchanged."""
        name: str | None = column
        for number, way in reversed(list(enumerate(chain))):
            name = self._plan.at_origin(name, way) if name is not None else None
            if number and name is not None:
                name = self._before_look_up(name, self._runners[way.origin.origin])
        return None if name is None else _place_of(name, before, self._plan)

    def _before_look_up(self, name: str, runner: Runner) -> str | None:
        side, column = join_columns(*self._plan.checked.inputs(runner.node))[name]
        return column if side == runner.sides[0].side else None

    def _gather(self, delivery: Recipient) -> Home:
        """The home of an output whose tuples are numbered: one partition."""
        chains = list(self._chains(delivery))
        stage = max(self._find_stage_after(chain, delivery) for chain in chains)
        spread = any(self._stage_before(chain) == stage and self._places[chain[0].origin.origin] for chain in chains)
        return Home(stage + 1 if spread and self._made.parallel > 1 else stage)


def _place_of(name: str, runner: Runner, plan: Plan) -> int | None:
    """Which group of a box its output column is."""
    groups, side = [side.group_by for side in runner.sides], 0
    if isinstance(runner.node.box, Operator) and not runner.node.box.passes_key:
        return None
    if isinstance(runner.node.box, Aggregate | Resample):
        place = list(runner.origin.columns).index(name)
        return place if place < len(runner.group_by) else None
    box, inputs = runner.node.box, plan.checked.inputs(runner.node)
    if isinstance(box, Join | Latest):
        side, name = (join_columns(*inputs) if isinstance(box, Join) else latest_columns(box, *inputs))[name]
    return groups[side].index(name) if name in groups[side] else None
