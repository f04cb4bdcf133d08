"""The Delta Lake table of one output: created, appended to once per batch, and checked against the journal."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slipstream._errors import BadInput, Unavailable, classify
from slipstream._io.outputs.data_files import BATCH, FOLDER, Written, stored_schema
from slipstream._io.outputs.journal import RESCUE
from slipstream._tools.files.remote_paths import RemotePath, for_arrow
from slipstream._tools.files.stores import explain_store

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["FOLDER", "REJECTS", "File", "OutputTable", "read_errors"]

#: the output of rejected input, in every job that rejects any
REJECTS = "rejects"
#: files that compaction replaced stay for readers who have just listed them; older log entries are of no use then
_KEPT = {
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}
#: the transaction of removals, whose version is the number of rows removed so far
_REMOVED = "slipstream-removed"
#: how often a removal is tried that others' commits disturb
_ATTEMPTS = 20


@dataclass(frozen=True)
class File:
    """A file of a table: its rows, and the first and last batch in it."""

    path: Path
    rows: int
    first: int
    last: int


class OutputTable:
    """The table of one output, as of when it was opened or last appended to."""

    def __init__(self, place: Path, delta: DeltaTable) -> None:
        self.place = place
        self._delta = delta
        self._last: dict[str, int] = {}  # cached, as each lookup reads the log

    @classmethod
    def open(cls, place: Path) -> OutputTable | None:
        """Open the table in a folder; None if there is none."""
        from deltalake import DeltaTable

        if not (place / "_delta_log").is_dir():
            return None
        with _translate_errors(place):
            return cls(place, DeltaTable(str(place.absolute())))

    @classmethod
    def create(cls, place: Path, schema: pa.Schema) -> OutputTable:
        """Create an empty table for rows of ``schema``, which does not include the batch."""
        from deltalake import DeltaTable

        place.mkdir(parents=True, exist_ok=True)
        with _translate_errors(place):
            return cls(
                place, DeltaTable.create(str(place.absolute()), schema=stored_schema(schema), configuration=_KEPT)
            )

    @property
    def schema(self) -> pa.Schema:
        """The columns, including the batch."""
        return _strip(pa.schema(self._delta.schema().to_arrow()))

    def last_batch(self, job: str) -> int:
        """Return the last batch that a job committed to this table; -1 before the first."""
        if job not in self._last:
            with _translate_errors(self.place):
                version = self._delta.transaction_version(job)
            self._last[job] = -1 if version is None else int(version)
        return self._last[job]

    def append(self, written: Sequence[Written], job: str, batch: int) -> None:
        """Commit the files of a batch.

        A table that was not appended to for hours may be too far behind its own log, of which compaction keeps only the
        end: then it is reopened, and the commit is retried unless the first attempt succeeded after all.
        """
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        with _translate_errors(self.place):
            try:
                self._append(written, job, batch)
            except DeltaError:
                self._delta, self._last = DeltaTable(str(self.place.absolute())), {}
                if self.last_batch(job) < batch:
                    self._append(written, job, batch)
        self._last[job] = batch

    def _append(self, written: Sequence[Written], job: str, batch: int) -> None:
        from deltalake.transaction import AddAction, CommitProperties, Transaction

        now = time.time_ns() // 1_000_000
        added = [AddAction(one.file, one.bytes, {}, now, True, _write_statistics(one.rows, batch)) for one in written]
        properties = CommitProperties(app_transactions=[Transaction(job, batch)])
        schema = self._delta.schema()
        self._delta.create_write_transaction(list(added), mode="append", schema=schema, commit_properties=properties)
        # otherwise the next transaction of the same job is taken for a concurrent one
        self._delta.update_incremental()

    @property
    def removed(self) -> int:
        """How many rows of committed batches were removed since: expired, or those of a forgotten vehicle."""
        with _translate_errors(self.place):
            return int(self._delta.transaction_version(_REMOVED) or 0)

    def remove(self, where: str, last: int) -> int:
        """Remove the rows of batches up to ``last`` that fulfil an SQL condition; returns how many there were.

        The same commit records their number, so the table still agrees with the journal. Appends and compaction may
        go on meanwhile; if one of them disturbs the removal, it is tried again.
        """
        from deltalake import CommitProperties, DeltaTable, Transaction
        from deltalake.exceptions import CommitFailedError

        condition = f'({where}) AND "{BATCH}" <= {last}'
        with _translate_errors(self.place):
            for attempt in range(_ATTEMPTS):
                self._delta, self._last = DeltaTable(str(self.place.absolute())), {}
                found = int(self._query(f"SELECT count(*) FROM rows WHERE {condition}")[0][0].as_py())
                if not found:
                    return 0
                noted = CommitProperties(app_transactions=[Transaction(_REMOVED, self.removed + found)])
                try:
                    self._delta.delete(condition, commit_properties=noted)
                    return found
                except CommitFailedError:
                    if attempt == _ATTEMPTS - 1:
                        raise
        return 0

    def select(self, where: str) -> pa.Table:
        """Return the rows that fulfil an SQL condition, with their batches."""
        return self._query(f"SELECT * FROM rows WHERE {where}").cast(self.schema)

    def _query(self, query: str) -> pa.Table:
        from deltalake import QueryBuilder

        with _translate_errors(self.place):
            return pa.table(QueryBuilder().register("rows", self._delta).execute(query).read_all())

    def drop_after(self, last: int) -> None:
        """Delete the rows of a batch that was never committed."""
        with _translate_errors(self.place):
            self._delta.delete(f'"{BATCH}" > {last}')

    def shred(self) -> None:
        """Delete all files and log entries of earlier versions; nobody else may use the table meanwhile."""
        with _translate_errors(self.place):
            self._delta.vacuum(retention_hours=0, full=True, dry_run=False, enforce_retention_duration=False)
            self._delta.update_incremental()
            self._delta.create_checkpoint()
        for entry in (self.place / "_delta_log").iterdir():
            # entries before the checkpoint are of no use, and their statistics have values of rows
            if (version := entry.name.partition(".")[0]).isdigit() and int(version) < self._delta.version():
                entry.unlink()

    def files(self) -> list[File]:
        """Return the files of the table, oldest batches first."""
        actions = pa.table(self._delta.get_add_actions(flatten=True))
        if not actions.num_rows:
            return []
        names = ("path", "num_records", f"min.{BATCH}", f"max.{BATCH}")
        if not {*names} <= {*actions.column_names} or any(actions[name].null_count for name in names):
            raise _refuse_foreign_rows(self.place)
        columns = [actions[name].to_pylist() for name in names]
        found = (File(self.place / path, *numbers) for path, *numbers in zip(*columns, strict=True))
        return sorted(found, key=lambda file: (file.first, file.last, file.path.name))

    def count(self, first: int, last: int) -> int:
        """Count the rows of some batches; only files that also have other batches are opened."""
        rows = 0
        for file in self.files():
            if first <= file.first and file.last <= last:
                rows += file.rows
            elif file.first <= last and first <= file.last:
                with read_errors(file.path):
                    batches = pq.read_table(for_arrow(file.path), columns=[BATCH], partitioning=None)[BATCH]
                inside = pc.and_(pc.greater_equal(batches, first), pc.less_equal(batches, last))
                rows += int(pc.sum(inside).as_py() or 0)
        return rows

    def check(self, job: str, rows: int, newest: int, last: int) -> None:
        """Refuse a table that differs from the journal.

        The journal ends with batch ``last`` and lists ``rows`` for this table up to batch ``newest``. A crash may have
        left one batch more than that, but nothing else may differ.
        """
        mine = self.last_batch(job)
        if mine < newest:
            raise BadInput(
                f"{self.place}: ends with batch {mine}, but the journal lists {newest}; commits are missing.",
                hint=RESCUE,
                code="damaged-output",
            )
        if mine > last + 1:
            raise BadInput(
                f"{self.place}: has batch {mine}, but the journal ends with {last}; journal lines are missing.",
                hint=RESCUE,
                code="damaged-output",
            )
        there = {path.name for path in self.place.iterdir()}
        if lost := [file.path for file in self.files() if file.path.name not in there]:
            raise BadInput(
                f"{lost[0]}: missing, but listed in the log of its table.", hint=RESCUE, code="damaged-output"
            )
        found = self.count(0, last) + self.removed
        if found != rows or any(file.last > last + 1 or file.first < 0 for file in self.files()):
            raise BadInput(
                f"{self.place}: has {found:,} rows of committed batches, but the journal lists {rows:,}. "
                "Something else has changed this table.",
                hint=RESCUE,
                code="changed-by-others",
            )


def _write_statistics(rows: int, batch: int) -> str:
    """Delta Lake's statistics of a file: enough to skip files by batch."""
    values = {BATCH: batch}
    return json.dumps({"numRecords": rows, "minValues": values, "maxValues": values, "nullCount": {BATCH: 0}})


def _strip(schema: pa.Schema) -> pa.Schema:
    """Remove the names and metadata that Delta Lake adds to a schema."""
    return pa.schema([pa.field(one.name, _strip_type(one.type)) for one in schema])


def _strip_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_list(type_):
        return pa.list_(_strip_type(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(one.name, _strip_type(one.type)) for one in type_])
    return type_


def _refuse_foreign_rows(place: Path) -> BadInput:
    return BadInput(
        f"{place}: has rows without a batch. Something else has written to this table.",
        hint=RESCUE,
        code="changed-by-others",
    )


@contextmanager
def read_errors(file: Path) -> Iterator[None]:
    """Raise errors that name the file of a table that cannot be read."""
    try:
        yield
    except FileNotFoundError as error:
        raise Unavailable(
            f"{file}: missing. It was listed more than an hour ago, or somebody deleted it.",
            hint="Read again.",
            code="changed-by-others",
        ) from error
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and (explained := explain_store(error)):
            raise explained from error
        raise BadInput(
            f"{file}: damaged ({str(error).splitlines()[0][:200]}).", hint=RESCUE, code="damaged-output"
        ) from error


@contextmanager
def _translate_errors(place: Path) -> Iterator[None]:
    from deltalake.exceptions import DeltaError

    try:
        yield
    except DeltaError as error:
        if isinstance(place, RemotePath) and _UNREACHABLE.search(str(error)):
            raise _report_unreachable(place, error) from error
        raise BadInput(f"{place}: {str(error).splitlines()[0][:300]}", hint=RESCUE, code="damaged-output") from error
    except OSError as error:
        if isinstance(place, RemotePath) and _UNREACHABLE.search(str(error)):
            raise _report_unreachable(place, error) from error
        text = error.strerror or str(error).splitlines()[0][:300]
        raise Unavailable(
            f"{place}: {text}.", hint="Nothing was lost; start the job again.", code=classify(error)
        ) from error


#: how delta-rs says that a store does not answer
_UNREACHABLE = re.compile(r"error sending request|retries|timed? ?out|Connection refused|connect", re.IGNORECASE)


def _report_unreachable(place: Path, error: Exception) -> Unavailable:
    return Unavailable(
        f"{place}: the store does not respond ({str(error).splitlines()[0][:300]}).",
        hint="Committed output is safe. Check the store, and run the same command again.",
        code="store-unreachable",
    )
