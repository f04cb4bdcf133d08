"""Validate an engine's output: every tuple against ``expected.py``, every response time against its limit.

``answer_comparison.py`` compares; this module describes the result, and rejects outputs that cannot be judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream._bench.validation.answer_comparison import PROBLEMS, Comparison, Scope
from slipstream._bench.validation.editions import ALERT, ANSWERS, BALANCE, EXPENDITURE, TOLL, TRAVEL_TIME, Edition
from slipstream._bench.validation.expected import SLOW_STEPS, CorrectAnswers, estimate_rows_to_sort
from slipstream._bench.validation.outputs import FieldOrder, read_outputs
from slipstream._bench.validation.sql_workspace import workspace
from slipstream._errors import BadArgument, BadInput
from slipstream._feeds.run import Run
from slipstream._tools.progress import bar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

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
    TOLL: "Lav is the floor of the mean speed of the previous five minutes; the toll follows from Lav, the cars of the "
    "previous minute and accidents downstream.",
    ALERT: "Seg is the nearest downstream segment with an accident in the previous minute.",
    BALANCE: "Bal is the sum of tolls charged up to ResultTime, which is at most 60 s before Time.",
    EXPENDITURE: "Bal is the value in the history for the vehicle, day and expressway; 0 if there is none.",
    TRAVEL_TIME: "Seconds and tolls by the ten-week means, within 5 %; -1, -1 without history.",
}

RESPONSES = """
select kind, percentile_approx(emit_ms - 1000L * time, array(0.5, 0.99), 10000) as parts,
  max(emit_ms - 1000L * time) as longest
from {given} group by kind
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
    """One output tuple that is incorrect or missing."""

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
    """The result for one kind of answer."""

    kind: int
    name: str
    limit: int  # seconds
    expected: int = 0
    given: int = 0
    missing: int = 0  # requested, not answered
    extra: int = 0  # answered, never requested
    wrong: int = 0  # answered with other values
    late: int = 0
    duplicated: int = 0
    response: ResponseTimes | None = None

    @property
    def clean(self) -> bool:
        """Whether there are no problems."""
        return not any(getattr(self, problem) for problem in PROBLEMS)


@dataclass(frozen=True)
class ResponseCount:
    """How many answers of a kind, requested in a stretch of time, took ``tenths`` of a second."""

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
    cells: tuple[ResponseCount, ...] = ()
    arrivals: tuple[tuple[int, int], ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every request was answered correctly, on time and once, and nothing else was answered."""
        return not self.unreadable and all(tally.clean for tally in self.tallies)

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems checked for: without response times, nothing can be late."""
        return tuple(problem for problem in PROBLEMS if self.response_times or problem != "late")

    def name(self, kind: int) -> str:
        """Return the display name of a kind."""
        return ANSWERS[kind]

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values, without the plots' data."""
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
    order: FieldOrder = FieldOrder.AUTO,
    response_times: bool = True,
    since: int = 0,
    until: int | None = None,
    fed_since: int = 0,
    kinds: Sequence[int] = tuple(ANSWERS),
    examples: int = 5,
) -> Verdict:
    """Check ``outputs`` of an engine that processed ``run``, from second ``since`` to ``until``, exclusive.

    The engine was fed the seconds from ``fed_since`` on. Without ``until`` the whole output is judged, including
    answers after the end of the run.
    """
    end = find_last_second(run, since, until)
    with workspace(spark, estimate_rows_to_sort(run, end - since)) as space:
        scope = Scope(tuple(kinds), since, end, cut=until is not None, timed=response_times)
        given = read_outputs(spark, outputs, order)
        return _Validation(CorrectAnswers(space, run, edition, end, fed_since), given, outputs, scope).verdict(examples)


def find_last_second(run: Run, since: int, until: int | None) -> int:
    """Return the second at which a validation ends, exclusive; reject an empty range."""
    end = run.manifest.seconds if until is None else min(until, run.manifest.seconds)
    if not 0 <= since < end:
        raise BadArgument(
            f"--since {since}, --until {until}: the run has no seconds in this range.",
            hint=f"{run.path} has the seconds 0 to {run.manifest.seconds - 1}.",
            code="empty-input",
        )
    return end


class _Validation:
    """One validation: its frames, and the queries over them."""

    def __init__(self, answers: CorrectAnswers, given: DataFrame, outputs: list[Path], scope: Scope) -> None:
        self.answers, self.outputs, self.scope = answers, outputs, scope
        self.space, self.edition = answers.space, answers.edition
        self.all = given
        self.given = scope.select(given.where("line is null").drop("line"))
        self.comparison = Comparison(answers, self.given, scope)

    def verdict(self, examples: int) -> Verdict:
        """Run all queries; the cheap ones that may reject the output come first."""
        unreadable, last = self._check_readable()
        with bar("validating", len(SLOW_STEPS) + 1) as advance:
            for _ in self.answers.compute():
                advance(1)
            tallies = self._count_tallies()
        self._check_same_run(tallies)
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
            unreadable_examples=self._find_unreadable(examples) if unreadable else (),
            examples=() if all(tally.clean for tally in tallies) else self._find_examples(examples),
            hints=tuple(self._suggest_hints(tallies, last)),
            stretch=stretch,
            cells=self._count_cells(stretch),
            arrivals=self._count_arrivals(stretch),
        )

    def _check_readable(self) -> tuple[int, int]:
        """Return how many lines are unreadable, and the last second with an answer; reject an output without any."""
        row = self.all.selectExpr("count(line) as unreadable", "count(kind) as answers", "max(time) as last").head()
        assert row is not None
        where = ", ".join(map(str, self.outputs))
        if not row.answers and row.unreadable:
            raise BadInput(
                f"{where}: none of {row.unreadable:,} lines can be read; the first is {self._find_unreadable(1)[0]!r}.",
                hint="See docs/how-to/engine-builders.md for the output formats; select one with --order.",
                code="unreadable-line",
            )
        if not row.answers:
            raise BadInput(
                f"{where} is empty.",
                hint="The engine wrote no answers, so there is nothing to check.",
                code="empty-input",
            )
        return row.unreadable, row.last

    def _find_unreadable(self, most: int) -> tuple[str, ...]:
        return tuple(row.line[:200] for row in self.all.where("line is not null").select("line").head(most))

    def _check_same_run(self, tallies: tuple[Tally, ...]) -> None:
        given = sum(tally.given for tally in tallies)
        if not sum(tally.expected for tally in tallies):
            raise BadInput(
                f"{self.answers.run.path} requires no answers from second {self.scope.since} to {self.scope.until}.",
                hint="There is nothing to check; use another run or other seconds.",
                code="empty-input",
            )
        if given == sum(tally.extra for tally in tallies):
            raise BadInput(
                f"None of {given:,} output tuples answers anything in {self.answers.run.path} from second "
                f"{self.scope.since} to {self.scope.until}.",
                hint="OUTPUT may come from another run: use the RUN that the engine processed.",
                code="empty-input",
            )

    def _count_tallies(self) -> tuple[Tally, ...]:
        counts = self.comparison.counts()
        responses = self._compute_responses() if self.scope.timed else {}
        return tuple(
            Tally(
                kind=kind,
                name=ANSWERS[kind],
                limit=self.edition.limits[kind],
                response=responses.get(kind),
                **counts.get(kind, {}),
            )
            for kind in self.scope.kinds
        )

    def _compute_responses(self) -> dict[int, ResponseTimes]:
        rows = self.space.sql(RESPONSES, given=self.given).collect()
        return {row.kind: ResponseTimes(*(ms / 1000 for ms in (*row.parts, row.longest))) for row in rows}

    def _find_examples(self, most: int) -> tuple[Example, ...]:
        return tuple(_make_example(row, self.edition) for row in self.comparison.examples(most))

    def _suggest_hints(self, tallies: tuple[Tally, ...], last: int) -> Iterator[str]:
        end = self.answers.run.manifest.seconds
        if last >= end:
            yield f"OUTPUT continues to second {last}, RUN ends with second {end - 1}: did the engine get a longer run?"
        if last < self.scope.until - HALF_A_MINUTE and any(tally.missing for tally in tallies):
            yield f"OUTPUT ends with second {last}; use --until {last + 1} to check the part that exists."
        expected, given = (sum(getattr(tally, what) for tally in tallies) for what in ("expected", "given"))
        met = expected - sum(tally.missing for tally in tallies)
        if 2 * met < min(expected, given):
            yield f"Only {met:,} of {given:,} output tuples answer anything in RUN: does OUTPUT come from another run?"

    def _count_cells(self, stretch: int) -> tuple[ResponseCount, ...]:
        rows = self.space.sql(CELLS, given=self.given, stretch=stretch).collect()
        return tuple(ResponseCount(*row) for row in rows)

    def _count_arrivals(self, stretch: int) -> tuple[tuple[int, int], ...]:
        tuples = self.answers.tuples.where(f"time >= {self.scope.since}")
        rows = self.space.sql(ARRIVALS, tuples=tuples, stretch=stretch, copies=self.answers.copies).collect()
        return tuple((row.start, row.tuples) for row in rows)


def _make_example(row: Row, edition: Edition) -> Example:
    names = VALUES[row.kind]
    asker = "vehicle" if row.kind in (TOLL, ALERT) else "request"
    want, got = (
        ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=False))
        for values in ((row.want_a, row.want_b), (row.a, row.b))
    )
    texts = {
        "missing": f"expected {want}",
        "extra": f"got {got}, nothing was expected",
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
