"""System X: Linear Road on a database that is polled.

The paper's other contender was a commercial database with triggers and stored procedures; this one is PostgreSQL
with the queries of ``postgres.sql``. The driver copies every second into a table on time; a poller processes the
available seconds, one transaction each, and writes the answers with their commit time as Emit. So a stream engine and
a database can be compared on one machine, by one validator.

Travel time requests are not answered from history (neither implementation in the paper had that query): -1, -1.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from slipstream._bench.driving.driver import DrivePlan, DriveResult, Pace, drive
from slipstream._bench.driving.encoders import encode_text
from slipstream._bench.driving.receivers import FeedReceiver
from slipstream._errors import BadArgument, Unavailable
from slipstream._feeds.run import Run
from slipstream._feeds.tuples import MILE, SEGMENTS
from slipstream._linear_road.fast_forward import FastForward
from slipstream._linear_road.state.cars import CAR_BITS, CELLS
from slipstream._linear_road.state.past_queries import Past
from slipstream._tools.numba_tools import Longs

if TYPE_CHECKING:
    from psycopg import Connection

#: the file of the answers
OUTPUT = "output.csv"
SERVER = "postgresql://slipstream@127.0.0.1:15432/postgres"
#: how often an idle poller checks for input, in seconds
POLL_EVERY = 0.02

# The paper's field order: the vehicle first in kind 0, the result time before the request in kind 2.
ANSWERS = """
copy (
  select case kind
    when 0 then concat_ws(',', 0, id, time, {emit}, a, b)
    when 1 then concat_ws(',', 1, time, {emit}, id, a)
    when 2 then concat_ws(',', 2, time, {emit}, a, id, b)
    when 3 then concat_ws(',', 3, time, {emit}, id, a)
    else concat_ws(',', 4, time, {emit}, id, a, b)
  end
  from linear_road.output
) to stdout
"""


@dataclass(frozen=True)
class PostgresRun:
    """The result of a run on PostgreSQL."""

    output: str
    seconds: int
    tuples: int
    took: float
    longest_second: float
    driver: DriveResult
    spans: list[tuple[float, float]]  # when the database worked, in seconds since 1970


class InputTable(FeedReceiver):
    """The database's input table; a second arrives whole or not at all."""

    def __init__(self, server: str) -> None:
        self._connection = connect(server)

    def deliver(self, second: int, parts: Sequence[bytes]) -> None:
        """Insert the second and mark it as arrived."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            with cursor.copy("copy linear_road.input from stdin (format csv)") as copy:
                copy.write(b"".join(parts))
            cursor.execute("insert into linear_road.arrived values (%s)", [second])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def connect(server: str) -> Connection[Any]:
    """Connect in autocommit mode; if there is no server, report how to start it."""
    import psycopg

    try:
        return psycopg.connect(server, autocommit=True, connect_timeout=10)
    except psycopg.OperationalError as error:
        raise Unavailable(
            f"No PostgreSQL server at {server}: {str(error).splitlines()[0]}",
            hint="Start it with: scripts/postgres.sh start",
            code="server-unreachable",
        ) from error


def run_postgres(
    run: Run,
    out: Path,
    *,
    seconds: int | None = None,
    speed: float = 1.0,
    server: str = SERVER,
    forward: FastForward | None = None,
) -> PostgresRun:
    """Feed ``run`` to PostgreSQL and write its answers to ``out/output.csv``.

    With speed 0 the database takes the time it needs, and Emit has no meaning: it is the second that was answered. With
    ``forward`` it starts with the state computed there.
    """
    since = forward.until if forward else 0
    plan = replace(DrivePlan.for_run(run, speed, since, seconds), first=since)
    out.mkdir(parents=True, exist_ok=True)
    path = out / OUTPUT
    if path.exists():
        raise BadArgument(
            f"--out {out} already has an output.",
            hint="Give another name, or --overwrite to replace it.",
            code="exists",
        )
    with _report_server_errors(server), connect(server) as connection:
        connection.execute(files("slipstream._bench").joinpath("postgres.sql").read_text(encoding="utf-8"))
        load_history(connection, run)
        if forward:
            load_state(connection, forward)
        feeder = _Feeder(run, plan, server)
        with path.open("wb") as lines:
            began = time.monotonic()
            spans = poll(connection, feeder, lines)
        driven = feeder.result()
    took = round(time.monotonic() - began, 3)
    longest = max((end - start for start, end in spans), default=0.0)
    return PostgresRun(str(path), plan.end, driven.tuples, took, round(longest, 3), driven, spans)


@contextmanager
def _report_server_errors(server: str) -> Iterator[None]:
    """Report a server that stops while in use."""
    import psycopg

    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise Unavailable(
            f"Lost the connection to PostgreSQL at {server}: {str(error).splitlines()[0]}",
            hint="Restart it (scripts/postgres.sh start), and rerun with another --out folder.",
            code="server-unreachable",
        ) from error


def load_history(connection: Connection[Any], run: Run) -> None:
    """Copy TollHistory into the database, if the run has one; offline, as the benchmark requires."""
    folder = run.path / "history" / "tolls"
    options = pcsv.WriteOptions(include_header=False)
    with connection.cursor() as cursor:
        for file in sorted(folder.glob("*.parquet")) if folder.is_dir() else ():
            with cursor.copy("copy linear_road.toll_history from stdin (format csv)") as copy:
                for batch in pq.ParquetFile(file).iter_batches(columns=["vid", "day", "xway", "tolls"]):
                    pcsv.write_csv(batch, _CopyWriter(copy), options)
    strides = (run.manifest.vid_stride, run.xway_stride) if run.copies > 1 else (2**31 - 1, 2**31 - 1)
    connection.execute("insert into linear_road.copies values (%s, %s)", strides)
    connection.execute("create index on linear_road.toll_history (vid, day)")
    connection.execute("analyze linear_road.toll_history")


def load_state(connection: Connection[Any], forward: FastForward) -> None:
    """Fill the tables with the state that a fast-forward computed, as one fragment and one shard."""
    state, accounts = forward.fragment(0, 1), forward.accounts(0, 1, Past(None))
    xways = np.array(state.xways)
    cars, owed = state.cars.rows, accounts.accounts.rows
    vid, local = cars["key"] & ((1 << CAR_BITS) - 1), cars["key"] >> CAR_BITS
    names = ("vid", "time", "xway", "dir", "lane", "seg", "pos", "still", "quote")
    seg = cars["pos"] // MILE
    _fill(
        connection,
        "car",
        names,
        vid,
        cars["time"],
        xways[local],
        *(cars[n] for n in ("dir", "lane")),
        seg,
        *(cars[n] for n in ("pos", "still", "quote")),
    )
    _fill(connection, "account", ("vid", "balance"), owed["key"], owed["charged"] - owed["credits"])
    for minute, statistics in state.minutes.items():
        seen, hit = (np.flatnonzero(column) for column in (statistics.minute.cars, statistics.accident))
        count = statistics.minute.cars[seen]
        mean = statistics.minute.speeds[seen] / count
        where = ("minute", "xway", "dir", "seg")
        _fill(connection, "average", (*where, "cars", "speed"), *_list_cells(minute, seen, xways), count, mean)
        _fill(connection, "accident", where, *_list_cells(minute, hit, xways))
    connection.execute("analyze")


def _list_cells(minute: int, cells: Longs, xways: Longs) -> tuple[Any, ...]:
    return np.full(cells.size, minute), xways[cells // CELLS], cells % CELLS // SEGMENTS, cells % SEGMENTS


def _fill(connection: Connection[Any], table: str, names: tuple[str, ...], *columns: Any) -> None:
    rows = pa.table(dict(zip(names, map(np.ascontiguousarray, columns), strict=True)))
    copy_in = f"copy linear_road.{table} ({', '.join(names)}) from stdin (format csv)"
    with connection.cursor() as cursor, cursor.copy(copy_in) as copy:
        pcsv.write_csv(rows, _CopyWriter(copy), pcsv.WriteOptions(include_header=False))


class _CopyWriter:
    """Lets pyarrow write into a running COPY."""

    closed = False

    def __init__(self, copy: Any) -> None:
        self.write = copy.write

    def flush(self) -> None:
        """Do nothing: psycopg decides when to send."""


class _Feeder:
    """Runs the driver in a thread, so that a slow database does not slow it down."""

    def __init__(self, run: Run, plan: DrivePlan, server: str) -> None:
        self.pace = Pace(plan)
        self._result: DriveResult | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._feed, args=(run, plan, server), daemon=True)
        self._thread.start()

    def _feed(self, run: Run, plan: DrivePlan, server: str) -> None:
        try:
            table = InputTable(server)
            self._result = drive(run, plan, encode_text, table, self.pace)
            table.close()
        except BaseException as error:
            self._error = error

    @property
    def done(self) -> bool:
        """Whether the driver has finished."""
        return not self._thread.is_alive()

    def result(self) -> DriveResult:
        """Wait for the driver; return its result or raise its error."""
        self._thread.join()
        if self._error:
            raise self._error
        assert self._result
        return self._result


def poll(connection: Connection[Any], feeder: _Feeder, lines: IO[bytes]) -> list[tuple[float, float]]:
    """Process seconds until the driver has finished; return when each was processed."""
    spans: list[tuple[float, float]] = []
    while True:
        done = feeder.done
        arrived = connection.execute("select second from linear_road.arrived order by second").fetchall()
        if done and not arrived:
            return spans
        if not arrived:
            time.sleep(POLL_EVERY)
        for (second,) in arrived:
            began = time.time()
            connection.execute("call linear_road.process_second(%s)", [second])
            _write_answers(connection, feeder.pace.emit(second), lines)
            spans.append((began, time.time()))


def _write_answers(connection: Connection[Any], emit: float, lines: IO[bytes]) -> None:
    with connection.cursor() as cursor:
        with cursor.copy(ANSWERS.replace("{emit}", f"{emit:.3f}").replace(r"\n", "")) as answers:
            for piece in answers:
                lines.write(piece)
        cursor.execute("truncate linear_road.output")
