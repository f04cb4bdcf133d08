"""A RUN: recorded tuples in a self-describing folder.

    RUN/manifest.json                    origin, counts, digests
    RUN/tuples/expressway-00000.parquet  the tuples of one expressway, sorted by second, one row group per minute
    RUN/trips.parquet                    one row per trip (simulated runs)

The files are plain Parquet, which Spark and pyarrow read directly. A row group holds one minute, so a replay finds any
(expressway, second) from the footer's statistics without parsing anything.

``multiply`` presents a run of L expressways as K * L without storing it K times: copy k shifts expressways by k * L,
vehicles by k * vid_stride and requests by k * qid_stride.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slipstream import __version__
from slipstream._errors import MALFORMED, BadArgument, BadInput
from slipstream._feeds.tuples import FIELDS, KINDS, SCHEMA
from slipstream._tools.files import staging
from slipstream._tools.strict_json import decode_as, parse_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from slipstream._feeds.parse import Columns

FORMAT = "slipstream-run"
VERSION = 1
TUPLES = "tuples"
TRIPS = "trips.parquet"
MINUTE = 60

_DAMAGED = "The run is damaged; generate or import it again."


@dataclass(frozen=True)
class Expressway:
    """One expressway's file: its counts and digests."""

    xway: int
    file: str  # relative to the run
    counts: dict[str, int]  # tuples of each kind
    first_second: int  # -1 without tuples
    last_second: int
    sha256: str  # of the fifteen columns of every minute, in order
    footer: str = ""  # the digest of the footer; empty in older runs

    @property
    def tuples(self) -> int:
        """The number of its tuples of all kinds."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class Accident:
    """Two vehicles stopped at the same position in a travel lane."""

    xway: int
    dir: int  # 0 east, 1 west
    lane: int
    pos: int  # feet from the western end
    vids: tuple[int, int]
    stopped: int  # the second in which both had stopped
    detected: int  # the second of the fourth report of both from there; -1 if not yet
    cleared: int  # the second from which the road is clear; -1 if not yet


@dataclass(frozen=True)
class Manifest:
    """The contents of ``manifest.json``."""

    source: str  # its origin, in words
    seconds: int  # its length; the last second is one less
    expressways: tuple[Expressway, ...]
    vehicles: int
    vid_stride: int  # what a copy adds to vehicle numbers
    qid_stride: int  # what a copy adds to request numbers
    seed: int | None = None
    parameters: dict[str, Any] = field(default_factory=dict)  # of the simulator
    trips: int | None = None
    accidents: tuple[Accident, ...] = ()
    multiply: int = 1  # the number of copies presented
    has_lines: bool = False  # whether tuples have the number of their line, to be exported in that order
    final_newline: bool = True  # whether the imported text ended with one
    versions: dict[str, str] = field(default_factory=dict)  # of the software that made it

    @property
    def counts(self) -> dict[str, int]:
        """The number of tuples of each kind, copies included."""
        names = KINDS.values()
        return {name: self.multiply * sum(e.counts.get(name, 0) for e in self.expressways) for name in names}

    def to_json(self) -> str:
        """The manifest as JSON; equal runs give equal text."""
        body = {"format": FORMAT, "version": VERSION, **asdict(self), "counts": self.counts}
        return json.dumps(body, indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> Manifest:
        """Read and check a manifest; ``where`` names the file in messages."""
        try:
            body = parse_json(text)
        except ValueError as error:
            line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
            raise BadInput(
                f"{where}{line}: not JSON ({getattr(error, 'msg', error)}).",
                hint="The run is damaged; generate or import it again.",
                code="damaged-file",
            ) from error
        if not isinstance(body, dict) or body.pop("format", None) != FORMAT:
            raise BadInput(
                f"{where}: not a Slipstream run.",
                hint="`slipstream simulate` and `import` create runs.",
                code="wrong-file-type",
            )
        if (found := body.pop("version", None)) != VERSION:
            raise BadInput(
                f"{where}: run format {found}, but this version reads {VERSION}.",
                hint="Use the version that wrote it.",
                code="wrong-version",
            )
        body.pop("counts", None)
        try:
            manifest = decode_as(cls, body)
            manifest.check()
        except ValueError as error:
            raise BadInput(
                f"{where}: {error}.",
                hint="The manifest was edited; generate or import the run again.",
                code="damaged-file",
            ) from error
        return manifest

    def check(self) -> None:
        """Refuse an inconsistent manifest."""
        if min(self.seconds, self.vehicles, self.vid_stride, self.qid_stride, self.multiply - 1) < 0:
            raise ValueError("seconds, vehicles, multiply or a stride is out of range")
        if not self.expressways or len({e.xway for e in self.expressways}) < len(self.expressways):
            raise ValueError("no expressway, or one twice")
        for e in self.expressways:
            if e.xway < 0 or e.file != file_name(e.xway) or min(e.counts.values(), default=0) < 0:
                raise ValueError(f"expressway {e.xway} has a wrong file name or a negative count")
            if not -1 <= e.first_second <= e.last_second < self.seconds:
                raise ValueError(f"expressway {e.xway} ends at second {e.last_second} of {self.seconds}")


def versions() -> dict[str, str]:
    """The software versions that a manifest records."""
    python = sys.version.split()[0]
    return {
        "slipstream": __version__,
        "python": python,
        "numpy": version("numpy"),
        "pyspark": version("pyspark"),
    }


def file_name(xway: int) -> str:
    """The file of an expressway's tuples, relative to the run."""
    return f"{TUPLES}/expressway-{xway:05d}.parquet"


def _digest_footer(file: Path) -> str:
    """The digest of a Parquet file's footer: reading a damaged one can crash the process."""
    with file.open("rb") as contents:
        contents.seek(-8, 2)
        (length,) = struct.unpack("<I", contents.read(4))
        contents.seek(-8 - length, 2)
        return hashlib.sha256(contents.read()).hexdigest()


def _is_ordered_by_minute(footer: pq.FileMetaData, expressway: Expressway) -> bool:
    """Whether every row group is one minute, in order, from the first second to the last."""
    place = FIELDS.index("time")
    spans = [footer.row_group(group).column(place).statistics for group in range(footer.num_row_groups)]
    if not all(span is not None and span.has_min_max and span.min // MINUTE == span.max // MINUTE for span in spans):
        return False
    minutes = [span.min // MINUTE for span in spans]
    ends = (spans[0].min, spans[-1].max) if spans else (-1, -1)
    return minutes == sorted(set(minutes)) and ends == (expressway.first_second, expressway.last_second)


def _update_digest(digest: hashlib._Hash, minute: pa.Table) -> None:
    for name in FIELDS:
        digest.update(np.ascontiguousarray(minute.column(name).to_numpy()).data)


class ExpresswayWriter:
    """Writes one expressway's file, minute by minute, and collects its entry in the manifest."""

    def __init__(self, folder: Path, xway: int, schema: pa.Schema) -> None:
        self.xway = xway
        self.file = file_name(xway)
        self._schema = schema
        self._place = folder / self.file
        self._writer = pq.ParquetWriter(self._place, schema, compression="zstd", use_dictionary=True)
        self._digest = hashlib.sha256()
        self._counts = dict.fromkeys(KINDS.values(), 0)
        self._first, self._last = -1, -1

    def write_minute(self, minute: pa.Table) -> None:
        """Add a minute's tuples, sorted by second, as one row group."""
        if not minute.num_rows:
            return
        self._writer.write_table(minute, row_group_size=minute.num_rows)
        _update_digest(self._digest, minute)
        kinds = minute.column("type").to_numpy()
        for number, name in KINDS.items():
            self._counts[name] += int(np.count_nonzero(kinds == number))
        times = minute.column("time")
        if self._first < 0:
            self._first = times[0].as_py()
        self._last = times[-1].as_py()

    def close(self) -> Expressway:
        """Finish the file and return its entry in the manifest."""
        self._writer.close()
        digests = self._digest.hexdigest(), _digest_footer(self._place)
        return Expressway(self.xway, self.file, self._counts, self._first, self._last, *digests)


@contextmanager
def staged_run(out: Path, *, needs_bytes: int = 0) -> Iterator[Path]:
    """Yield a folder to write a run in; see :func:`slipstream._tools.files.staging.staged_folder`."""
    with staging.staged_folder(out, needs_bytes=needs_bytes) as stage:
        (stage / TUPLES).mkdir()
        yield stage


class Run:
    """An existing run: its manifest, and its tuples by expressway and second.

    ``Run.open(path)`` checks that the folder is complete (manifest, files, row counts) before anything uses it.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def open(cls, path: Path | str) -> Run:
        """Open the run at ``path``, or raise an error that explains what is wrong with it."""
        path = Path(path)
        where = path / "manifest.json"
        if not path.is_dir():
            raise BadArgument(
                f"{path}: no such run.", hint="`slipstream simulate --out RUN` creates one.", code="no-such-file"
            )
        try:
            text = where.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(
                f"{path}: not a run ({where.name} cannot be read).", hint=_DAMAGED, code="damaged-file"
            ) from error
        run = cls(path, Manifest.from_json(text, str(where)))
        run._check_files()
        return run

    def _check_files(self) -> None:
        for expressway in self.manifest.expressways:
            file = self.path / expressway.file
            try:
                if expressway.footer and _digest_footer(file) != expressway.footer:
                    raise ValueError("the footer differs")
                footer = pq.read_metadata(file)
                columns = footer.schema.to_arrow_schema()
            except (OSError, pa.ArrowException, *MALFORMED) as error:
                raise BadInput(
                    f"{file}: missing or truncated, or its contents differ from the manifest.",
                    hint=_DAMAGED,
                    code="damaged-file",
                ) from error
            if footer.num_rows != expressway.tuples:
                raise BadInput(
                    f"{file}: {footer.num_rows:,} tuples, but the manifest lists {expressway.tuples:,}.",
                    hint=_DAMAGED,
                    code="damaged-file",
                )
            if [(f.name, f.type) for f in columns][: len(FIELDS)] != [(f.name, f.type) for f in SCHEMA]:
                raise BadInput(f"{file}: does not have the columns of a run.", hint=_DAMAGED, code="damaged-file")
            if not _is_ordered_by_minute(footer, expressway):
                raise BadInput(f"{file}: its minutes differ from the manifest.", hint=_DAMAGED, code="damaged-file")

    def verify(self) -> None:
        """Read every tuple and compare with the digests in the manifest."""
        for expressway in self.manifest.expressways:
            digest = hashlib.sha256()
            try:
                file = pq.ParquetFile(self.path / expressway.file)
                for group in range(file.num_row_groups):
                    _update_digest(digest, file.read_row_group(group))
                found = digest.hexdigest()
            except (OSError, pa.ArrowException, *MALFORMED) as error:
                found = str(error)
            if found != expressway.sha256:
                raise BadInput(
                    f"{self.path / expressway.file}: contents differ from the manifest.",
                    hint=_DAMAGED,
                    code="damaged-file",
                )

    @property
    def stored(self) -> int:
        """The number of stored expressways."""
        return len(self.manifest.expressways)

    @property
    def xway_stride(self) -> int:
        """The shift of expressway numbers per copy: large enough that no two copies share one."""
        return max(expressway.xway for expressway in self.manifest.expressways) + 1

    @property
    def copies(self) -> int:
        """The number of copies presented of each stored expressway."""
        return self.manifest.multiply

    def multiplied(self, copies: int) -> Run:
        """Return the same stored run, presented ``copies`` times."""
        manifest = self.manifest
        strides = {"expressways": self.xway_stride, "vehicles": manifest.vid_stride, "requests": manifest.qid_stride}
        for what, stride in strides.items():
            if copies * stride > 2**31:
                raise BadArgument(
                    f"{self.path}, {copies} times: the numbers of {what} would exceed 32 bits.",
                    hint="Give a smaller --multiply.",
                    code="too-large",
                )
        return Run(self.path, replace(self.manifest, multiply=copies))

    @cached_property
    def _files(self) -> list[pq.ParquetFile]:
        return [pq.ParquetFile(self.path / e.file) for e in self.manifest.expressways]

    @cached_property
    def _minutes(self) -> list[dict[int, int]]:
        """The row group of each minute, per stored expressway, from the footers."""
        place = FIELDS.index("time")
        return [
            {
                file.metadata.row_group(g).column(place).statistics.min // MINUTE: g
                for g in range(file.metadata.num_row_groups)
            }
            for file in self._files
        ]

    @property
    def minutes(self) -> list[int]:
        """The minutes that have tuples."""
        return sorted(set().union(*self._minutes))

    def minute(self, stored: int, minute: int) -> pa.Table:
        """The tuples of the ``stored``-th expressway in a minute (0 is the first), as stored."""
        group = self._minutes[stored].get(minute)
        if group is None:
            return self._files[stored].schema_arrow.empty_table()
        return self._files[stored].read_row_group(group)

    @property
    def strides(self) -> dict[str, int]:
        """The shift per copy, for the columns that are shifted; -1 stays -1."""
        return {"xway": self.xway_stride, "vid": self.manifest.vid_stride, "qid": self.manifest.qid_stride}

    def shift_columns(self, columns: Columns, copy: int) -> Columns:
        """``columns`` as copy number ``copy`` presents them."""
        if not copy:
            return columns
        moved = {
            name: np.where(columns[name] >= 0, columns[name] + np.int32(copy * stride), columns[name])
            for name, stride in self.strides.items()
        }
        return {**columns, **moved}

    def present(self, columns: Columns) -> Columns:
        """``columns`` as all copies present them, one after the other."""
        if self.copies == 1:
            return columns
        shifts = np.arange(self.copies, dtype=np.int32)[:, None]
        made = {}
        for name, values in columns.items():
            tiled = np.tile(values, (self.copies, 1))
            if stride := self.strides.get(name, 0):
                np.add(tiled, shifts * np.int32(stride), out=tiled, where=values >= 0)
            made[name] = tiled.ravel()
        return made

    def shift(self, tuples: pa.Table, copy: int) -> pa.Table:
        """``tuples`` as copy number ``copy`` presents them."""
        moved = self.shift_columns({name: tuples.column(name).to_numpy() for name in self.strides}, copy)
        for name, values in moved.items() if copy else ():
            place = tuples.schema.get_field_index(name)
            tuples = tuples.set_column(place, tuples.schema.field(place), pa.array(values))
        return tuples

    def tuples(self, minutes: Iterable[int]) -> pa.Table:
        """All tuples of some minutes, copies included, in the order of time."""
        parts = [
            self.shift(self.minute(stored, minute).select(list(FIELDS)), copy)
            for minute in minutes
            for copy in range(self.copies)
            for stored in range(self.stored)
        ]
        table = pa.concat_tables([SCHEMA.empty_table(), *parts])
        return table.take(pc.sort_indices(table, [("time", "ascending")]))

    def dataframe(self, spark: SparkSession) -> DataFrame:
        """All tuples of the run, multiplied, as a Spark DataFrame with the fifteen columns."""
        from pyspark.sql import functions as sf

        files = [str(self.path / expressway.file) for expressway in self.manifest.expressways]
        stored = spark.read.parquet(*files).select(*FIELDS)
        if self.copies == 1:
            return stored
        copy, strides = sf.col("copy").cast("int"), self.strides
        columns = [
            sf.when(sf.col(name) >= 0, sf.col(name) + copy * strides[name]).otherwise(sf.col(name)).alias(name)
            if name in strides
            else sf.col(name)
            for name in FIELDS
        ]
        return stored.crossJoin(spark.range(self.copies).withColumnRenamed("id", "copy")).select(*columns)
