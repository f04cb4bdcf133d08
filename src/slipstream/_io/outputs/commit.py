"""The driver side of a commit: all tables, then whatever else belongs to the batch, then the journal."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._errors import BadArgument, BadInput
from slipstream._io.outputs import journal, leases
from slipstream._io.outputs.data_files import FOLDER, Written, discard, stored_schema
from slipstream._io.outputs.delta_tables import OutputTable
from slipstream._io.outputs.journal import JOURNAL, RESCUE, Batch, InDoubt
from slipstream._tools.files.remote_paths import RemotePath, for_arrow
from slipstream._tools.processes.failpoints import failpoint

_FILE = re.compile(r"(\d{12})-[0-9a-f]{32}\.parquet")

#: other actions of a batch's commit: gets the time of the commit, returns details for the journal
BeforeJournal = Callable[[int], Mapping[str, Any]]


class Outputs:
    """The outputs of a job, on its driver.

    ``schemas`` declares outputs, without the column ``batch``. They get a table at the start, so that readers find it;
    any other output gets one with its first rows.
    """

    def __init__(self, folder: Path, job: str, schemas: Mapping[str, pa.Schema] | None = None) -> None:
        self.folder, self._job = folder, job
        folder.mkdir(parents=True, exist_ok=True)
        batches = journal.read_journal(folder)
        self.last: Batch | None = batches[-1] if batches else None
        self._tables = _open_tables(folder)
        _check(folder, job, batches, self._tables)
        self._sweep()
        for name, schema in (schemas or {}).items():
            self._declare(name, schema)

    @property
    def last_batch(self) -> int:
        """The last committed batch; -1 before the first."""
        return self.last.batch if self.last else -1

    @property
    def in_doubt(self) -> InDoubt | None:
        """The batch that a crash interrupted after its first table was committed, if there is one."""
        batch = self.last_batch + 1
        return InDoubt(batch, self.last.committed_ms if self.last else 0) if self._find_tables_with(batch) else None

    def commit(
        self,
        batch: int,
        written: Iterable[Written],
        *,
        tuples: int = 0,
        rejects: int = 0,
        detail: Mapping[str, Any] | None = None,
        before_journal: BeforeJournal | None = None,
    ) -> bool:
        """Commit a batch; returns False, and deletes its files, if it is already committed.

        ``before_journal`` is called when all tables have the batch. It must replace what an earlier attempt at the same
        batch left behind.
        """
        parts = [one for one in written if one.file]
        if batch <= self.last_batch:
            discard(self.folder, parts)
            return False
        if batch > self.last_batch + 1:
            raise BadInput(
                f"{self.folder / JOURNAL}: ends with batch {self.last_batch}, but batch {batch} follows.",
                hint=RESCUE,
                code="damaged-output",
            )
        failpoint("outputs.before-commit")
        if isinstance(self.folder, RemotePath):
            leases.verify(self.folder / leases.LOCK)
        rows = self._append(parts, batch)
        failpoint("outputs.after-tables")
        committed_ms = time.time_ns() // 1_000_000
        more = before_journal(committed_ms) if before_journal else {}
        failpoint("outputs.before-journal")
        line = Batch(batch, committed_ms, rows, rejects, tuples, {**(detail or {}), **more})
        journal.append(self.folder, line)
        self.last = line
        failpoint("outputs.after-journal")
        return True

    def _append(self, parts: list[Written], batch: int) -> dict[str, int]:
        """Add files to the tables; returns the number of rows that each has of the batch."""
        by_output: dict[str, list[Written]] = {name: [] for name in self._find_tables_with(batch)}
        for one in parts:
            by_output.setdefault(one.output, []).append(one)
        rows = {}
        for number, (name, mine) in enumerate(by_output.items()):
            if number:
                failpoint("outputs.between-tables")
            rows[name] = self._append_to(name, mine, batch)
        return rows

    def _find_tables_with(self, batch: int) -> list[str]:
        """The tables that already have the batch."""
        return [name for name, table in self._tables.items() if table.last_batch(self._job) >= batch]

    def _append_to(self, name: str, parts: list[Written], batch: int) -> int:
        table = self._tables.get(name) or self._create(name, parts[0])
        if table.last_batch(self._job) >= batch:
            discard(self.folder, parts)
            return table.count(batch, batch)
        table.append(parts, self._job, batch)
        return sum(one.rows for one in parts)

    def _create(self, name: str, first: Written) -> OutputTable:
        file = self.folder / FOLDER / name / first.file
        schema = pq.read_schema(for_arrow(file)).remove_metadata()
        self._tables[name] = OutputTable.create(file.parent, pa.schema(list(schema)[1:]))
        return self._tables[name]

    def _declare(self, name: str, schema: pa.Schema) -> None:
        wanted = stored_schema(schema)
        table = self._tables.get(name)
        if table is None:
            self._tables[name] = OutputTable.create(self.folder / FOLDER / name, schema)
        elif not table.schema.equals(wanted):
            raise BadArgument(
                f"{table.place}: has the columns {_describe(table.schema)}, not {_describe(wanted)}.",
                hint="Resume the job that started there, or give another --out folder.",
                code="different-job",
            )

    def _sweep(self) -> None:
        """Delete files that tasks wrote for batches that were never committed."""
        for place in _list_places(self.folder):
            table = self._tables.get(place.name)
            known = {file.path.name for file in table.files()} if table else set()
            for file in place.glob("*.parquet"):
                found = _FILE.fullmatch(file.name)
                if found and int(found[1]) > self.last_batch and file.name not in known:
                    file.unlink(missing_ok=True)


def check_tables(folder: Path, job: str) -> None:
    """Refuse a job whose tables differ from its journal; reads only."""
    _check(folder, job, journal.read_journal(folder), _open_tables(folder))


def _list_places(folder: Path) -> list[Path]:
    return sorted(place for place in (folder / FOLDER).glob("*") if place.is_dir())


def _open_tables(folder: Path) -> dict[str, OutputTable]:
    return {place.name: table for place in _list_places(folder) if (table := OutputTable.open(place))}


def _check(folder: Path, job: str, batches: list[Batch], tables: Mapping[str, OutputTable]) -> None:
    """Refuse tables that differ from the journal."""
    rows, newest = Counter[str](), dict[str, int]()
    for line in batches:
        rows.update(line.outputs)
        newest.update({name: line.batch for name, number in line.outputs.items() if number})
    if lost := sorted(newest.keys() - tables.keys()):
        raise BadInput(
            f"{folder / FOLDER / lost[0]}: no table, but the journal lists it.", hint=RESCUE, code="damaged-output"
        )
    for name, table in tables.items():
        table.check(job, rows[name], newest.get(name, -1), batches[-1].batch if batches else -1)


def _describe(schema: pa.Schema) -> str:
    return ", ".join(f"{one.name} {one.type}" for one in schema)
