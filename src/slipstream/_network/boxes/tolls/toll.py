"""The toll box: Linear Road's five answers from a stream of its tuples, beside any other boxes.

It uses the kernels of the toll engine (``_linear_road``): cars, segments and accidents in a ``TollFragment``,
balances in ``Accounts``. Like the engine it works on whole seconds: a tuple waits until nothing that may still be
accepted belongs to its second. The answers of a second leave with the arrival that completes it, wherever trains end.

Vehicles may have text ids: the box numbers them, and translates the numbers back in its outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from slipstream._cuboid.schema import Schema as CuboidSchema
from slipstream._errors import BadInput
from slipstream._feeds.lane_parcels import find_rivals
from slipstream._feeds.parse import GOOD, judge, reject_reason
from slipstream._feeds.text_ids import are_valid, ranks
from slipstream._feeds.trains import REQUEST_FIELDS
from slipstream._feeds.tuples import FIELDS, LINEAR_ROAD, POSITION, ReportForm
from slipstream._io.report_packing import CLASS, add_class
from slipstream._linear_road import rules as rule_sets
from slipstream._linear_road.answers import BALANCE, EXPENDITURE, TRAVEL_TIME, Answers
from slipstream._linear_road.rules import RULES, Rules
from slipstream._linear_road.state.accounts import Accounts
from slipstream._linear_road.state.cars import NOWHERE
from slipstream._linear_road.state.past_queries import open_past
from slipstream._linear_road.state.published import (
    CUBOIDS,
    CUBOIDS_BY_TEXT,
    RoadPublisher,
    Vehicles,
    publish_accounts,
)
from slipstream._linear_road.state.toll_fragment import NO_CHARGES, NO_ENTRIES, Charges, Entries, TollFragment
from slipstream._linear_road.tasks.intake import MOST_LATENESS
from slipstream._network.boxes.operators import KeyedTable, Operator, RowTable, Schema, State, require
from slipstream._network.boxes.windows.window_functions import nulls
from slipstream._network.column_types import plain_type
from slipstream._network.flow import Array, Train
from slipstream._runtime.state.id_numbers import Names
from slipstream._runtime.state.store import Store
from slipstream._tools.numba_tools import Longs

#: A tuple needs these; a missing ``type`` is a position report, a missing ``seg`` follows, other fields do not apply.
#: General rules need less, and know a vehicle's ``class``.
NEEDED = LINEAR_ROAD.needed
TS, LATEST, ARRIVAL = "ts", "latest", "arrival"
_LEAST = np.iinfo(np.int32).min
#: a second after all others
_END = 1 << 40

#: output -> its columns, all integers unless vehicles have text ids
_COLUMNS = {
    "notifications": ("vid", "time", "lav", "toll"),
    "alerts": ("vid", "time", "seg"),
    "balances": ("qid", "vid", "time", "result_time", "balance"),
    "expenditures": ("qid", "vid", "time", "expenditure"),
    "travel_times": ("qid", "vid", "time", "travel_time", "toll"),
}
_ANSWERS = {
    "balances": (BALANCE, ("qid", "vid", "time", "a", "b")),
    "expenditures": (EXPENDITURE, ("qid", "vid", "time", "a")),
    "travel_times": (TRAVEL_TIME, ("qid", "vid", "time", "a", "b")),
}
REJECTS, REASON = "rejects", "reason"
VID = "vid"
#: verdicts on a text that cannot be an id, and on a class that the rules do not know
_NOT_A_NAME, _NO_SUCH_CLASS = -1, -2
_REASONS = {_NOT_A_NAME: "text:vid", _NO_SUCH_CLASS: "range:class"}


@dataclass
class TollState:
    """Cars, segments and accounts in the engine's own tables; ``names`` if vehicles have text ids."""

    toll: TollFragment
    accounts: Accounts
    is_published: bool = False
    names: Names | None = None
    seen: RoadPublisher = field(default_factory=RoadPublisher)

    @property
    def stores(self) -> tuple[str, ...]:
        """One for each table."""
        tables = ("cars", "visits", "minutes", "notes", "accounts")
        return tables if self.names is None else (*tables, "names")

    def save(self, stores: Sequence[Store], batch: int) -> None:
        """Write what changed."""
        self.toll.save(*stores[:4])
        self.accounts.save(batch, stores[4])
        if self.names is not None:
            self.names.save(stores[5])

    def load(self, stores: Sequence[Store]) -> None:
        """Load the saved state."""
        self.toll = TollFragment.load(self.toll.rules, *stores[:4], keeps_past=self.is_published)
        self.accounts = Accounts.load(self.accounts.rules, self.accounts.past, stores[4])
        if self.names is not None:
            self.names = Names.load(stores[5])

    def publish(self, snapshot: Path, number: int, batch: int) -> None:
        """Publish the cuboids, if requested."""
        if self.is_published:
            vehicles = None if self.names is None else Vehicles(self.names)
            self.seen.publish(self.toll, snapshot, number, batch, vehicles)
            publish_accounts(self.accounts.accounts, snapshot, number, batch, vehicles)

    def measure(self) -> tuple[int, int]:
        """Cars and accounts, and the bytes of these and of the visits."""
        tables = (self.toll.cars, self.accounts.accounts)
        return sum(map(len, tables)), sum(table.nbytes for table in (*tables, self.toll.visits))


class Whole(NamedTuple):
    """Tuples of complete seconds in the order of time, and their arrival times."""

    tuples: dict[str, Array]
    ts: Longs


@dataclass(frozen=True)
class Toll(Operator):
    """Tolls by a rule set; a tuple may be ``lateness`` seconds late. ``past`` is a run with history, for requests."""

    kind: ClassVar[str] = "toll"
    ports: ClassVar[tuple[str, ...]] = (*_COLUMNS, REJECTS)
    rules: str | Rules = "2004"
    lateness: int = 0
    past: str = ""
    publish: bool = False

    def __post_init__(self) -> None:
        # module:function is not accepted here: a file must not be able to load a module
        if isinstance(self.rules, str) and (own := rule_sets.find_registered(self.rules)):
            object.__setattr__(self, "rules", own)  # workers do not know what is registered here
        if isinstance(self.rules, str) and self.rules not in RULES:
            raise BadInput(
                f"no rules {self.rules!r}.",
                hint=f"Rule sets: {', '.join(rule_sets.list_rules())}.",
                code="unknown-value",
                found=self.rules,
                expected=[*rule_sets.list_rules()],
            )
        if not 0 <= self.lateness <= MOST_LATENESS:
            raise BadInput(
                f"lateness {self.lateness}: out of range.",
                hint=f"Give 0 to {MOST_LATENESS} seconds.",
                code="out-of-range",
            )

    def outputs(self, tuples: Schema) -> dict[str, Schema]:
        """The five answers, and the rejects."""
        for name in (*self.form.needed, *(name for name in (*FIELDS, CLASS) if name in tuples)):
            require(tuples, name, *(("integer", "text") if name == VID else ("integer",)))
        ids = plain_type(tuples[VID])
        found = {**_COLUMNS, REJECTS: FIELDS}
        schemas: dict[str, Schema] = {
            output: {name: ids if name == VID else "integer" for name in columns} for output, columns in found.items()
        }
        return {**schemas, REJECTS: {**schemas[REJECTS], REASON: "text"}}

    @property
    def rule_set(self) -> Rules:
        """The rules themselves."""
        return RULES[self.rules] if isinstance(self.rules, str) else self.rules

    @property
    def form(self) -> ReportForm:
        """The form of position reports."""
        return self.rule_set.form

    def published(self, *inputs: Schema) -> dict[str, CuboidSchema]:
        """Cars, segments, accidents and accounts."""
        if not self.publish:
            return {}
        return CUBOIDS_BY_TEXT if inputs and plain_type(inputs[0][VID]) == "text" else CUBOIDS

    def fresh(self, tuples: Schema) -> State:
        """An empty road."""
        rules = self.rule_set
        return {
            "clock": KeyedTable({}, {LATEST: ("integer", -1), ARRIVAL: ("integer", 0)}),
            "waiting": RowTable((*FIELDS, TS)),
            "road": TollState(
                TollFragment(rules, keeps_past=self.publish),
                Accounts(rules, open_past(self.past or None)),
                self.publish,
                Names() if plain_type(tuples[VID]) == "text" else None,
            ),
        }

    def step(self, state: Mapping[str, Any], tuples: Train) -> dict[str, Train]:
        """Add tuples, and return the answers of the seconds that they complete."""
        given, verdicts = _judge(tuples, self.form)
        good = np.flatnonzero(verdicts == GOOD)
        if (names := state["road"].names) is not None:
            given[VID][good] = names.number(pa.array(tuples[VID][good], pa.string()))
        clock = state["clock"]
        row = clock.rows({"": np.zeros(1)})
        clock[ARRIVAL][row] = tuples.order[:, 0].max(initial=int(clock[ARRIVAL][row[0]]))
        # the newest second by each arrival
        newest = np.maximum.accumulate(np.maximum(given["time"][good], clock[LATEST][row[0]]))
        late = given["time"][good] < newest - self.lateness
        bad = np.ones(len(tuples), np.bool_)
        bad[good[~late]] = False
        rejects = [_reject(tuples.take(bad), given, bad, [*_list_reasons(verdicts[bad])])]
        if good.size:
            clock[LATEST][row] = newest[-1]
            whole = self._take_whole(state["waiting"], tuples, given, good[~late], int(newest[-1]) - self.lateness)
            triggers = tuples.take(good)
            made = self._answer(state["road"], whole, triggers, newest)
            return {**made, REJECTS: Train.concat([*rejects, made[REJECTS]])}
        return {REJECTS: rejects[0]}

    def finish(self, state: Mapping[str, Any], width: int) -> dict[str, Train]:
        """Answer the remaining seconds; the answers are emitted after the last tuple."""
        clock, waiting = state["clock"], state["waiting"]
        slots = waiting.slots()
        if not slots.size:
            return {}
        order = np.zeros((1, width), np.int64)
        order[:, 0] = clock[ARRIVAL][0]
        nothing = np.zeros(1, np.int64)
        whole = _sort_by_time(waiting.pop(slots))
        return self._answer(state["road"], whole, Train(nothing, nothing, order, {}), np.array([_END]))

    def _answer(self, road: TollState, whole: Whole, triggers: Train, newest: Longs) -> dict[str, Train]:
        """Return the answers to tuples of whole seconds, and the rejected tuples."""
        whole, refused = _sift(whole)
        parts = {**self._answers(road, whole), REJECTS: refused}
        return {
            name: _train(name, second, ts, _name_vehicles(columns, road.names), triggers, newest, self.lateness)
            for name, (second, ts, columns) in parts.items()
        }

    def _take_whole(
        self, waiting: RowTable, tuples: Train, given: dict[str, Array], accepted: Longs, until: int
    ) -> Whole:
        """Return the tuples of seconds before ``until``; later ones wait."""
        slots = waiting.slots()
        old = waiting.pop(slots[waiting.table.take("time", slots) < until])
        new = {**{name: given[name][accepted] for name in FIELDS}, TS: tuples.ts[accepted]}
        now = new["time"] < until
        if not now.all():
            waiting.add({name: values[~now].astype(np.int64) for name, values in new.items()})
        return _sort_by_time({name: np.concatenate([old[name], new[name][now]]) for name in (*FIELDS, TS)})

    def _answers(self, road: TollState, whole: Whole) -> dict[str, tuple[Longs, Longs, dict[str, Array]]]:
        """Return for each output the second and the arrival time of every answer, and its columns."""
        entries, charges = _toll(road.toll, whole)
        told = {"vid": entries.vid, "time": entries.time, "lav": entries.lav, "toll": entries.toll}
        alerted = entries.alert != NOWHERE
        warned = {"vid": entries.vid[alerted], "time": entries.time[alerted], "seg": entries.alert[alerted]}
        found = {
            "notifications": (entries.time, entries.arrived, told),
            "alerts": (entries.time[alerted], entries.arrived[alerted], warned),
        }
        asks = whole.tuples["type"] != POSITION
        requests = {name: whole.tuples[name][asks] for name in ("time", *REQUEST_FIELDS)}
        answers = road.accounts.take(charges, {**requests, "arrived": whole.ts[asks]})
        return found | {output: _select_kind(answers, output) for output in _ANSWERS}


def _sort_by_time(columns: Mapping[str, Array]) -> Whole:
    order = np.argsort(columns["time"], kind="stable")
    return Whole({name: columns[name][order].astype(np.int32) for name in FIELDS}, columns[TS][order])


def _judge(tuples: Train, form: ReportForm) -> tuple[dict[str, Array], Any]:
    """Return the fifteen fields of each tuple, and the verdict on it."""
    implied: dict[str, Any] = {**form.defaults, "seg": tuples["pos"] // form.segment_length}
    by_text = tuples[VID].dtype == object
    given = {}
    for name in FIELDS:
        values = np.broadcast_to(tuples.columns.get(name, implied.get(name, -1)), len(tuples))
        if name == VID and by_text:
            values = np.where(nulls(values), _LEAST, 0)  # it is numbered when the tuple is accepted
        # what 32 bits do not hold is out of every range, and so is a null
        given[name] = np.where((values > _LEAST) & (values < -_LEAST), values, _LEAST).astype(np.int32)
    verdicts = judge(given, form)
    if CLASS in tuples.columns:
        classes = np.where(nulls(tuples[CLASS]), 0, tuples[CLASS])
        verdicts[add_class(given, classes, form) & (verdicts == GOOD)] = _NO_SUCH_CLASS
    if by_text:
        verdicts[(verdicts == GOOD) & ~are_valid(pa.array(tuples[VID], pa.string()))] = _NOT_A_NAME
    return given, verdicts


def _list_reasons(verdicts: Array) -> list[str]:
    return [_REASONS.get(int(verdict)) or reject_reason(int(verdict)) or "late" for verdict in verdicts]


def _reject(bad: Train, given: dict[str, Array], which: Array, reasons: list[str]) -> Train:
    columns = {name: bad.columns.get(name, given[name][which]) for name in FIELDS}
    wide = {name: values if values.dtype == object else values.astype(np.int64) for name, values in columns.items()}
    return bad.with_columns({**wide, REASON: np.array(reasons, dtype=object)})


def _name_vehicles(columns: dict[str, Array], names: Names | None) -> dict[str, Array]:
    """Replace the numbers of vehicles by the ids of the feed."""
    if names is None:
        return columns
    texts = names.texts.take(np.asarray(columns[VID], np.int64))
    return {**columns, VID: np.asarray(texts.to_numpy(zero_copy_only=False))}


def _sift(whole: Whole) -> tuple[Whole, tuple[Longs, Longs, dict[str, Array]]]:
    """Return tuples without duplicates and conflicts; and those as rejects: second, arrival time and columns."""
    duplicate, conflict = find_rivals(whole.tuples)
    bad = duplicate | conflict
    columns = {name: values[bad].astype(np.int64) for name, values in whole.tuples.items()}
    columns[REASON] = np.where(duplicate[bad], "duplicate", "conflict").astype(object)
    refused = (whole.tuples["time"][bad], whole.ts[bad], columns)
    if not bad.any():
        return whole, refused
    return Whole({name: values[~bad] for name, values in whole.tuples.items()}, whole.ts[~bad]), refused


def _toll(toll: TollFragment, whole: Whole) -> tuple[Entries, Charges]:
    """Process position reports, minute by minute."""
    reports = whole.tuples["type"] == POSITION
    time, vid, xway, pos = (whole.tuples[name][reports] for name in ("time", "vid", "xway", "pos"))
    spd = whole.tuples["spd"][reports].astype(np.uint8)
    lane_dir = (whole.tuples["lane"][reports] + 8 * whole.tuples["dir"][reports]).astype(np.uint8)
    columns = (time, vid, xway, spd, lane_dir, pos, whole.ts[reports])
    cuts = np.flatnonzero(np.diff(time // 60)) + 1
    parts = [(NO_ENTRIES, NO_CHARGES)]
    for first, last in zip([0, *cuts], [*cuts, time.size], strict=True):
        if last > first:
            parts.append(toll.take_minute(*(column[first:last] for column in columns)))
    entries, charges = zip(*parts, strict=True)
    toll.take_irregular()
    return (
        Entries(*map(np.concatenate, zip(*entries, strict=True))),
        Charges(*map(np.concatenate, zip(*charges, strict=True))),
    )


def _select_kind(answers: Answers, output: str) -> tuple[Longs, Longs, dict[str, Array]]:
    kind, names = _ANSWERS[output]
    mine = answers[answers["kind"] == kind]
    columns = {column: mine[name] for column, name in zip(_COLUMNS[output], names, strict=True)}
    return mine["time"], mine["arrived"], columns


def _train(
    output: str, second: Array, ts: Array, columns: dict[str, Array], triggers: Train, newest: Longs, lateness: int
) -> Train:
    """The train of tuples that are emitted at the arrival that completes their second."""
    by = np.searchsorted(newest, second.astype(np.int64) + lateness + 1)
    names = [name for name in columns if name != REASON] if output == REJECTS else list(columns)
    # within a second by vehicle and request: whatever the order in which they were computed
    order = np.lexsort([_make_sortable(np.asarray(columns[name])) for name in (*names[::-1], VID)] + [second, by])
    by = by[order]
    return Train(
        np.asarray(ts, np.int64)[order],
        triggers.shed[by],
        triggers.order[by],
        {name: np.asarray(values)[order] for name, values in columns.items()},
    )


def _make_sortable(values: Array) -> Array:
    return ranks(values) if values.dtype == object else values
