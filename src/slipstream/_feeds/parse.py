"""Parsers for Linear Road lines, JSON objects and trains, with a reason for each rejected line.

A bad line costs no more than a good one: the parser is a kernel that returns a verdict for every line.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from slipstream._feeds.trains import unframe
from slipstream._feeds.tuples import CARRIES, CLASS_STEP, FIELDS, LINEAR_ROAD, POSITION, ReportForm
from slipstream._tools.numba_tools import Bools, Bytes, Ints, Longs, compiled

if TYPE_CHECKING:
    import pyarrow as pa

GOOD, WRONG_FIELDS, NOT_INTEGER, UNKNOWN_TYPE, WRONG_SEGMENT = range(5)
_OUT_OF_RANGE = 10  # plus the number of the field
_VID = FIELDS.index("vid")

Columns = dict[str, Ints]


def reject_reason(verdict: int) -> str:
    """The reason for a verdict, as the rejects output has it.

    >>> reject_reason(_OUT_OF_RANGE + FIELDS.index("spd"))
    'range:spd'
    """
    if verdict >= _OUT_OF_RANGE:
        return f"range:{FIELDS[verdict - _OUT_OF_RANGE]}"
    return ("", "fields", "integer", "type", "segment")[verdict]


@dataclass(frozen=True)
class Parsed:
    """Good tuples in the order of their lines, and the bad lines with their reasons."""

    tuples: Columns
    rejects: list[tuple[bytes, str]]
    names: pa.StringArray | None = None  # of vehicles with text ids: ``vid`` is an index into it
    complete: int = -1  # everything before this second has been sent; -1 if the feed does not say


def parse_text(chunk: bytes, form: ReportForm = LINEAR_ROAD) -> Parsed:
    """Parse complete lines of fifteen integers.

    >>> parse_text(b"0,0,107,32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1\\n0,x\\n").rejects
    [(b'0,x', 'fields')]
    """
    buffer = np.frombuffer(chunk, np.uint8)
    lines = int(np.count_nonzero(buffer == 10)) + (bool(chunk) and not chunk.endswith(b"\n"))
    values = np.zeros((len(FIELDS), lines), np.int32)
    verdicts, starts, ends = np.zeros(lines, np.int32), np.zeros(lines, np.int64), np.zeros(lines, np.int64)
    _scan(buffer, values, verdicts, starts, ends)
    columns = dict(zip(FIELDS, values, strict=True))
    verdicts = np.where(verdicts == GOOD, judge(columns, form), verdicts)
    bad = np.flatnonzero(verdicts)
    rejects = [(chunk[starts[i] : ends[i]], reject_reason(int(verdicts[i]))) for i in bad]
    return Parsed(select(columns, verdicts == GOOD) if bad.size else columns, rejects)


def parse_json(chunk: bytes, form: ReportForm = LINEAR_ROAD) -> Parsed:
    """Parse lines of JSON objects with the fifteen field names; a missing field is -1."""
    rows, rejects = [], []
    for line in chunk.splitlines():
        row = _parse_row(line)
        if isinstance(row, str):
            rejects.append((line, row))
        else:
            rows.append((line, row))
    values = np.array([row for _, row in rows], np.int32).reshape(-1, len(FIELDS)).T
    columns = dict(zip(FIELDS, np.ascontiguousarray(values), strict=True))
    verdicts = judge(columns, form)
    rejects += [(rows[i][0], reject_reason(int(verdicts[i]))) for i in np.flatnonzero(verdicts)]
    return Parsed(select(columns, verdicts == GOOD), rejects)


def parse_trains(chunk: bytes, form: ReportForm = LINEAR_ROAD) -> Parsed:
    """Parse framed trains; everything after a damaged frame is rejected with it."""
    parts, complete, rest = unframe(chunk)
    columns = {name: np.concatenate([np.empty(0, np.int32), *(part[name] for part in parts)]) for name in FIELDS}
    verdicts = judge(columns, form)
    bad = select(columns, verdicts != GOOD)
    reasons = [reject_reason(int(verdict)) for verdict in verdicts[verdicts != GOOD]]
    rejects = list(zip(format_lines(bad), reasons, strict=True))
    if rest:
        rejects.append((rest[:40].hex().encode(), "train"))
    return Parsed(select(columns, verdicts == GOOD), rejects, complete=complete)


def escape(text: str) -> bytes:
    """Escape a text so that it fits on a line.

    >>> escape("B-X\\n1")
    b'B-X\\\\n1'
    """
    return text.encode() if text.isprintable() else text.encode("unicode_escape")


def format_lines(tuples: Columns, names: pa.StringArray | None = None) -> list[bytes]:
    """Format tuples as Linear Road lines; with ``names``, ``vid`` is an index into them."""
    rows = np.stack([tuples[name] for name in FIELDS], axis=1).tolist()
    found = [[b"%d" % value for value in row] for row in rows]
    if names is not None:
        for row in found:
            place = int(row[_VID])
            row[_VID] = escape(names[place].as_py()) if place >= 0 else b""
    return [b",".join(row) for row in found]


def _join_lines(chunks: list[bytes]) -> bytes:
    """Join chunks of lines; the last line of a chunk need not end with a newline."""
    return b"".join(chunk if chunk.endswith(b"\n") else chunk + b"\n" for chunk in chunks)


def _parse_chunks(
    parse: Callable[[bytes, ReportForm], Parsed], join: Callable[[list[bytes]], bytes]
) -> Callable[..., Parsed]:
    """Make a parser for a list of chunks."""
    return lambda chunks, form=LINEAR_ROAD: parse(join(chunks), form)


#: the parser of each encoding: of chunks, and unless it is the benchmark's, the form of the reports in them
PARSERS: dict[str, Callable[..., Parsed]] = {
    "text": _parse_chunks(parse_text, _join_lines),
    "json": _parse_chunks(parse_json, _join_lines),
    "train": _parse_chunks(parse_trains, b"".join),
}


def _parse_row(line: bytes) -> list[int] | str:
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return "fields"
    if not isinstance(body, dict) or not body.keys() <= set(FIELDS) or "type" not in body:
        return "fields"
    if line.count(b":") != len(body):
        # a repeated name is ambiguous
        return "fields"
    row = [body.get(name, -1) for name in FIELDS]
    if not all(type(value) is int and -(2**31) <= value < 2**31 for value in row):
        return "integer"
    return row


def select(columns: Columns, which: Bools) -> Columns:
    """Select tuples."""
    return {name: column[which] for name, column in columns.items()}


def judge(tuples: Columns, form: ReportForm = LINEAR_ROAD) -> Ints:
    """Check each tuple on its own: its type, the range of its fields, and its segment."""
    kind = tuples["type"]
    verdicts = np.where(np.isin(kind, list(CARRIES)), GOOD, UNKNOWN_TYPE).astype(np.int32)
    for number, name in enumerate(FIELDS):
        carriers = [which for which, names in CARRIES.items() if name in names]
        if not carriers or name == "type" or (name == "seg" and not form.needs_lanes):
            continue
        outside = _are_outside(tuples[name], name, form)
        if outside.any():
            outside &= np.isin(kind, carriers) & (verdicts == GOOD)
            verdicts[outside] = _OUT_OF_RANGE + number
    if form.needs_lanes:
        misplaced = (kind == POSITION) & (verdicts == GOOD) & (tuples["seg"] != tuples["pos"] // form.segment_length)
        verdicts[misplaced] = WRONG_SEGMENT
    return verdicts


def _are_outside(values: Ints, name: str, form: ReportForm) -> Bools:
    least, most = form.limits[name]
    if name == "lane" and form.classes > 1:
        classes, lanes = np.divmod(values, CLASS_STEP)
        return (lanes > most) | (classes < 0) | (classes >= form.classes)
    return (values < least) | (values > most)


@compiled
def _scan(buffer: Bytes, values: npt.NDArray[np.int32], verdicts: Ints, starts: Longs, ends: Longs) -> None:
    """Parse the integers of every line, or set its verdict."""
    fields = values.shape[0]
    place = 0
    for line in range(verdicts.size):
        starts[line] = place
        commas = 0
        while place < buffer.size and buffer[place] != 10:
            commas += buffer[place] == 44
            place += 1
        end = place
        while end > starts[line] and buffer[end - 1] == 13:
            end -= 1
        ends[line] = end
        place += 1
        if commas != fields - 1:
            verdicts[line] = WRONG_FIELDS
            continue
        at = starts[line]
        for field in range(fields):
            minus = at < end and buffer[at] == 45
            at += minus
            digits, value = 0, 0
            while at < end and 48 <= buffer[at] <= 57:
                value = min(value * 10 + (buffer[at] - 48), 1 << 40)
                digits += 1
                at += 1
            over = value > (1 << 31) if minus else value >= (1 << 31)
            if digits == 0 or over or not (at == end or buffer[at] == 44):
                verdicts[line] = NOT_INTEGER
                break
            values[field, line] = -value if minus else value
            at += 1
