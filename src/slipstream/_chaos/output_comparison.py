"""Compare the output of two runs of a job, ignoring times: tables, text, snapshots and histories.

Every kind of job has the same folder, so one comparison fits all. Tables grow batch by batch: the rows of a disturbed
job must be among those of the undisturbed one, as many as its journal has, and as many as the undisturbed job had after
the same input; where rows have order keys, in the same order. Text grows in order: it must be a prefix. Snapshots and
the histories of connection points change, and are compared at the end.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._cuboid.schema import KEY
from slipstream._cuboid.snapshots import snapshot_files
from slipstream._cuboid.snapshots.snapshot import Snapshot
from slipstream._errors import CheckFailed
from slipstream._io import outputs
from slipstream._linear_road.answer_text import TEXT

#: columns with times, which differ between runs, like those that begin with an underscore
_WHEN = (outputs.BATCH, "delay_ms")
#: the arrival number of a tuple in a history, which contains the batch
_NUMBER = "_seq"
#: the index of Emit in a line of text; in tolls it comes after the vehicle
_EMIT, _EMIT_OF_TOLLS = 2, 3

Rows = Counter[str]


@dataclass(frozen=True)
class Committed:
    """The committed output of a job."""

    tables: Mapping[str, Rows] = field(default_factory=dict)
    orders: Mapping[str, list[str]] = field(default_factory=dict)  # the rows of tables with order keys, in order
    texts: Mapping[str, list[str]] = field(default_factory=dict)
    state: Mapping[str, Rows] = field(default_factory=dict)  # snapshots and histories
    journal: Mapping[str, int] = field(default_factory=dict)  # the rows of each table, by the journal
    tuples: int = 0  # read so far
    steps: Mapping[int, list[Mapping[str, int]]] = field(default_factory=dict)  # the journal's rows, by tuples read

    @classmethod
    def read(cls, out: Path, *, state: bool = True) -> Committed:
        """Read the committed output in ``out``, by its journal.

        The ``state`` changes while a job runs, so it is read only when the job has ended.
        """
        batches = outputs.read_journal(out)
        if not batches:
            return cls()
        last = batches[-1]
        found = {name: outputs.visible_files(out, name, until=last.batch).read() for name in outputs.output_names(out)}
        tables = {name: _list_rows(table) for name, table in found.items()}
        orders = {name: rows for name, table in found.items() if (rows := _sort_rows(name, table))}
        texts = {name: _read_lines(out / name, length) for name, length in outputs.text_lengths(last).items()}
        journal, tuples, steps = Counter[str](), 0, dict[int, list[Mapping[str, int]]]()
        for batch in batches:
            journal.update(batch.outputs)
            tuples += batch.tuples + batch.rejects
            steps.setdefault(tuples, []).append(dict(+journal))
        return cls(tables, orders, texts, dict(_read_state(out)) if state else {}, dict(+journal), tuples, steps)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to compare."""
        return not any(self.tables.values())


def _list_rows(table: pa.Table) -> Rows:
    return Counter(_drop_times(table))


def _drop_times(table: pa.Table) -> list[str]:
    """Return rows without their times."""
    names = [name for name in table.column_names if name not in _WHEN and not name.startswith("_")]
    columns = table.select(names).to_pydict().values()
    return list(map(repr, zip(*columns, strict=True)))


def _sort_rows(name: str, table: pa.Table) -> list[str]:
    """The rows of a table with order keys, in order; none of others.

    Rejects are in no order: those of feeds and those of boxes are numbered apart.
    """
    keys = [column for column in table.column_names if re.fullmatch(r"_q\d+", column)]
    if not keys or name == outputs.REJECTS:
        return []
    return _drop_times(table.sort_by([(key, "ascending") for key in sorted(keys, key=lambda key: int(key[2:]))]))


def _read_lines(file: Path, length: int) -> list[str]:
    text = file.read_bytes()[:length].decode()
    return [_drop_emit(line) if file.name == TEXT else line for line in text.splitlines()]


def _drop_emit(line: str) -> str:
    fields = line.split(",")
    emit = _EMIT_OF_TOLLS if fields[0] == "0" else _EMIT
    return ",".join(fields[:emit] + fields[emit + 1 :])


def _read_state(out: Path) -> Iterator[tuple[str, Rows]]:
    """Return the state of a job: its cuboids by key, and the trains of its connection points and views."""
    if (out / snapshot_files.FOLDER / snapshot_files.FILE).exists():
        snapshot = Snapshot.open(out)
        for name in snapshot.names:
            keys = snapshot[name].scan([KEY])[KEY].tolist()
            yield f"cuboid {name}", Counter(f"{key}: {snapshot[name].get(key)}" for key in keys)
    for place in sorted(out.glob("points/*")):
        trains = [pq.read_table(file) for file in place.glob("train-*.parquet")]
        yield f"point {place.name}", _collect_tuples(pa.concat_tables(trains)) if trains else Rows()


def _collect_tuples(tuples: pa.Table) -> Rows:
    """Return the tuples of trains, each once: a compacted train may still exist next to the original."""
    numbers = tuples[_NUMBER].to_numpy()
    return _list_rows(tuples.take(np.unique(numbers, return_index=True)[1]))


def find_difference(expected: Committed, found: Committed, *, whole: bool, repeatable: bool = True) -> str:
    """Return the first difference, or an empty text; unless ``whole``, the output may end early.

    With ``repeatable``, two runs that have read the same number of tuples have the same number of rows.

    >>> one = Committed({"tolls": Counter(["(7, 2)"])}, journal={"tolls": 1})
    >>> find_difference(one, Committed(), whole=False)
    ''
    >>> find_difference(one, Committed(), whole=True)
    'outputs/tolls: 1 of 1 rows missing, such as (7, 2)'
    """
    problems = (
        *_find_wrong_tables(expected, found, whole=whole),
        *_find_wrong_texts(expected.texts, found.texts, whole=whole),
        *(_find_wrong_rows(expected.state, found.state, "", whole=True) if whole else ()),
        *(_find_wrong_step(expected, found) if repeatable else ()),
        *(_find_wrong_orders(expected.orders, found.orders) if repeatable else ()),
    )
    return next(iter(problems), "")


def _find_wrong_tables(expected: Committed, found: Committed, *, whole: bool) -> Iterator[str]:
    yield from _find_wrong_rows(expected.tables, found.tables, f"{outputs.FOLDER}/", whole=whole)
    for name, rows in found.tables.items():
        if rows.total() != found.journal.get(name, 0):
            yield f"{outputs.FOLDER}/{name}: {rows.total()} rows, the journal has {found.journal.get(name, 0)}"


def _find_wrong_rows(
    expected: Mapping[str, Rows], found: Mapping[str, Rows], folder: str, *, whole: bool
) -> Iterator[str]:
    for name in sorted({*expected, *found}):
        wanted, given = expected.get(name, Rows()), found.get(name, Rows())
        if extra := given - wanted:
            yield f"{folder}{name}: {extra.total()} rows too many, such as {next(iter(extra))}"
        if whole and (missing := wanted - given):
            rows = f"{missing.total()} of {wanted.total()} rows missing"
            yield f"{folder}{name}: {rows}, such as {next(iter(missing))}"


def _find_wrong_orders(expected: Mapping[str, list[str]], found: Mapping[str, list[str]]) -> Iterator[str]:
    """Rows that are right, and not in the order of the undisturbed job."""
    for name, given in found.items():
        wanted = expected.get(name, [])
        if given != wanted[: len(given)]:
            at = next(n for n, row in enumerate(given) if n >= len(wanted) or row != wanted[n])
            yield f"{outputs.FOLDER}/{name}, row {at + 1}: {given[at]} is out of order"


def _find_wrong_texts(
    expected: Mapping[str, list[str]], found: Mapping[str, list[str]], *, whole: bool
) -> Iterator[str]:
    for name in sorted({*expected, *found}):
        wanted, given = expected.get(name, []), found.get(name, [])
        if given != wanted[: len(given)]:
            at = next(n for n, line in enumerate(given) if n >= len(wanted) or line != wanted[n])
            there = wanted[at] if at < len(wanted) else "nothing"
            yield f"{name}, line {at + 1}: {given[at]!r}, {there!r} expected"
        elif whole and len(given) < len(wanted):
            yield f"{name}: {len(given)} lines, {len(wanted)} expected"


def _find_wrong_step(expected: Committed, found: Committed) -> Iterator[str]:
    """Compare with the undisturbed job after the same number of tuples, if it committed at that point."""
    there = expected.steps.get(found.tuples)
    if there is not None and found.tuples and dict(found.journal) not in there:
        yield f"after {found.tuples} tuples: rows {dict(found.journal)}, {there[-1]} expected"


def verify_comparator(expected: Committed) -> None:
    """Verify that the comparison detects lost, duplicated and changed rows."""
    if expected.is_empty:
        raise CheckFailed(
            "The undisturbed job has no output.", hint="Use input that produces output.", code="empty-input"
        )
    broken = [*_break_output(expected)]
    undetected = [other for other in broken if not find_difference(expected, other, whole=True)]
    if undetected or find_difference(expected, expected, whole=True):
        raise CheckFailed(
            "The comparison does not detect wrong output.", hint="This is a bug in Slipstream.", code="check-failed"
        )


def _break_output(right: Committed) -> Iterator[Committed]:
    """Return variants of an output that the comparison must detect."""
    for name, rows in right.tables.items():
        for other in _break_rows(rows):
            # a wrong commit writes a matching journal
            yield replace(
                right,
                tables={**right.tables, name: other},
                journal={**right.journal, name: other.total()},
            )
    for name, lines in right.orders.items():
        if lines != lines[::-1]:
            yield replace(right, orders={**right.orders, name: lines[::-1]})
    for name, rows in right.state.items():
        for other in _break_rows(rows):
            yield replace(right, state={**right.state, name: other})
    for name, lines in right.texts.items():
        for changed in ([*lines[1:]], [lines[0], *lines], [*lines, lines[-1]], [f"{lines[0]}0", *lines[1:]]):
            yield replace(right, texts={**right.texts, name: changed})


def _break_rows(rows: Rows) -> Iterable[Rows]:
    if not rows:
        return []
    first = Counter([next(iter(rows))])
    return [rows - first, rows + first, rows - first + Counter(["another row"])]
