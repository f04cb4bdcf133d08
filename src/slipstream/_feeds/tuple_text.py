"""The published Linear Road text format: one tuple per line, fifteen comma-separated integers.

``import_text`` converts such a file (gzipped if its name ends in .gz) to a run and ``export_text`` writes one. A file
that goes through both is unchanged, including the order of its lines and its final newline, except that leading zeros
and Windows line ends are normalised.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

from slipstream._errors import BadInput
from slipstream._feeds.run import MINUTE, ExpresswayWriter, Manifest, Run, staged_run, versions
from slipstream._feeds.tuples import FIELDS, KINDS, POSITION, SCHEMA
from slipstream._tools.numba_tools import Ints
from slipstream._tools.progress import bar, say

WITH_LINE = SCHEMA.append(pa.field("line", pa.int64()))

#: how far out of order lines may be, in seconds; a run is sorted, and line numbers preserve the original order
DISORDER = MINUTE

#: every expressway is a file that stays open while it is written
MOST_EXPRESSWAYS = 1000

_BLOCK = 16 << 20
_FORM = "A Linear Road line has 15 comma-separated integers."


def import_text(source: Path, out: Path) -> Run:
    """Convert a Linear Road text file to a run; a bad line stops it with an error that gives the line's number."""
    size = measure_file(source)
    with staged_run(out, needs_bytes=size) as stage, bar("importing", size) as advance:
        importer = _Importer(stage, source)
        for block in _read_blocks(source):
            importer.add(block)
            advance(_BLOCK)
        manifest = importer.finish()
        (stage / "manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    return Run.open(out)


def measure_file(source: Path) -> int:
    """The size of a file to import; refuse one that is missing or empty."""
    if not source.is_file():
        what = "a folder" if source.is_dir() else "no such file"
        raise BadInput(f"{source}: {what}.", hint="Give a file to import.", code="unreadable-file")
    size = source.stat().st_size
    if not size:
        raise BadInput(f"{source}: empty.", hint="Give a file with at least one tuple.", code="empty-input")
    return size


@contextmanager
def open_text(source: Path) -> Iterator[IO[bytes]]:
    """Open a file to import, decompressed if its name ends in .gz; failures to read it become BadInput."""
    try:
        with cast(IO[bytes], gzip.open(source)) if source.suffix == ".gz" else source.open("rb") as contents:
            yield contents
    except (OSError, EOFError, zlib.error) as error:
        cause = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise BadInput(
            f"{source}: cannot be read ({cause}).", hint="The file may be truncated or damaged.", code="unreadable-file"
        ) from error


def _read_blocks(source: Path) -> Iterator[pa.Table]:
    """Read the file in blocks that fit in memory; what Arrow accepts more liberally than we do is checked by line."""
    read = pc.ReadOptions(column_names=list(FIELDS), block_size=_BLOCK, use_threads=False)
    parse = pc.ParseOptions(quote_char=False, ignore_empty_lines=False)
    convert = pc.ConvertOptions(
        column_types=SCHEMA, null_values=[], strings_can_be_null=False, include_columns=list(FIELDS)
    )
    plain = True
    with open_text(source) as contents, open_text(source) as original:
        try:
            for batch in pc.open_csv(contents, read_options=read, parse_options=parse, convert_options=convert):
                block = pa.Table.from_batches([batch])
                plain = plain and _is_plain(block, original)
                yield block
        except pa.ArrowInvalid as error:
            raise _describe_first_error(source) or BadInput(
                f"{source}: {error}", hint=_FORM, code="unreadable-file"
            ) from error
    if not plain:
        if complaint := _describe_first_error(source):
            raise complaint
        say(f"{source}: has leading zeros or Windows line ends, which an export will not reproduce.")


def _is_plain(block: pa.Table, original: IO[bytes]) -> bool:
    """Whether the next bytes of the file are exactly what an export would write for ``block``."""
    text = format_text(block)
    return original.read(len(text)) in (text, text[:-1])


def _describe_first_error(source: Path) -> BadInput | None:
    """Describe what is wrong with the first bad line."""
    with open_text(source) as lines:
        for number, text in enumerate(lines, start=1):
            if complaint := describe_error(re.sub(rb"\r?\n$", b"", text)):
                return BadInput(f"{source}, line {number}: {complaint}", hint=_FORM, code="unreadable-line")
    return None


def describe_error(line: bytes) -> str:
    """Describe what is wrong with a line; empty if nothing is.

    >>> describe_error(b"0,0,107,32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1")
    ''
    >>> describe_error(b"0,0,x,32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1")
    "field 3 (vid) is 'x', not an integer"
    """
    values = line.split(b",")
    if len(values) != len(FIELDS):
        fields = "1 field" if len(values) == 1 else f"{len(values)} fields"
        return f"{fields}, expected {len(FIELDS)}: {line[:80].decode(errors='replace')!r}"
    for place, (name, value) in enumerate(zip(FIELDS, values, strict=True), start=1):
        shown = value[:40].decode(errors="replace")
        if not re.fullmatch(rb"-?[0-9]+", value):
            return f"field {place} ({name}) is {shown!r}, not an integer"
        digits = value.lstrip(b"-0") or b"0"
        # Python refuses to convert thousands of digits
        if len(digits) > 10 or int(digits) >= 2**31 + value.startswith(b"-"):
            return f"field {place} ({name}) is {shown}, which exceeds 32 bits"
    return ""


class _Homes:
    """The expressway on which each vehicle last reported; sparse, since vehicle numbers in a text are arbitrary."""

    def __init__(self) -> None:
        self.vids: Ints = np.empty(0, dtype=np.int32)
        self._xways: Ints = np.empty(0, dtype=np.int32)

    def learn(self, vids: Ints, xways: Ints) -> None:
        """Record reports, in the order of time."""
        all_vids, all_xways = np.concatenate([self.vids, vids]), np.concatenate([self._xways, xways])
        order = np.argsort(all_vids, kind="stable")
        sorted_vids = all_vids[order]
        latest = np.append(sorted_vids[1:] != sorted_vids[:-1], True)[: order.size]
        self.vids, self._xways = sorted_vids[latest], all_xways[order][latest]

    def last_xways(self, vids: Ints) -> Ints:
        """The last expressway of each of ``vids``; -1 if none."""
        if not self.vids.size:
            return np.full_like(vids, -1)
        place = np.minimum(np.searchsorted(self.vids, vids), self.vids.size - 1)
        return np.where(self.vids[place] == vids, self._xways[place], np.int32(-1))


class _Importer:
    """Sorts blocks of a text by expressway and second, minute by minute, into a run's files."""

    def __init__(self, stage: Path, source: Path) -> None:
        self._stage = stage
        self._source = source
        self._writers: dict[int, ExpresswayWriter] = {}
        self._waiting = WITH_LINE.empty_table()
        self._homes = _Homes()
        self._lines = 0
        self._vids = self._qids = self._last = 0

    def add(self, block: pa.Table) -> None:
        lines = pa.array(np.arange(self._lines + 1, self._lines + block.num_rows + 1))
        times = block.column("time").to_numpy()
        self._refuse_unknown_kinds(block)
        self._refuse_unplaceable(times)
        self._waiting = pa.concat_tables([self._waiting, block.append_column(WITH_LINE.field("line"), lines)])
        self._lines += block.num_rows
        self._last = max(self._last, int(times.max()))
        self._flush(self._last // MINUTE - 1)

    def _refuse_unknown_kinds(self, block: pa.Table) -> None:
        kinds = block.column("type").to_numpy()
        bad = np.flatnonzero(~np.isin(kinds, list(KINDS)))
        if bad.size:
            raise BadInput(
                f"{self._source}, line {self._lines + bad[0] + 1}: field 1 (type) is {kinds[bad[0]]}.",
                hint="Types are 0 position report, 2 balance, 3 daily expenditure, 4 travel time.",
                code="unreadable-line",
            )

    def _refuse_unplaceable(self, times: Ints) -> None:
        horizon = np.maximum(np.maximum.accumulate(times), self._last) - DISORDER
        bad = np.flatnonzero((times < 0) | (times < horizon))
        if bad.size:
            raise BadInput(
                f"{self._source}, line {self._lines + bad[0] + 1}: time {times[bad[0]]} is negative or more than "
                f"{DISORDER} s behind the lines before it.",
                hint="Sort the file by its second field first: sort -s -t, -k2,2n FILE",
                code="unreadable-line",
            )

    def _flush(self, before_minute: int) -> None:
        """Write all minutes before ``before_minute``; later ones may still get tuples."""
        times = self._waiting.column("time").to_numpy()
        ready = times < before_minute * MINUTE
        if not ready.any():
            return
        self._write(self._waiting.filter(pa.array(ready)))
        self._waiting = self._waiting.filter(pa.array(~ready))

    def _write(self, table: pa.Table) -> None:
        homes = self._find_home(table)
        times = table.column("time").to_numpy()
        order = np.lexsort((times, homes))
        table, homes, minutes = table.take(order), homes[order], times[order] // MINUTE
        cuts = np.flatnonzero((np.diff(homes) != 0) | (np.diff(minutes) != 0)) + 1
        for start, end in zip([0, *cuts], [*cuts, len(homes)], strict=True):
            self._open_writer(int(homes[start])).write_minute(table.slice(start, end - start))
        self._vids = max(self._vids, int(table.column("vid").to_numpy().max()) + 1)
        self._qids = max(self._qids, int(table.column("qid").to_numpy().max()) + 1)

    def _find_home(self, table: pa.Table) -> Ints:
        """The expressway under which each tuple is stored: its own, or its vehicle's if it has none (type 2)."""
        kinds, vids, xways = (table.column(name).to_numpy() for name in ("type", "vid", "xway"))
        reports = (kinds == POSITION) & (vids >= 0)
        self._homes.learn(vids[reports], xways[reports])
        return np.maximum(np.where(xways >= 0, xways, self._homes.last_xways(vids)), 0).astype(np.int32)

    def _open_writer(self, xway: int) -> ExpresswayWriter:
        if xway not in self._writers:
            if len(self._writers) == MOST_EXPRESSWAYS:
                raise BadInput(
                    f"{self._source}: more than {MOST_EXPRESSWAYS:,} expressways.",
                    hint="Check the fifth field (xway); if it is correct, split the file.",
                    code="too-large",
                )
            self._writers[xway] = ExpresswayWriter(self._stage, xway, WITH_LINE)
        return self._writers[xway]

    def finish(self) -> Manifest:
        if self._waiting.num_rows:
            self._write(self._waiting)
        return Manifest(
            source=f"imported from {self._source.name}",
            seconds=self._last + 1,
            expressways=tuple(self._writers[x].close() for x in sorted(self._writers)),
            vehicles=self._homes.vids.size,
            vid_stride=self._vids,
            qid_stride=self._qids,
            has_lines=True,
            final_newline=_has_last_newline(self._source),
            versions=versions(),
        )


def _has_last_newline(source: Path) -> bool:
    last = b""
    with open_text(source) as contents:
        if source.suffix != ".gz":
            contents.seek(-1, 2)
        while piece := contents.read(_BLOCK):
            last = piece[-1:]
    return last == b"\n"


def format_text(tuples: pa.Table) -> bytes:
    """Format tuples as lines of text."""
    sink = pa.BufferOutputStream()
    pc.write_csv(tuples.select(FIELDS), sink, pc.WriteOptions(include_header=False, quoting_style="none"))
    return cast(bytes, sink.getvalue().to_pybytes())


def export_text(run: Run, out: IO[bytes]) -> int:
    """Write a run as Linear Road text; returns the number of lines."""
    written = 0
    held = b""
    for table in _restore_order(run):
        out.write(held)
        held = format_text(table)
        written += table.num_rows
    out.write(held if run.manifest.final_newline else held.removesuffix(b"\n"))
    return written


def _restore_order(run: Run) -> Iterator[pa.Table]:
    """The tuples in the order of the original lines or, without any, by second and expressway."""
    keeps_lines = run.manifest.has_lines and run.copies == 1
    waiting = run.minute(0, -1)
    next_line = 1
    with bar("exporting", len(run.minutes)) as advance:
        for minute in run.minutes:
            copies = [run.shift(run.minute(s, minute), k) for k in range(run.copies) for s in range(run.stored)]
            table = pa.concat_tables([waiting, *copies])
            key = table.column("line" if keeps_lines else "time").to_numpy()
            table = table.take(np.argsort(key, kind="stable"))
            if keeps_lines:
                # a later minute may have an earlier line: write only the contiguous lines
                whole = np.sort(key) == next_line + np.arange(key.size)
                ready = key.size if whole.all() else int(whole.argmin())
                next_line += ready
                table, waiting = table.slice(0, ready), table.slice(ready)
            if table.num_rows:
                yield table
            advance(1)
