"""One output as a Delta Lake table: created, appended to once per batch, and compared with the journal."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slipstream._errors import BadInput, Unavailable
from slipstream._io.outputs.committed import RESCUE
from slipstream._io.outputs.files import BATCH, FOLDER, Written, stored

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["FOLDER", "REJECTS", "File", "Table", "readable"]

#: the output that gets the input which was refused, in every job that refuses some
REJECTS = "rejects"
#: Files that compaction replaced stay for readers who have just listed them; the log of a version is of no use longer.
_KEPT = {
    "delta.logRetentionDuration": "interval 1 hours",
    "delta.deletedFileRetentionDuration": "interval 1 hours",
}


@dataclass(frozen=True)
class File:
    """A file of a table: its rows, and the first and last batch in it."""

    path: Path
    rows: int
    first: int
    last: int


class Table:
    """The table of one output, as it was when this was opened or last appended to."""

    def __init__(self, place: Path, delta: DeltaTable) -> None:
        self.place = place
        self._delta = delta
        self._last: dict[str, int] = {}  # asking for it reads the log, so once is enough

    @classmethod
    def open(cls, place: Path) -> Table | None:
        """Open the table at a place, if there is one."""
        from deltalake import DeltaTable

        if not (place / "_delta_log").is_dir():
            return None
        with _errors(place):
            return cls(place, DeltaTable(str(place.absolute())))

    @classmethod
    def create(cls, place: Path, schema: pa.Schema) -> Table:
        """Create an empty table for rows of ``schema``, which does not include the batch."""
        from deltalake import DeltaTable

        place.mkdir(parents=True, exist_ok=True)
        with _errors(place):
            return cls(place, DeltaTable.create(str(place.absolute()), schema=stored(schema), configuration=_KEPT))

    @property
    def schema(self) -> pa.Schema:
        """The columns, the batch among them."""
        return _plain(pa.schema(self._delta.schema().to_arrow()))

    def last_batch(self, job: str) -> int:
        """Return the last batch that a job committed to this table; -1 before the first."""
        if job not in self._last:
            with _errors(self.place):
                version = self._delta.transaction_version(job)
            self._last[job] = -1 if version is None else int(version)
        return self._last[job]

    def append(self, written: Sequence[Written], job: str, batch: int) -> None:
        """Commit the files of a batch.

        A table that was not appended to for hours may be too far behind its own log, of which compaction keeps the
        end only: then it is opened anew, and asked whether the attempt did not succeed after all.
        """
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        with _errors(self.place):
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
        added = [AddAction(one.file, one.bytes, {}, now, True, _statistics(one.rows, batch)) for one in written]
        properties = CommitProperties(app_transactions=[Transaction(job, batch)])
        schema = self._delta.schema()
        self._delta.create_write_transaction(list(added), mode="append", schema=schema, commit_properties=properties)
        # or the next transaction of the same job is taken for a concurrent one
        self._delta.update_incremental()

    def files(self) -> list[File]:
        """Return the files of the table, those of older batches first."""
        actions = pa.table(self._delta.get_add_actions(flatten=True))
        if not actions.num_rows:
            return []
        names = ("path", "num_records", f"min.{BATCH}", f"max.{BATCH}")
        if not {*names} <= {*actions.column_names} or any(actions[name].null_count for name in names):
            raise _foreign(self.place)
        columns = [actions[name].to_pylist() for name in names]
        found = (File(self.place / path, *numbers) for path, *numbers in zip(*columns, strict=True))
        return sorted(found, key=lambda file: (file.first, file.last, file.path.name))

    def count(self, first: int, last: int) -> int:
        """Count the rows of some batches; just files that also hold others are looked into."""
        rows = 0
        for file in self.files():
            if first <= file.first and file.last <= last:
                rows += file.rows
            elif file.first <= last and first <= file.last:
                with readable(file.path):
                    batches = pq.read_table(file.path, columns=[BATCH], partitioning=None)[BATCH]
                inside = pc.and_(pc.greater_equal(batches, first), pc.less_equal(batches, last))
                rows += int(pc.sum(inside).as_py() or 0)
        return rows

    def check(self, job: str, rows: int, newest: int, last: int) -> None:
        """Refuse a table that is not what the journal says of it.

        The journal ends with batch ``last`` and says that this table has got ``rows`` until ``newest``. A crash may
        have left one batch more than that, and nothing else may differ.
        """
        mine = self.last_batch(job)
        if mine < newest:
            raise BadInput(
                f"{self.place}: ends with batch {mine}, the journal says {newest}; commits are missing.", hint=RESCUE
            )
        if mine > last + 1:
            raise BadInput(
                f"{self.place}: has batch {mine}, the journal ends with {last}; lines are missing there.", hint=RESCUE
            )
        if lost := [file.path for file in self.files() if not file.path.is_file()]:
            raise BadInput(f"{lost[0]}: not there, the log of its table names it.", hint=RESCUE)
        found = self.count(0, last)
        if found != rows or any(file.last > last + 1 or file.first < 0 for file in self.files()):
            raise BadInput(
                f"{self.place}: holds {found:,} rows of committed batches, the journal says {rows:,}. "
                "Something else has changed this table.",
                hint=RESCUE,
            )


def _statistics(rows: int, batch: int) -> str:
    """What Delta Lake calls statistics: enough to skip files by batch."""
    values = {BATCH: batch}
    return json.dumps({"numRecords": rows, "minValues": values, "maxValues": values, "nullCount": {BATCH: 0}})


def _plain(schema: pa.Schema) -> pa.Schema:
    """A schema without the names and metadata that the way through Delta Lake adds."""
    return pa.schema([pa.field(one.name, _plain_type(one.type)) for one in schema])


def _plain_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_list(type_):
        return pa.list_(_plain_type(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(one.name, _plain_type(one.type)) for one in type_])
    return type_


def _foreign(place: Path) -> BadInput:
    return BadInput(f"{place}: has rows without a batch. Something else has written to this table.", hint=RESCUE)


@contextmanager
def readable(file: Path) -> Iterator[None]:
    """Say which file of a table cannot be read."""
    try:
        yield
    except FileNotFoundError as error:
        raise Unavailable(
            f"{file}: not there. It was listed an hour ago or more, or somebody deleted it.", hint="Read again."
        ) from error
    except (OSError, pa.ArrowException) as error:
        raise BadInput(f"{file}: damaged ({str(error).splitlines()[0][:200]}).", hint=RESCUE) from error


@contextmanager
def _errors(place: Path) -> Iterator[None]:
    from deltalake.exceptions import DeltaError

    try:
        yield
    except DeltaError as error:
        raise BadInput(f"{place}: {str(error).splitlines()[0][:300]}", hint=RESCUE) from error
    except OSError as error:
        text = error.strerror or str(error).splitlines()[0][:300]
        raise Unavailable(f"{place}: {text}.", hint="Nothing was lost; start the job again.") from error
