"""The published Linear Road text: one tuple a line, fifteen integers with commas between them.

``import_text`` makes a run of such a file and ``export_text`` writes one; a file goes through both unchanged, the
order of its lines and its last line end included.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from slipstream.errors import BadInput
from slipstream.feeds.run import MINUTE, Expressway, ExpresswayWriter, Manifest, Run, staged, versions
from slipstream.feeds.tuples import FIELDS, POSITION, SCHEMA
from slipstream.kernels import Ints
from slipstream.progress import bar

WITH_LINE = SCHEMA.append(pa.field("line", pa.int64()))

#: lines are accepted this far out of order; a run is sorted, and the line numbers keep the original order
DISORDER = MINUTE

_BLOCK = 16 << 20


def import_text(source: Path, out: Path) -> Run:
    """Make a run of a Linear Road text file; a line that cannot be read stops it with the line's number."""
    if not source.is_file():
        raise BadInput(f"{source}: no such file.", hint="Give a Linear Road text file.")
    size = source.stat().st_size
    with staged(out, needs_bytes=size) as stage, bar("importing", size) as advance:
        importer = _Importer(stage)
        first_line = 1
        for block in _blocks(source):
            importer.add(block, first_line)
            first_line += block.num_rows
            advance(_BLOCK)
        manifest = importer.finish(source)
        (stage / "manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    return Run.open(out)


def _blocks(source: Path) -> Iterator[pa.Table]:
    """The file in pieces that fit in memory; the schema is the tuple's."""
    read = pc.ReadOptions(column_names=list(FIELDS), block_size=_BLOCK, use_threads=False)
    parse = pc.ParseOptions(quote_char=False, ignore_empty_lines=False)
    convert = pc.ConvertOptions(
        column_types=SCHEMA, null_values=[], strings_can_be_null=False, include_columns=list(FIELDS)
    )
    line = 1
    try:
        for batch in pc.open_csv(source, read_options=read, parse_options=parse, convert_options=convert):
            yield pa.Table.from_batches([batch])
            line += batch.num_rows
    except pa.ArrowInvalid as error:
        raise _explained(source, line, error) from error


def _explained(source: Path, line: int, error: pa.ArrowInvalid) -> BadInput:
    """Find the first bad line at or after ``line`` and say what is wrong with it."""
    with source.open("rb") as lines:
        for number, text in enumerate(lines, start=1):
            if number >= line and (complaint := complain(text.rstrip(b"\r\n"))):
                return BadInput(
                    f"{source}, line {number}: {complaint}",
                    hint="A Linear Road line has 15 integers with commas between them.",
                )
    return BadInput(f"{source}: {error}", hint="A Linear Road line has 15 integers with commas between them.")


def complain(line: bytes) -> str:
    """What is wrong with one line, or nothing.

    >>> complain(b"0,0,107,32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1")
    ''
    >>> complain(b"0,0,x,32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1")
    "field 3 (vid) is 'x', not a whole number"
    """
    values = line.split(b",")
    if len(values) != len(FIELDS):
        return f"{len(values)} fields, expected {len(FIELDS)}: {line[:80].decode(errors='replace')!r}"
    for place, (name, value) in enumerate(zip(FIELDS, values, strict=True), start=1):
        shown = value[:40].decode(errors="replace")
        if not re.fullmatch(rb"-?[0-9]+", value):
            return f"field {place} ({name}) is {shown!r}, not a whole number"
        if not -(2**31) <= int(value) < 2**31:
            return f"field {place} ({name}) is {shown}, more than 32 bits hold"
    return ""


class _Importer:
    """Sorts blocks of a text by expressway and second, a minute at a time, into a run's files."""

    def __init__(self, stage: Path) -> None:
        self._stage = stage
        self._writers: dict[int, ExpresswayWriter] = {}
        self._waiting = WITH_LINE.empty_table()
        self._homes: Ints = np.full(1024, -1, dtype=np.int32)
        self._flushed = -1
        self._vids = self._qids = self._last = 0

    def add(self, block: pa.Table, first_line: int) -> None:
        lines = pa.array(np.arange(first_line, first_line + block.num_rows))
        times = block.column("time").to_numpy()
        self._refuse_unplaceable(times, first_line)
        self._waiting = pa.concat_tables([self._waiting, block.append_column(WITH_LINE.field("line"), lines)])
        self._last = max(self._last, int(times.max()))
        self._flush(self._last // MINUTE - 1)

    def _refuse_unplaceable(self, times: Ints, first_line: int) -> None:
        earliest = max(self._flushed * MINUTE, 0)
        horizon = np.maximum.accumulate(times) - DISORDER
        bad = np.flatnonzero((times < earliest) | (times < horizon))
        if bad.size:
            raise BadInput(
                f"line {first_line + bad[0]}: time {times[bad[0]]} is negative or more than {DISORDER} s behind the "
                "lines before it.",
                hint="Sort the file by its second field first: sort -s -t, -k2,2n FILE",
            )

    def _flush(self, before_minute: int) -> None:
        """Write all minutes before ``before_minute``; what may still get company stays."""
        times = self._waiting.column("time").to_numpy()
        ready = times < before_minute * MINUTE
        if not ready.any():
            return
        self._write(self._waiting.filter(pa.array(ready)))
        self._waiting = self._waiting.filter(pa.array(~ready))
        self._flushed = before_minute

    def _write(self, table: pa.Table) -> None:
        homes = self._home_of(table)
        times = table.column("time").to_numpy()
        order = np.lexsort((times, homes))
        table, homes, minutes = table.take(order), homes[order], times[order] // MINUTE
        cuts = np.flatnonzero((np.diff(homes) != 0) | (np.diff(minutes) != 0)) + 1
        for start, end in zip([0, *cuts], [*cuts, len(homes)], strict=True):
            self._writer(int(homes[start])).write_minute(table.slice(start, end - start))
        self._vids = max(self._vids, int(table.column("vid").to_numpy().max()) + 1)
        self._qids = max(self._qids, int(table.column("qid").to_numpy().max()) + 1)

    def _home_of(self, table: pa.Table) -> Ints:
        """The expressway under which each tuple is kept: its own, or its vehicle's if it names none (type 2)."""
        kinds, vids, xways = (table.column(name).to_numpy() for name in ("type", "vid", "xway"))
        if (top := int(vids.max(initial=0))) >= self._homes.size:
            grown = np.full(max(top + 1, 2 * self._homes.size), -1, dtype=np.int32)
            grown[: self._homes.size] = self._homes
            self._homes = grown
        reports = (kinds == POSITION) & (vids >= 0)
        self._homes[vids[reports]] = xways[reports]
        known = np.where(vids >= 0, self._homes[np.maximum(vids, 0)], -1)
        return np.maximum(np.where(xways >= 0, xways, known), 0).astype(np.int32)

    def _writer(self, xway: int) -> ExpresswayWriter:
        if xway not in self._writers:
            self._writers[xway] = ExpresswayWriter(self._stage, xway, WITH_LINE)
        return self._writers[xway]

    def finish(self, source: Path) -> Manifest:
        if self._waiting.num_rows:
            self._write(self._waiting)
        if not self._writers:
            raise BadInput(f"{source}: empty.", hint="Give a Linear Road text file with at least one tuple.")
        expressways: tuple[Expressway, ...] = tuple(self._writers[x].close() for x in sorted(self._writers))
        with source.open("rb") as text:
            text.seek(-1, 2)
            final_newline = text.read(1) == b"\n"
        return Manifest(
            source=f"imported from {source.name}",
            seconds=self._last + 1,
            expressways=expressways,
            vehicles=int(np.count_nonzero(self._homes >= 0)),
            vid_stride=self._vids,
            qid_stride=self._qids,
            has_lines=True,
            final_newline=final_newline,
            versions=versions(),
        )


def export_text(run: Run, out: IO[bytes]) -> int:
    """Write a run as Linear Road text; returns the number of lines."""
    options = pc.WriteOptions(include_header=False, quoting_style="none")
    written = 0
    held = b""
    for table in _in_order(run):
        sink = pa.BufferOutputStream()
        pc.write_csv(table.select(FIELDS), sink, options)
        out.write(held)
        held = sink.getvalue().to_pybytes()
        written += table.num_rows
    out.write(held if run.manifest.final_newline else held.removesuffix(b"\n"))
    return written


def _in_order(run: Run) -> Iterator[pa.Table]:
    """The tuples as the original lines stood or, where there were none, by second and expressway."""
    keeps_lines = run.manifest.has_lines and run.copies == 1
    minutes = run.manifest.seconds // MINUTE + 1
    waiting = run.minute(0, -1)
    next_line = 1
    with bar("exporting", minutes) as advance:
        for minute in range(minutes):
            copies = [run.shifted(run.minute(s, minute), k) for k in range(run.copies) for s in range(run.stored)]
            table = pa.concat_tables([waiting, *copies])
            key = table.column("line" if keeps_lines else "time").to_numpy()
            table = table.take(np.argsort(key, kind="stable"))
            if keeps_lines:
                # a later minute may hold an earlier line: only the unbroken part goes out
                whole = np.sort(key) == next_line + np.arange(key.size)
                ready = key.size if whole.all() else int(whole.argmin())
                next_line += ready
                table, waiting = table.slice(0, ready), table.slice(ready)
            if table.num_rows:
                yield table
            advance(1)
