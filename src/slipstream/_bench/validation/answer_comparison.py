"""Compare expected and given answers: which are missing, extra, wrong, late or duplicated.

The comparison is one grouping of both by what they answer; only counts and the first examples leave the cluster. An
answer within its tolerance (a balance up to 60 s old, a travel time within 5 %) is first replaced by the exact one, so
that one comparison serves all kinds.

The copies of a multiplied run are first folded onto the stored part, where each answer must occur once per copy. Only
what does not fit is then compared copy by copy: checking a clean output of 500 copies costs no more than reading it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from slipstream._bench.validation.editions import BALANCE, TRAVEL_TIME
from slipstream._bench.validation.expected import CorrectAnswers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

PROBLEMS = ("missing", "extra", "wrong", "late", "duplicated")

WITHIN_60_SECONDS = """
select kind, id, time, emit_ms, if(exact is null, a, time) as a, coalesce(exact, b) as b
from (
  select kind, id, time, emit_ms, a, b, max(if(a between time - 60 and time and b = then, due, null)) as exact
  from (
    select o.uid, o.kind, o.id, o.time, o.emit_ms, o.a, o.b, r.balance as due, coalesce(sum(c.toll), 0) as then
    from {outputs} as o
      left join {balances} as r on r.qid = {stored_id} and r.time = o.time
      left join {charges} as c on c.vid = r.vid and c.time <= o.a
    group by o.uid, o.kind, o.id, o.time, o.emit_ms, o.a, o.b, r.vid, r.balance
  )
  group by uid, kind, id, time, emit_ms, a, b
)
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

# Expected tuples have neither emit_ms nor copy. Usually both counts are 1, and smallest and largest values are equal.
COMPARED = """
select kind, id, time, count_if(emit_ms is null) as asked, count(emit_ms) as given,
  min(if(emit_ms is null, a, null)) as want_a, max(if(emit_ms is null, a, null)) as want_a2,
  min(if(emit_ms is null, b, null)) as want_b, max(if(emit_ms is null, b, null)) as want_b2,
  min(if(emit_ms is null, null, a)) as a, max(if(emit_ms is null, null, a)) as a2,
  min(if(emit_ms is null, null, b)) as b, max(if(emit_ms is null, null, b)) as b2,
  sum(if(emit_ms is null, -1, 1) * (cast(hash(a, b) as bigint))) as surplus,
  bit_xor(xxhash64(copy)) as copies_seen,
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

FOLDED = """
select kind, id, time, asked, coalesce(asked = 1 and given = {copies} and copies_seen = {all_copies}L
  and a = want_a and a2 = want_a and b = want_b and b2 = want_b and (slow = 0 or not {response_times}), false) as fits
from {compared}
"""

EXAMPLES = """
select * from (
  select *, row_number() over (partition by kind, problem order by time, id) as place
  from (select *, explode(filter(array({problems}), p -> p is not null)) as problem from {judged})
)
where place <= {most}
order by kind, problem, place
"""


@dataclass(frozen=True)
class Scope:
    """Which part of an output is judged; ``cut`` if answers at or after ``until`` are ignored."""

    kinds: tuple[int, ...]
    since: int
    until: int
    cut: bool
    timed: bool

    def select(self, frame: DataFrame) -> DataFrame:
        """Return the part of some answers, expected or given, that is judged."""
        kinds = ", ".join(map(str, self.kinds))
        part = frame.where(f"time >= {self.since} and kind in ({kinds})")
        return part.where(f"time < {self.until}") if self.cut else part


class Comparison:
    """Compares the answers of an engine with the expected ones, within a scope."""

    def __init__(self, answers: CorrectAnswers, given: DataFrame, scope: Scope) -> None:
        self.answers, self.scope, self.space = answers, scope, answers.space
        self._given = given

    def counts(self) -> dict[int, dict[str, int]]:
        """Return by kind how many were expected and given, and how many have which problem."""
        names = ["asked as expected", "given", *PROBLEMS]
        sums = ", ".join(f"sum({name.split()[0]}) as {name.split()[-1]}" for name in names)
        counts: dict[int, Counter[str]] = {}
        for row in self.space.sql(f"select kind, {sums} from {{judged}} group by kind", judged=self._judged).collect():
            counts[row.kind] = Counter({name: row[name] for name in ("expected", "given", *PROBLEMS)})
        for kind, fitting in self._count_correct().items():
            counts.setdefault(kind, Counter()).update(expected=fitting, given=fitting)
        return {kind: dict(count) for kind, count in counts.items()}

    def examples(self, most: int) -> list[Row]:
        """Return the first ``most`` answers of each kind with each problem."""
        problems = ", ".join(f"if({problem} > 0, '{problem}', null)" for problem in PROBLEMS)
        return self.space.sql(EXAMPLES, judged=self._judged, problems=problems, most=most).collect()

    @cached_property
    def _judged(self) -> DataFrame:
        expected, given = self._expected, self._exact
        if self._folds:
            odd = self._folded.where("not fits").select("kind", "id", "time")
            expected = self.answers.repeat_for_copies(expected.join(odd, ["kind", "id", "time"], "left_semi"))
            given = given.join(odd.withColumnRenamed("id", "stored"), ["kind", "stored", "time"], "left_semi")
        return self.space.sql(JUDGED, compared=self._compare(expected, given), response_times=self._timed)

    @property
    def _folds(self) -> bool:
        return self.answers.copies > 1

    @cached_property
    def _folded(self) -> DataFrame:
        copies = self.answers.copies
        row = self.space.spark.sql(f"select bit_xor(xxhash64(cast(id as int))) as everyone from range({copies})").head()
        assert row is not None
        compared = self._compare(self._expected, self._exact.drop("id").withColumnRenamed("stored", "id"))
        return self.space.keep(
            self.space.sql(
                FOLDED,
                compared=compared,
                copies=copies,
                all_copies=row.everyone,
                response_times=self._timed,
            )
        )

    def _count_correct(self) -> dict[int, int]:
        """Return how many answers of each kind are correct in all copies."""
        if not self._folds:
            return {}
        rows = self._folded.where("fits").groupBy("kind").count().collect()
        return {row.kind: row["count"] * self.answers.copies for row in rows}

    @property
    def _timed(self) -> str:
        return str(self.scope.timed).lower()

    @cached_property
    def _expected(self) -> DataFrame:
        return self.scope.select(self.answers.stored)

    def _compare(self, expected: DataFrame, given: DataFrame) -> DataFrame:
        limits = ", ".join(f"{kind}, {limit}" for kind, limit in enumerate(self.answers.edition.limits))
        asked = expected.selectExpr("*", "cast(null as bigint) as emit_ms", "cast(null as int) as copy")
        both = asked.unionByName(given.select(asked.columns))
        return self.space.sql(COMPARED, both=both, limit=f"element_at(map({limits}), kind)")

    @cached_property
    def _exact(self) -> DataFrame:
        """The given answers, exact where within tolerance, with their copy and the stored id."""
        numbered = self._given.selectExpr("*", "monotonically_increasing_id() as uid")
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
        others = self._given.where(f"kind not in ({BALANCE}, {TRAVEL_TIME})")
        exact = others.unionByName(self.space.keep(balances)).unionByName(self.space.keep(journeys))
        if not self._folds:
            return exact.selectExpr("*", "0 as copy", "id as stored")
        manifest = self.answers.run.manifest
        stride = f"if(kind < 2, {manifest.vid_stride}, {manifest.qid_stride})"
        return exact.selectExpr("*", f"cast(id div {stride} as int) as copy", f"id % {stride} as stored")
