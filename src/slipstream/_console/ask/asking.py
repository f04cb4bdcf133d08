"""Queries of a job: SQL over its outputs by Spark, or Streamonas-SQL over its cuboids without it.

A query sees the last committed batch. It is read-only (``_sql.selecting``), its result is limited in rows, and it ends
when its time is up or its user cancels it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstream._console.errors import Conflict, NotFound
from slipstream._console.jobs.json_values import to_json_value
from slipstream._console.workspace import Workspace, is_job, pick
from slipstream._cuboid.query.one_off import parse_query, run_query
from slipstream._cuboid.snapshots.snapshot import Snapshot
from slipstream._cuboid.snapshots.snapshot_files import FOLDER as SNAPSHOT
from slipstream._errors import BadInput, SlipstreamError, Unavailable
from slipstream._io import outputs
from slipstream._moving.sql_functions import names, register
from slipstream._spark.session import translate_error
from slipstream._sql.selecting import check_select

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: limits of a result and of the queries
MOST_ROWS = 1000
MOST_VERTICES = 200_000
SECONDS = 60.0
MOST_QUERIES = 4


@dataclass(frozen=True)
class AskedTable:
    """A table that a query may read."""

    name: str
    kind: str  # output or cuboid
    columns: list[str]


@dataclass(frozen=True)
class AskedResult:
    """The rows of a result; moving points are also paths, one per row, for the map."""

    columns: list[str]
    rows: list[list[Any]]
    is_cut: bool  # whether there are more rows
    batch: int  # the last batch that the query sees
    seconds: float
    paths: list[list[list[float]]] = field(default_factory=list)  # x0, y0, x1, y1, ... of each part of each path
    path_rows: list[int] = field(default_factory=list)  # the row of each path


class Asking:
    """Runs queries, a few at a time."""

    def __init__(self, workspace: Workspace, spark: Callable[[], SparkSession]) -> None:
        self._workspace, self._spark = workspace, spark
        self._running: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._session: SparkSession | None = None

    def tables(self, job: str) -> list[AskedTable]:
        """Return the tables of a job."""
        folder = self._folder(job)
        found = []
        for name in outputs.output_names(folder):
            columns = outputs.visible_files(folder, name).schema.names
            found.append(AskedTable(name, "output", [column for column in columns if column != outputs.BATCH]))
        if (folder / SNAPSHOT).is_dir():
            for name, schema in Snapshot.open(folder, refresh=False).schemas.items():
                found.append(AskedTable(name, "cuboid", [schema.key, *schema.names]))
        return found

    def ask(self, job: str, sql: str, id_: str) -> AskedResult:
        """Run a query; ``id_`` is what it can be cancelled by."""
        folder, began = self._folder(job), time.monotonic()
        with self._admit(id_) as cancelled:
            cuboids = [one.name for one in self.tables(job) if one.kind == "cuboid"]
            if _first_table(sql) in [name.lower() for name in cuboids]:
                return _ask_cuboid(folder, sql, began)
            return self._ask_spark(folder, sql, id_, began, cancelled)

    def cancel(self, id_: str) -> None:
        """Cancel a query."""
        with self._lock:
            cancelled = self._running.get(id_)
        if cancelled is None:
            raise NotFound("No such query is running.", hint="It may have ended.")
        cancelled.set()

    def _folder(self, job: str) -> Path:
        return pick(self._workspace.find(is_job), job, "job", "Choose a job that has committed something.")

    @contextmanager
    def _admit(self, id_: str) -> Iterator[threading.Event]:
        with self._lock:
            if id_ in self._running or len(self._running) >= MOST_QUERIES:
                raise Conflict(
                    f"{len(self._running)} queries are running.",
                    hint="Wait for one of them, or cancel it.",
                    code="conflict",
                )
            cancelled = self._running[id_] = threading.Event()
        try:
            yield cancelled
        finally:
            with self._lock:
                del self._running[id_]

    @contextmanager
    def _session_for(self, cancelled: threading.Event) -> Iterator[SparkSession]:
        """Wait for the session of the queries: its tables are those of one query at a time."""
        while not self._turn.acquire(timeout=0.1):
            if cancelled.is_set():
                raise _report_cancelled()
        try:
            if self._session is None:
                session = self._spark().newSession()
                register(session)
                session.conf.set("spark.sql.session.timeZone", "UTC")
                self._session = session
            yield self._session
        finally:
            self._turn.release()

    def _ask_spark(self, folder: Path, sql: str, id_: str, began: float, cancelled: threading.Event) -> AskedResult:
        checked = check_select(sql, outputs.output_names(folder), names())
        last = outputs.last_batch(folder)
        with self._session_for(cancelled) as session:
            for name in checked.tables:
                frame = outputs.to_frame(session, folder, name).drop(outputs.BATCH)
                frame.createOrReplaceTempView(f"`{name}`")
            try:
                with _cancelling(session, f"ask-{id_}", cancelled):
                    table = session.sql(checked.sql).limit(MOST_ROWS + 1).toArrow()
            except Exception as error:
                raise _explain(error, was_cancelled=cancelled.is_set()) from error
            finally:
                for name in checked.tables:
                    session.catalog.dropTempView(name)
        return _make_result(table.schema.names, table.to_pylist(), last.batch if last else -1, began)


@contextmanager
def _cancelling(session: SparkSession, group: str, cancelled: threading.Event) -> Iterator[None]:
    """Cancel what this thread runs in Spark in this block when it is asked to, or when the time is up."""
    context, done = session.sparkContext, threading.Event()
    deadline = time.monotonic() + SECONDS

    def watch() -> None:
        while not done.wait(0.1):
            if cancelled.is_set() or time.monotonic() > deadline:
                cancelled.set()
                context.cancelJobGroup(group)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        context.setJobGroup(group, "a query from the console", interruptOnCancel=True)
        yield
    finally:
        done.set()
        watcher.join()
        # the thread serves other requests, too
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def _first_table(sql: str) -> str:
    found = re.search(r"\bfrom\s+`?(\w+)", sql, re.IGNORECASE)
    return found[1].lower() if found else ""


def _ask_cuboid(folder: Path, sql: str, began: float) -> AskedResult:
    snapshot = Snapshot.open(folder)
    parse_query(snapshot, sql)
    answer = run_query(snapshot, sql)
    columns = {name: np.asarray(column)[: MOST_ROWS + 1].tolist() for name, column in answer.items()}
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return _make_result(list(columns), rows, snapshot.batch, began)


def _report_cancelled() -> Unavailable:
    return Unavailable(
        "The query was cancelled.",
        hint=f"A query may take {SECONDS:.0f} s. Restrict it with WHERE, or use `ss.open(folder)` in a notebook.",
        code="cancelled",
    )


def _explain(error: Exception, *, was_cancelled: bool) -> Exception:
    if was_cancelled:
        return _report_cancelled()
    if isinstance(error, SlipstreamError):
        return error
    condition = getattr(error, "getCondition", lambda: None)()
    if type(error).__name__ in ("AnalysisException", "IllegalArgumentException", "ParseException"):
        return BadInput(_first_sentence(str(error)), hint="Correct the query.", code="bad-expression", found=condition)
    return translate_error(error) or error


def _first_sentence(text: str) -> str:
    """Return what Spark says, without its code and the plan."""
    line = text.strip().splitlines()[0]
    return re.sub(r"^\[[A-Z_.0-9]+\]\s*", "", line)[:400]


def _make_result(columns: list[str], rows: list[dict[str, Any]], batch: int, began: float) -> AskedResult:
    shown = rows[:MOST_ROWS]
    paths, path_rows = list[list[list[float]]](), list[int]()
    budget = MOST_VERTICES
    for number, row in enumerate(shown):
        for value in row.values():
            if (path := _find_path(value)) and budget > 0:
                budget -= sum(map(len, path)) // 2
                paths.append(path)
                path_rows.append(number)
    return AskedResult(
        columns,
        [[to_json_value(row[name]) for name in columns] for row in shown],
        len(rows) > MOST_ROWS,
        batch,
        round(time.monotonic() - began, 3),
        paths,
        path_rows,
    )


def _find_path(value: Any) -> list[list[float]]:
    """Return the parts of a moving point as x0, y0, x1, y1, ...; empty for any other value."""
    if not isinstance(value, dict) or not all(isinstance(value.get(name), list) for name in ("t", "x", "y")):
        return []
    starts = [*(value.get("starts") or [0]), len(value["x"])]
    return [
        [number for place in range(a, b) for number in (value["x"][place], value["y"][place])]
        for a, b in pairwise(starts)
        if b > a
    ]
