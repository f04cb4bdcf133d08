"""Is an engine's output right? Every tuple against the answers of ``answers.py``, every delay against its limit.

All comparison is one grouping of expected and given tuples by what they answer; only counts and the first examples
leave the cluster. An answer within its tolerance (a balance up to 60 s old, a travel time within 5 %) is first
replaced by the exact one, so that one comparison serves all kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream.bench.answers import STEPS_THAT_TAKE_LONG, CorrectAnswers, rows_to_compute
from slipstream.bench.editions import ALERT, ANSWERS, BALANCE, EXPENDITURE, TOLL, TRAVEL_TIME, Edition
from slipstream.bench.outputs import Order, read_outputs
from slipstream.bench.workspace import workspace
from slipstream.errors import BadArgument, BadInput
from slipstream.feeds.run import Run
from slipstream.progress import bar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

PROBLEMS = ("missing", "extra", "wrong", "late", "duplicated")

#: the two values of each kind
VALUES = {
    TOLL: ("Lav", "Toll"),
    ALERT: ("Seg",),
    BALANCE: ("ResultTime", "Bal"),
    EXPENDITURE: ("Bal",),
    TRAVEL_TIME: ("TravelTime", "Toll"),
}

_TRIGGER = "a report outside lane 4 that starts a trip or shows a new segment"
_ONCE = {
    TOLL: f"Exactly one toll notification for {_TRIGGER}.",
    ALERT: f"Exactly one alert for {_TRIGGER} when an accident lies in the downstream segments 0 to 4.",
    BALANCE: "Exactly one balance for every balance request.",
    EXPENDITURE: "Exactly one sum for every daily expenditure request.",
    TRAVEL_TIME: "Exactly one estimate for every travel time request.",
}
_RIGHT = {
    TOLL: "Lav is the floor of the mean speed of the five minutes before; the toll follows from Lav, the cars of the "
    "minute before and accidents downstream.",
    ALERT: "Seg is the nearest downstream segment with an accident in the minute before.",
    BALANCE: "Bal is the sum of tolls charged up to ResultTime, which is at most 60 s before Time.",
    EXPENDITURE: "Bal is what the history has for the vehicle, day and expressway; 0 when it has nothing.",
    TRAVEL_TIME: "Seconds and tolls by the ten-week means, within 5 %; -1, -1 without history.",
}

WITHIN_60_SECONDS = """
select kind, id, time, emit_ms, coalesce(if(exact is null, null, time), a) as a, coalesce(exact, b) as b
from (
  select kind, id, time, emit_ms, a, b, max(if(a between time - 60 and time and b = then, due, null)) as exact
  from (
    select o.uid, o.kind, o.id, o.time, o.emit_ms, o.a, o.b, r.balance as due, coalesce(sum(c.toll), 0) as then
    from {outputs} as o
      join {balances} as r on r.qid = {stored_id} and r.time = o.time
      left join {charges} as c on c.vid = r.vid and c.time <= o.a
    group by o.uid, o.kind, o.id, o.time, o.emit_ms, o.a, o.b, r.vid, r.balance
  )
  group by uid, kind, id, time, emit_ms, a, b
)
union all
select kind, id, time, emit_ms, a, b
from {outputs} as o left anti join {balances} as r on r.qid = {stored_id} and r.time = o.time
"""

WITHIN_5_PERCENT = """
select kind, id, time, emit_ms, coalesce(exact.seconds, a) as a, coalesce(exact.toll, b) as b
from (
  select o.uid, o.kind, o.id, o.time, o.emit_ms, o.a, o.b,
    max(if(abs(o.a - r.seconds) <= 0.05 * abs(r.seconds) and abs(o.b - r.toll) <= 0.05 * abs(r.toll),
      struct(r.seconds, r.toll), null)) as exact
  from {outputs} as o left join {travel_times} as r on r.qid = {stored_id} and r.time = o.time
  group by all
)
"""

# Expected tuples have no emit_ms. Usually both counts are 1 and all least and greatest values are the same.
COMPARED = """
select kind, id, time, count_if(emit_ms is null) as asked, count(emit_ms) as given,
  min(if(emit_ms is null, a, null)) as want_a, max(if(emit_ms is null, a, null)) as want_a2,
  min(if(emit_ms is null, b, null)) as want_b, max(if(emit_ms is null, b, null)) as want_b2,
  min(if(emit_ms is null, null, a)) as a, max(if(emit_ms is null, null, a)) as a2,
  min(if(emit_ms is null, null, b)) as b, max(if(emit_ms is null, null, b)) as b2,
  sum(if(emit_ms is null, -1, 1) * (cast(hash(a, b) as bigint))) as surplus,
  count_if(emit_ms - 1000L * time not between 0 and 1000L * {limit}) as slow,
  min(emit_ms) as first_ms, max(emit_ms) as last_ms
from {both}
group by kind, id, time
"""

JUDGED = """
select *, greatest(asked - given, 0) as missing, if(asked = 0, given, 0) as extra,
  if(asked > 0, greatest(given - asked, 0), 0) as duplicated,
  if(asked > 0 and {response_times}, slow, 0) as late,
  if(asked > 0 and given >= asked and not (a = want_a and a2 = want_a2 and b = want_b and b2 = want_b2
    and (given > asked or surplus = 0)), 1, 0) as wrong
from {compared}
"""


RESPONSES = """
select kind, percentile_approx(emit_ms - 1000L * time, array(0.5, 0.99), 10000) as parts,
  max(emit_ms - 1000L * time) as longest
from {given} group by kind
"""

EXAMPLES = """
select * from (
  select *, row_number() over (partition by kind, problem order by time, id) as place
  from (select *, explode(filter(array({problems}), p -> p is not null)) as problem from {judged})
)
where place <= {most}
order by kind, problem, place
"""

CELLS = """
select kind, cast(time div {stretch} * {stretch} as int) as start,
  cast(least(greatest(emit_ms - 1000L * time, -1000L), 120000L) div 100 as int) as tenths, count(*) as answers
from {given} group by 1, 2, 3 order by 1, 2, 3
"""

ARRIVALS = """
select cast(time div {stretch} * {stretch} as int) as start, {copies} * count(*) as tuples
from {tuples} group by 1 order by 1
"""

#: plots have about this many points in time, each of some seconds
STRETCHES = 150
SHORTEST_STRETCH = 5
HALF_A_MINUTE = 30


@dataclass(frozen=True)
class Example:
    """One output tuple that is not as it should be, or that is not there."""

    kind: int
    problem: str
    time: int
    id: int
    text: str
    rule: str


@dataclass(frozen=True)
class ResponseTimes:
    """Seconds from a tuple's Time to its answer's Emit."""

    median: float
    p99: float
    max: float


@dataclass(frozen=True)
class Tally:
    """How one kind of answer fared."""

    kind: int
    name: str
    limit: int
    expected: int = 0
    given: int = 0
    missing: int = 0
    extra: int = 0
    wrong: int = 0
    late: int = 0
    duplicated: int = 0
    response: ResponseTimes | None = None

    @property
    def clean(self) -> bool:
        """Whether there is nothing to complain about."""
        return not any(getattr(self, problem) for problem in PROBLEMS)


@dataclass(frozen=True)
class Cell:
    """How many answers of a kind, asked in a stretch of time, took so long (in tenths of a second)."""

    kind: int
    start: int
    tenths: int
    answers: int


@dataclass(frozen=True)
class Verdict:
    """The result of a validation."""

    run: str
    outputs: tuple[str, ...]
    rules: str
    tuples: int
    since: int
    until: int
    response_times: bool
    tallies: tuple[Tally, ...]
    unreadable: int = 0
    unreadable_examples: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()
    hints: tuple[str, ...] = ()
    stretch: int = 1
    cells: tuple[Cell, ...] = ()
    arrivals: tuple[tuple[int, int], ...] = ()

    @property
    def passed(self) -> bool:
        """A clean pass: all that was asked is answered, right, in time and once, and nothing else."""
        return not self.unreadable and all(tally.clean for tally in self.tallies)

    def name(self, kind: int) -> str:
        """What people call the answers of a kind."""
        return ANSWERS[kind]

    def to_dict(self) -> dict[str, Any]:
        """For JSON: everything but the plots' data."""
        body = asdict(self)
        for plotted in ("cells", "arrivals", "stretch"):
            del body[plotted]
        return {"passed": self.passed, **body}


def validate(
    spark: SparkSession,
    run: Run,
    outputs: list[Path],
    *,
    edition: Edition,
    order: Order = Order.AUTO,
    response_times: bool = True,
    since: int = 0,
    until: int | None = None,
    kinds: Sequence[int] = tuple(ANSWERS),
    examples: int = 5,
) -> Verdict:
    """Check ``outputs`` of an engine that was fed ``run``, for the seconds from ``since`` to before ``until``.

    Without ``until`` everything an engine put out is judged, also what comes after the end of the run.
    """
    end = run.manifest.seconds if until is None else min(until, run.manifest.seconds)
    if not 0 <= since < end:
        raise BadArgument(
            f"--since {since}, --until {until}: no second of the run lies between them.",
            hint=f"{run.path} has the seconds 0 to {run.manifest.seconds - 1}.",
        )
    with workspace(spark, rows_to_compute(run)) as space:
        scope = Scope(tuple(kinds), since, end, cut=until is not None, timed=response_times)
        given = read_outputs(spark, outputs, order)
        return _Validation(CorrectAnswers(space, run, edition, end), given, outputs, scope).verdict(examples)


@dataclass(frozen=True)
class Scope:
    """What of an output is judged; ``cut`` when what comes at or after ``until`` is none of our business."""

    kinds: tuple[int, ...]
    since: int
    until: int
    cut: bool
    timed: bool

    def of(self, frame: DataFrame) -> DataFrame:
        """The part of answers, expected or given, that is judged."""
        kinds = ", ".join(map(str, self.kinds))
        part = frame.where(f"time >= {self.since} and kind in ({kinds})")
        return part.where(f"time < {self.until}") if self.cut else part


class _Validation:
    """One validation: its frames, and the questions asked of them."""

    def __init__(self, answers: CorrectAnswers, given: DataFrame, outputs: list[Path], scope: Scope) -> None:
        self.answers, self.outputs, self.scope = answers, outputs, scope
        self.space, self.edition = answers.space, answers.edition
        self.unreadable = given.where("line is not null")
        self.readable = given.where("line is null").drop("line")
        self.given = scope.of(self.readable)

    def verdict(self, examples: int) -> Verdict:
        """Ask all questions, the cheap ones that may end it first."""
        unreadable = self.unreadable.count()
        last = self._refuse_nothing(unreadable)
        with bar("validating", len(STEPS_THAT_TAKE_LONG) + 1) as advance:
            for _ in self.answers.compute():
                advance(1)
            tallies = self._tallies()
        self._refuse_another_run(tallies)
        stretch = max(SHORTEST_STRETCH, (self.scope.until - self.scope.since) // STRETCHES)
        return Verdict(
            run=str(self.answers.run.path),
            outputs=tuple(map(str, self.outputs)),
            rules=self.edition.name,
            tuples=sum(self.answers.run.manifest.counts.values()),
            since=self.scope.since,
            until=self.scope.until,
            response_times=self.scope.timed,
            tallies=tallies,
            unreadable=unreadable,
            unreadable_examples=tuple(row.line[:200] for row in self.unreadable.select("line").head(examples)),
            examples=() if all(tally.clean for tally in tallies) else self._examples(examples),
            hints=tuple(self._hints(tallies, last)),
            stretch=stretch,
            cells=self._cells(stretch),
            arrivals=self._arrivals(stretch),
        )

    def _refuse_nothing(self, unreadable: int) -> int:
        """The last second that has an answer; no answer at all is no output to judge."""
        row = self.readable.selectExpr("max(time) as last", "count(*) as answers").head()
        assert row is not None
        where = ", ".join(map(str, self.outputs))
        if not row.answers and unreadable:
            line = self.unreadable.select("line").head()
            raise BadInput(
                f"{where}: none of {unreadable:,} lines can be read; the first is {line.line[:80] if line else ''!r}.",
                hint="docs/linear-road.md has the output formats; --order paper|original chooses between two.",
            )
        if not row.answers:
            raise BadInput(f"{where}: empty.", hint="The engine wrote no answer; there is nothing to check.")
        return int(row.last)

    def _refuse_another_run(self, tallies: tuple[Tally, ...]) -> None:
        given = sum(tally.given for tally in tallies)
        if not sum(tally.expected for tally in tallies):
            raise BadInput(
                f"{self.answers.run.path}: asks for no answer from second {self.scope.since} to {self.scope.until}.",
                hint="There is nothing to check; give another run or other seconds.",
            )
        if given == sum(tally.extra for tally in tallies):
            raise BadInput(
                f"Not one of {given:,} output tuples answers anything in {self.answers.run.path} from second "
                f"{self.scope.since} to {self.scope.until}.",
                hint="Does OUTPUT come from another run? Give the RUN that was fed to the engine.",
            )

    @cached_property
    def _judged(self) -> DataFrame:
        expected = self.scope.of(self.answers.all).selectExpr("*", "cast(null as bigint) as emit_ms")
        both = expected.unionByName(self._within_tolerance())
        limits = ", ".join(f"{kind}, {limit}" for kind, limit in enumerate(self.edition.limits))
        compared = self.space.sql(COMPARED, both=both, limit=f"element_at(map({limits}), kind)")
        return self.space.sql(JUDGED, compared=compared, response_times=str(self.scope.timed).lower())

    def _within_tolerance(self) -> DataFrame:
        """What was given, with answers inside their tolerance made exact."""
        numbered = self.given.selectExpr("*", "monotonically_increasing_id() as uid")
        balances = self.space.sql(
            WITHIN_60_SECONDS,
            outputs=numbered.where(f"kind = {BALANCE}"),
            balances=self.answers.balances,
            charges=self.answers.charges,
            stored_id=self.answers.stored_id,
        )
        journeys = self.space.sql(
            WITHIN_5_PERCENT,
            outputs=numbered.where(f"kind = {TRAVEL_TIME}"),
            travel_times=self.answers.travel_times,
            stored_id=self.answers.stored_id,
        )
        others = self.given.where(f"kind not in ({BALANCE}, {TRAVEL_TIME})")
        return others.unionByName(balances).unionByName(journeys)

    def _tallies(self) -> tuple[Tally, ...]:
        counts = ["asked as expected", "given", *PROBLEMS]
        sums = ", ".join(f"sum({name.split()[0]}) as {name.split()[-1]}" for name in counts)
        rows = self.space.sql(f"select kind, {sums} from {{judged}} group by kind", judged=self._judged).collect()
        by_kind = {row.kind: row.asDict() for row in rows}
        responses = self._responses()
        return tuple(
            Tally(
                **(by_kind.get(kind) or {"kind": kind}),
                name=name,
                limit=self.edition.limits[kind],
                response=responses.get(kind),
            )
            for kind, name in ANSWERS.items()
            if kind in self.scope.kinds
        )

    def _responses(self) -> dict[int, ResponseTimes]:
        rows = self.space.sql(RESPONSES, given=self.given).collect()
        return {row.kind: ResponseTimes(*(ms / 1000 for ms in (*row.parts, row.longest))) for row in rows}

    def _examples(self, most: int) -> tuple[Example, ...]:
        problems = ", ".join(f"if({problem} > 0, '{problem}', null)" for problem in PROBLEMS)
        rows = self.space.sql(EXAMPLES, judged=self._judged, problems=problems, most=most).collect()
        return tuple(_example(row, self.edition) for row in rows)

    def _hints(self, tallies: tuple[Tally, ...], last: int) -> Iterator[str]:
        end = self.answers.run.manifest.seconds
        if last >= end:
            yield f"OUTPUT goes on to second {last}, RUN ends with second {end - 1}: was the engine fed a longer run?"
        if last < self.scope.until - HALF_A_MINUTE and any(tally.missing for tally in tallies):
            yield f"OUTPUT ends with second {last}; --until {last + 1} checks the part that is there."
        expected, given = (sum(getattr(tally, what) for tally in tallies) for what in ("expected", "given"))
        met = expected - sum(tally.missing for tally in tallies)
        if 2 * met < min(expected, given):
            yield f"Only {met:,} of {given:,} output tuples answer anything in RUN: does OUTPUT come from another run?"

    def _cells(self, stretch: int) -> tuple[Cell, ...]:
        rows = self.space.sql(CELLS, given=self.given, stretch=stretch).collect()
        return tuple(Cell(*row) for row in rows)

    def _arrivals(self, stretch: int) -> tuple[tuple[int, int], ...]:
        tuples = self.answers.tuples.where(f"time >= {self.scope.since}")
        rows = self.space.sql(ARRIVALS, tuples=tuples, stretch=stretch, copies=self.answers.copies).collect()
        return tuple((row.start, row.tuples) for row in rows)


def _example(row: Row, edition: Edition) -> Example:
    names = VALUES[row.kind]
    asker = "vehicle" if row.kind in (TOLL, ALERT) else "request"
    want, got = (
        ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=False))
        for values in ((row.want_a, row.want_b), (row.a, row.b))
    )
    texts = {
        "missing": f"expected {want}",
        "extra": f"got {got}, nothing was asked",
        "wrong": f"got {got}, expected {want}",
        "duplicated": f"{row.given} answers, expected {row.asked}",
        "late": f"emitted at {row.last_ms / 1000:g}" if row.last_ms is not None else "",
    }
    if row.problem == "wrong" and (row.a, row.b) == (row.want_a, row.want_b):
        texts["wrong"] = f"several answers, one of them {VALUES[row.kind][0]} {row.a2}; expected {want}"
    limit = f"At most {edition.limits[row.kind]} s from Time to Emit, and not before Time."
    rule = {"wrong": _RIGHT[row.kind], "late": limit}.get(row.problem, _ONCE[row.kind])
    text = f"second {row.time}, {asker} {row.id}: {texts[row.problem]}"
    return Example(row.kind, row.problem, row.time, row.id, text, rule)
