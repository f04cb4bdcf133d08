"""The published Linear Road text: one tuple a line, fifteen integers with commas between them.

``import_text`` makes a run of such a file (gzipped if its name ends in .gz) and ``export_text`` writes one; a file goes
through both unchanged, the order of its lines and its last line end included. The two liberties that a reader of whole
numbers must allow, leading zeros and Windows line ends, are the only thing that an export writes differently.
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
from slipstream._feeds.run import MINUTE, ExpresswayWriter, Manifest, Run, staged, versions
from slipstream._feeds.tuples import FIELDS, KINDS, POSITION, SCHEMA
from slipstream._tools.numba_tools import Ints
from slipstream._tools.progress import bar, say

WITH_LINE = SCHEMA.append(pa.field("line", pa.int64()))

#: lines are accepted this far out of order; a run is sorted, and the line numbers keep the original order
DISORDER = MINUTE

#: an expressway is a file that stays open while it is written
MOST_EXPRESSWAYS = 1000

_BLOCK = 16 << 20
_FORM = "A Linear Road line has 15 integers with commas between them."


def import_text(source: Path, out: Path) -> Run:
    """Make a run of a Linear Road text file; a line that cannot be read stops it with the line's number."""
    size = file_size(source)
    with staged(out, needs_bytes=size) as stage, bar("importing", size) as advance:
        importer = _Importer(stage, source)
        for block in _blocks(source):
            importer.add(block)
            advance(_BLOCK)
        manifest = importer.finish()
        (stage / "manifest.json").write_text(manifest.to_json(), encoding="utf-8")
    return Run.open(out)


def file_size(source: Path) -> int:
    """Bytes of a file to import, or why there is nothing to import."""
    if not source.is_file():
        what = "a folder" if source.is_dir() else "no such file"
        raise BadInput(f"{source}: {what}.", hint="Give a file to import.")
    size = source.stat().st_size
    if not size:
        raise BadInput(f"{source}: empty.", hint="Give a file with at least one tuple.")
    return size


@contextmanager
def reading(source: Path) -> Iterator[IO[bytes]]:
    """A file to import, decompressed if its name says so; what the disk or the compression does wrong is told."""
    try:
        with cast(IO[bytes], gzip.open(source)) if source.suffix == ".gz" else source.open("rb") as contents:
            yield contents
    except (OSError, EOFError, zlib.error) as error:
        cause = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise BadInput(f"{source}: cannot be read ({cause}).", hint="The file may be cut short or damaged.") from error


def _blocks(source: Path) -> Iterator[pa.Table]:
    """The file in pieces that fit in memory; what Arrow reads more liberally than we do is looked at line by line."""
    read = pc.ReadOptions(column_names=list(FIELDS), block_size=_BLOCK, use_threads=False)
    parse = pc.ParseOptions(quote_char=False, ignore_empty_lines=False)
    convert = pc.ConvertOptions(
        column_types=SCHEMA, null_values=[], strings_can_be_null=False, include_columns=list(FIELDS)
    )
    plain = True
    with reading(source) as contents, reading(source) as original:
        try:
            for batch in pc.open_csv(contents, read_options=read, parse_options=parse, convert_options=convert):
                block = pa.Table.from_batches([batch])
                plain = plain and _is_plain(block, original)
                yield block
        except pa.ArrowInvalid as error:
            raise _complaint(source) or BadInput(f"{source}: {error}", hint=_FORM) from error
    if not plain:
        if complaint := _complaint(source):
            raise complaint
        say(f"{source}: leading zeros or Windows line ends; an export will write them plainly.")


def _is_plain(block: pa.Table, original: IO[bytes]) -> bool:
    """Whether the next bytes of the file are just what an export would write for ``block``."""
    text = as_text(block)
    return original.read(len(text)) in (text, text[:-1])


def _complaint(source: Path) -> BadInput | None:
    """What is wrong with the first bad line."""
    with reading(source) as lines:
        for number, text in enumerate(lines, start=1):
            if complaint := complain(re.sub(rb"\r?\n$", b"", text)):
                return BadInput(f"{source}, line {number}: {complaint}", hint=_FORM)
    return None


def complain(line: bytes) -> str:
    """What is wrong with one line, or nothing.

    >>> complain(b"0,0,107,32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1")
    ''
    >>> complain(b"0,0,x,32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1")
    "field 3 (vid) is 'x', not a whole number"
    """
    values = line.split(b",")
    if len(values) != len(FIELDS):
        fields = "1 field" if len(values) == 1 else f"{len(values)} fields"
        return f"{fields}, expected {len(FIELDS)}: {line[:80].decode(errors='replace')!r}"
    for place, (name, value) in enumerate(zip(FIELDS, values, strict=True), start=1):
        shown = value[:40].decode(errors="replace")
        if not re.fullmatch(rb"-?[0-9]+", value):
            return f"field {place} ({name}) is {shown!r}, not a whole number"
        digits = value.lstrip(b"-0") or b"0"
        # of more digits Python would not make a number at all
        if len(digits) > 10 or int(digits) >= 2**31 + value.startswith(b"-"):
            return f"field {place} ({name}) is {shown}, more than 32 bits hold"
    return ""


class _Homes:
    """The expressway on which each vehicle last reported; sparse, since a text may number vehicles as it likes."""

    def __init__(self) -> None:
        self.vids: Ints = np.empty(0, dtype=np.int32)
        self._xways: Ints = np.empty(0, dtype=np.int32)

    def learn(self, vids: Ints, xways: Ints) -> None:
        """Take note of reports, the later ones last."""
        all_vids, all_xways = np.concatenate([self.vids, vids]), np.concatenate([self._xways, xways])
        order = np.argsort(all_vids, kind="stable")
        sorted_vids = all_vids[order]
        latest = np.append(sorted_vids[1:] != sorted_vids[:-1], True)[: order.size]
        self.vids, self._xways = sorted_vids[latest], all_xways[order][latest]

    def of(self, vids: Ints) -> Ints:
        """Where each of ``vids`` was seen last, -1 if nowhere."""
        if not self.vids.size:
            return np.full_like(vids, -1)
        place = np.minimum(np.searchsorted(self.vids, vids), self.vids.size - 1)
        return np.where(self.vids[place] == vids, self._xways[place], np.int32(-1))


class _Importer:
    """Sorts blocks of a text by expressway and second, a minute at a time, into a run's files."""

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
            )

    def _refuse_unplaceable(self, times: Ints) -> None:
        horizon = np.maximum(np.maximum.accumulate(times), self._last) - DISORDER
        bad = np.flatnonzero((times < 0) | (times < horizon))
        if bad.size:
            raise BadInput(
                f"{self._source}, line {self._lines + bad[0] + 1}: time {times[bad[0]]} is negative or more than "
                f"{DISORDER} s behind the lines before it.",
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
        reports = (kinds == POSITION) & (vids >= 0)
        self._homes.learn(vids[reports], xways[reports])
        return np.maximum(np.where(xways >= 0, xways, self._homes.of(vids)), 0).astype(np.int32)

    def _writer(self, xway: int) -> ExpresswayWriter:
        if xway not in self._writers:
            if len(self._writers) == MOST_EXPRESSWAYS:
                raise BadInput(
                    f"{self._source}: more than {MOST_EXPRESSWAYS:,} expressways.",
                    hint="Look at the fifth field (xway); split the file if it is as meant.",
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
            final_newline=_ends_with_newline(self._source),
            versions=versions(),
        )


def _ends_with_newline(source: Path) -> bool:
    last = b""
    with reading(source) as contents:
        if source.suffix != ".gz":
            contents.seek(-1, 2)
        while piece := contents.read(_BLOCK):
            last = piece[-1:]
    return last == b"\n"


def as_text(tuples: pa.Table) -> bytes:
    """Tuples as lines of text."""
    sink = pa.BufferOutputStream()
    pc.write_csv(tuples.select(FIELDS), sink, pc.WriteOptions(include_header=False, quoting_style="none"))
    return cast(bytes, sink.getvalue().to_pybytes())


def export_text(run: Run, out: IO[bytes]) -> int:
    """Write a run as Linear Road text; returns the number of lines."""
    written = 0
    held = b""
    for table in _in_order(run):
        out.write(held)
        held = as_text(table)
        written += table.num_rows
    out.write(held if run.manifest.final_newline else held.removesuffix(b"\n"))
    return written


def _in_order(run: Run) -> Iterator[pa.Table]:
    """The tuples as the original lines stood or, where there were none, by second and expressway."""
    keeps_lines = run.manifest.has_lines and run.copies == 1
    waiting = run.minute(0, -1)
    next_line = 1
    with bar("exporting", len(run.minutes)) as advance:
        for minute in run.minutes:
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
