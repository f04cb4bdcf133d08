"""Whether two engines put out the same: text, rejects and tables, without Emit, which says when and not what."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from slipstream.errors import CheckFailed
from slipstream.io import outputs
from slipstream.linear_road import tables
from slipstream.linear_road.journal import last_batch
from slipstream.linear_road.text import REJECTED, TEXT

#: where Emit stands in a line of text; in those of tolls it comes after the vehicle
_EMIT, _EMIT_OF_TOLLS = 2, 3


@dataclass(frozen=True)
class Outputs:
    """What an engine has committed."""

    lines: list[str]
    rejects: list[bytes]
    rows: Counter[tuple[int, ...]]  # of the tables of answers

    @classmethod
    def read(cls, out: Path) -> Outputs:
        """What the journal in ``out`` says is committed; what lies there beyond it does not count."""
        last = last_batch(out)
        if last is None:
            return cls([], [], Counter())
        text = (out / TEXT).read_bytes()[: last.detail.text_bytes].decode()
        rejects = (out / REJECTED).read_bytes()[: last.detail.rejects_bytes]
        found = tables.rows_of(out).drop_columns(["delay_ms", outputs.BATCH])
        rows = Counter(zip(*found.to_pydict().values(), strict=True))
        return cls([_without_emit(line) for line in text.splitlines()], rejects.splitlines(), rows)


def _without_emit(line: str) -> str:
    fields = line.split(",")
    emit = _EMIT_OF_TOLLS if fields[0] == "0" else _EMIT
    return ",".join(fields[:emit] + fields[emit + 1 :])


def difference(expected: Outputs, found: Outputs, *, whole: bool) -> str:
    """What is wrong with what was found, or nothing; unless it is ``whole``, it may end early.

    >>> one = Outputs(["0,1,2"], [], Counter([(0, 1, 2)]))
    >>> difference(one, Outputs([], [], Counter()), whole=False)
    ''
    >>> difference(one, Outputs([], [], Counter()), whole=True)
    'output.csv: 0 lines, 1 expected'
    """
    for name, wanted, given in (
        (TEXT, expected.lines, found.lines),
        (REJECTED, expected.rejects, found.rejects),
    ):
        if given != wanted[: len(given)]:
            at = next(n for n, line in enumerate(given) if n >= len(wanted) or line != wanted[n])
            there = wanted[at] if at < len(wanted) else "nothing"
            return f"{name}, line {at + 1}: {given[at]!r}, {there!r} expected"
        if whole and len(given) < len(wanted):
            return f"{name}: {len(given)} lines, {len(wanted)} expected"
    if extra := found.rows - expected.rows:
        return f"{outputs.FOLDER}: {sum(extra.values())} rows too many, such as {next(iter(extra))}"
    if sum(found.rows.values()) != len(found.lines):
        return f"{outputs.FOLDER}: {sum(found.rows.values())} rows, {TEXT} has {len(found.lines)} lines"
    return ""


def check_the_check(expected: Outputs) -> None:
    """Refuse to go on if outputs with an answer lost, doubled or changed pass for the right ones."""
    lines, rows = expected.lines, expected.rows
    if len(lines) < 2:
        raise CheckFailed("The undisturbed run has no answers.", hint="Give a run with more traffic.")
    first = next(iter(rows))
    broken = (
        replace(expected, lines=lines[1:]),
        replace(expected, lines=[lines[0], *lines]),
        replace(expected, lines=[*lines, lines[-1]]),
        replace(expected, lines=[f"{lines[0]}0", *lines[1:]]),
        replace(expected, rows=rows - Counter([first])),
        replace(expected, rows=rows + Counter([first])),
    )
    if not all(difference(expected, other, whole=True) for other in broken) or difference(
        expected, expected, whole=True
    ):
        raise CheckFailed("The comparison does not see what is wrong.", hint="This is a mistake in the program.")
