"""Jobs: the streams to write, the folder to write them to, and a handle on the running job."""

from __future__ import annotations

import atexit
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slipstream._api import html, notebook
from slipstream._api.streaming.reports import has_reports, place_columns
from slipstream._api.streaming.results import JobStatus, Results, read_status
from slipstream._api.streaming.streams import Duration, Stream, Tolled, assemble, origins, tables
from slipstream._errors import BadArgument, BadInput, SlipstreamError
from slipstream._feeds.tuples import POSITION, REPORT_EVERY
from slipstream._io.outputs import REJECTS, check_journal
from slipstream._io.outputs.destinations import Destination, parse
from slipstream._io.sampling import describe_empty_columns
from slipstream._moving.exchange.trip_files import PLACES
from slipstream._network import drawing, yaml_files
from slipstream._network.algebra import Network
from slipstream._network.boxes.archive import Archive
from slipstream._network.running.driving import drive
from slipstream._network.running.run_folder import ALL, FILE, Execution
from slipstream._network.schemas import check
from slipstream._spark import session, workers
from slipstream._spark.shipping import ship
from slipstream._tools import durations
from slipstream._tools.files.locations import text_of, to_path
from slipstream._tools.files.remote_paths import remove_tree
from slipstream._tools.progress import silent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from slipstream._io.named_feeds import Feed

#: in the folder of a job: static DataFrames that it reads
GIVEN = "given"
#: a silence that ends a trip, in seconds, unless the caller says otherwise
_GAP = 300
#: the hint when a job failed
_RESUMES = "Committed output is safe: starting the same job again resumes it."
#: settings of brokers that must not be written down
Settings = Mapping[str, str]


@dataclass(frozen=True)
class Job:
    """What to run and where: streams become outputs in a folder. ``start`` runs it.

    A job is a value: every method returns a new one. Starting a job in a folder where it was stopped or interrupted
    resumes it: every tuple is processed exactly once.

    >>> import slipstream as ss
    >>> cars = ss.read("kafka://broker:9092/positions")
    >>> job = ss.Job("out").write(cars.filter("speed < 20"), name="slow").write(cars.toll())
    >>> job.outputs
    ['slow', 'notifications', 'alerts', 'balances', 'expenditures', 'travel_times', 'toll_rejects']
    """

    folder: str | Path  # a path, or file:///PATH, s3://BUCKET/PATH, hdfs://HOST:PORT/PATH
    _outputs: Mapping[str, Stream] = field(default_factory=dict, repr=False)
    _to: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    _own: Mapping[str, tuple[Destination, ...]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.folder, str):
            object.__setattr__(self, "folder", text_of(self.folder))

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return list(self._outputs)

    @property
    def network(self) -> Network:
        """The network of boxes that the job runs, as data; a notebook draws it.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/positions")
        >>> [node.name for node in ss.Job("out").write(cars.filter("speed < 20"), name="slow").network.nodes]
        ['filter_1']
        """
        if not self._outputs:
            raise BadArgument(
                "the job writes nothing.", hint='Add a stream: .write(stream, name="slow").', code="missing-value"
            )
        name = "".join(c if c.isalnum() else "_" for c in Path(self.folder).name)
        network = assemble(name if name.isidentifier() else "job", self._outputs, self._to)[0]
        check(network, None)
        return network

    def write(
        self,
        stream: Stream | Tolled,
        name: str = "",
        *,
        to: str | Destination | Sequence[str | Destination] = (),
    ) -> Job:
        """Write a stream to the output ``name``, a Delta Lake table, or all outputs of tolling.

        ``to`` adds destinations: ``kafka://HOST:PORT/TOPIC``, ``text:FILE``, ``console``, or a
        :class:`slipstream.Destination` of your own. They get every tuple exactly once (the console at most once).

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/positions")
        >>> ss.Job("out").write(cars.filter("speed < 20"), name="slow", to="console").outputs
        ['slow']
        """
        if isinstance(stream, Tolled):
            if name or to:
                raise BadArgument(
                    "write: tolling has several outputs, which have names.",
                    hint='Write one of them: .write(tolled.alerts, name="alerts", to="console").',
                    code="missing-value",
                )
            job = self
            for output, one in stream.streams():
                job = job.write(one, output)
            return job
        if not name:
            raise BadArgument(
                "write: the output has no name.", hint='Give one: .write(stream, name="slow").', code="missing-value"
            )
        self._check_name(name)
        wheres = [to] if isinstance(to, str | Destination) else list(to)
        for where in wheres:
            if isinstance(where, Destination):
                ship(type(where))
        texts = tuple(parse(where) for where in wheres if isinstance(where, str))
        own = tuple(where for where in wheres if isinstance(where, Destination))
        return replace(
            self,
            _outputs={**self._outputs, name: stream},
            _to={**self._to, name: texts} if texts else self._to,
            _own={**self._own, name: own} if own else self._own,
        )

    def _check_name(self, name: str) -> None:
        if not name.isidentifier():
            raise BadArgument(
                f"write: {name!r} cannot be the name of an output.",
                hint="Use letters, digits and _.",
                code="bad-name",
                found=name,
            )
        if name == REJECTS:
            raise BadArgument(
                f"write: {name!r} is the output of lines that are not tuples.",
                hint="Choose another name.",
                code="bad-name",
                found=name,
            )
        if name in self._outputs:
            raise BadArgument(
                f"write: the job has an output {name!r} already.",
                hint="Choose another name.",
                code="duplicate-name",
                found=name,
            )

    def archive(
        self,
        stream: Stream,
        *,
        id: str = "",
        time: str = "time",
        x: str = "",
        y: str = "",
        gap: Duration | None = None,
        lateness: Duration | None = None,
        name: str = "trips",
    ) -> Job:
        """Archive a stream of positions as trips, which are written to the output ``name`` when they are over.

        A silence longer than ``gap`` ends a trip (by default 5 minutes). Of position reports,
        the trips are those of Linear Road, which end with a silence of 30 seconds, a change of direction, or the exit.
        Tuples of one vehicle must be in order; tuples of several may be out of order by ``lateness`` (by default,
        ``gap``).
        Tuples that are in no trip leave as ``NAME_rejects``. The columns are found by their names unless they are
        given: ``id``; ``x`` and ``y``, or longitude and latitude; or those of position reports, whose places lie in
        the plane of Linear City.

        >>> import slipstream as ss
        >>> gps = ss.read("kafka://b:9092/gps", {"vin": "string", "time": "double", "lon": "double", "lat": "double"})
        >>> ss.Job("out").archive(gps, id="vin").outputs
        ['trips', 'trips_rejects']
        """
        points, box = _make_archive(stream, id, time, x, y, gap, lateness)
        trips = points.through(box, name=f"archive_{name}")
        return self.write(trips, name).write(trips.output("rejects"), f"{name}_rejects")

    def start(
        self, spark: SparkSession | None = None, *, kafka: Settings | None = None, parallel: int | None = None
    ) -> RunningJob:
        """Start the job, or resume it, and return a handle on it at once.

        It runs in ``spark``, in the session that is active, or in a new local one. No setting of a session that you
        started is changed. ``kafka`` holds settings for librdkafka, such as TLS and SASL; they are never stored.
        ``parallel`` is the number of partitions, which stays the same when the job is resumed.
        """
        network, settings = self.network, dict(kafka or {})
        execution = self._find_resumed(network, settings)
        if execution and execution.has_finished():
            return RunningJob(execution, None)
        with silent():
            mine = self._open_session(session.adopt(spark))
        known = check(network, mine)  # now, so that a mistake is raised here and not in the background
        frames = self._open_tables(mine)
        execution = execution or self._lay_out(network, settings, parallel)
        execution.own, execution.kafka, execution.known = self._own, tuple(settings.items()), known
        return RunningJob(execution, mine, frames)

    def _open_tables(self, spark: SparkSession) -> dict[str, DataFrame]:
        """The tables that streams are joined with."""
        rows = {name: table.rows() for name, table in tables(self._outputs.values()).items()}
        return {name: spark.createDataFrame(one) if isinstance(one, pa.Table) else one for name, one in rows.items()}

    def run(self, spark: SparkSession | None = None, *, timeout: float | None = None) -> Results:
        """Run the job to the end of its input and return its results: ``start``, ``wait`` and ``open`` in one."""
        return self.start(spark).wait(timeout).results()

    def _open_session(self, spark: SparkSession) -> SparkSession:
        """A session of the job's own, so that the user's keeps its settings; but a DataFrame is read by its own."""
        workers.use_this_python()
        for origin in origins(self._outputs.values()).values():
            if origin.needs_session_of is not None:
                found: SparkSession = origin.needs_session_of.sparkSession
                return found
        return spark.newSession()

    def _find_resumed(self, network: Network, settings: Settings) -> Execution | None:
        """Return the job that has begun in the folder, if it is the same one."""
        folder = to_path(self.folder).absolute()
        if not (folder / FILE).is_file():
            return None
        before = (folder / FILE).read_text(encoding="utf-8")
        if before != yaml_files.dumps(network):
            raise BadArgument(
                f"{folder}: contains another job.",
                hint="Start the same streams and outputs there, or use another folder.",
                code="different-job",
            )
        made = Execution.of(folder, network)
        check_journal(folder)
        found = {n: o.feed(folder / GIVEN, settings) for n, o in origins(self._outputs.values()).items()}
        begun = {name: feed.where for name, feed in made.feeds.items()}
        for name, feed in found.items():
            if begun.get(name) != feed.where:
                raise BadArgument(
                    f"{folder}: began with {begun.get(name)}, not {feed.where}.",
                    hint="Use another folder.",
                    code="different-job",
                )
        made.feeds = found
        return made

    def _lay_out(self, network: Network, settings: Settings, parallel: int | None) -> Execution:
        folder = to_path(self.folder).absolute()
        found = origins(self._outputs.values())
        ready = {name: o.feed(folder / GIVEN, settings) for name, o in found.items() if not o.is_copied}
        for feed in ready.values():
            if warning := describe_empty_columns(feed):
                warnings.warn(warning, stacklevel=4)

        def feeds() -> dict[str, Feed]:
            return {name: ready.get(name) or origin.feed(folder / GIVEN, settings) for name, origin in found.items()}

        was_there = folder.exists()
        try:
            return Execution.on_feeds(folder, network, feeds, parallel=parallel or 1, to=self._to)
        except BaseException:
            if not was_there:
                remove_tree(folder)
            raise

    def _repr_html_(self) -> str:
        return drawing.draw(self.network)


def _make_archive(
    stream: Stream, id: str, time: str, x: str, y: str, gap: Duration | None, lateness: Duration | None
) -> tuple[Stream, Archive]:
    """The points of a stream, and the box that makes trips of them."""
    columns = stream.columns
    pair = (x, y) if x and y else next((pair for pair in PLACES if set(pair) <= set(columns)), None)
    late = None if lateness is None else durations.seconds(lateness, "lateness")
    if pair is None and has_reports(stream._types):
        reports = stream.filter(f"type = {POSITION}") if "type" in columns else stream
        points = reports.select(place_columns(stream._types))
        seconds = durations.seconds(gap or REPORT_EVERY, "gap")
        return points, Archive("id", "time", "x", "y", seconds, late, "road", "direction", "lane")
    if pair is None:
        raise BadInput(
            "archive: no columns for the place.",
            hint=f"Give x= and y=, of: {', '.join(columns)}.",
            code="missing-value",
        )
    return stream, Archive(id or "id", time, *pair, durations.seconds(gap or _GAP, "gap"), late)


#: jobs that run, so that they end with the process
_running: weakref.WeakSet[RunningJob] = weakref.WeakSet()


class RunningJob:
    """A job that runs in the background or has ended. ``Job.start`` returns it.

    It is also a context manager: the job is stopped when the block ends.

    >>> import slipstream as ss
    >>> cars = ss.read("positions.csv", follow=True)
    >>> with ss.Job("live").write(cars.filter("speed < 20"), name="slow").start() as job:
    ...     status = job.wait_for(lambda status: status.tuples == 5).status()
    >>> status.outputs
    {'slow': 2}
    >>> job.status().why
    'asked to stop'
    """

    def __init__(
        self, execution: Execution, spark: SparkSession | None, tables: Mapping[str, DataFrame] | None = None
    ) -> None:
        self._execution, self._spark, self._tables = execution, spark, tables or {}
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None
        if spark is not None:
            self._thread = threading.Thread(target=self._run, args=(spark,), daemon=True, name=f"job {self.folder}")
            self._thread.start()
            _running.add(self)

    @property
    def folder(self) -> Path:
        """The job's folder."""
        return self._execution.folder

    def status(self) -> JobStatus:
        """What the job is doing and how much it has done."""
        found = read_status(self.folder)
        if self._error is not None:
            return replace(found, state="failed", why=_describe_error(self._error))
        if self._thread is not None and self._thread.is_alive() and found.state in ("new", "stopped"):
            return replace(found, state="starting", why="")
        return found

    def wait(self, timeout: float | None = None) -> RunningJob:
        """Wait until the job ends; raises the error that ended it, or ``TimeoutError`` after ``timeout`` seconds.

        A notebook shows its progress.
        """
        if self._thread is not None:
            with notebook.line() as show:
                self._join(self._thread, timeout, show)
            if self._thread.is_alive():
                raise TimeoutError(f"{self.folder}: still running after {timeout} s.")
        if self._error is not None:
            raise self._error from None  # Spark's stack trace says no more
        return self

    def _join(self, thread: threading.Thread, timeout: float | None, show: notebook.Show | None) -> None:
        """Wait for the thread, and show progress in a notebook."""
        if show is None:
            thread.join(timeout)
            return
        end = None if timeout is None else time.monotonic() + timeout
        while thread.is_alive() and (end is None or time.monotonic() < end):
            show(html.progress(self.folder, self.status()))
            thread.join(notebook.EVERY_S if end is None else max(0, min(notebook.EVERY_S, end - time.monotonic())))
        show(html.progress(self.folder, self.status()))

    def wait_for(self, condition: Callable[[JobStatus], bool], timeout: float = 60) -> RunningJob:
        """Wait until a condition on the status holds, such as ``lambda s: s.outputs.get("slow", 0) >= 10``."""
        end = time.monotonic() + timeout
        while not condition(self.status()):
            if self._thread is None or not self._thread.is_alive():
                self.wait()
                break
            if time.monotonic() > end:
                raise TimeoutError(f"{self.folder}: the condition does not hold after {timeout} s.")
            time.sleep(0.05)
        return self

    def stop(self, timeout: float | None = 120) -> RunningJob:
        """Stop after the batch under way; what is committed stays, and ``Job.start`` resumes."""
        if self._thread is not None and self._thread.is_alive():
            self._execution.stop()
        return self.wait(timeout)

    def pause(self) -> RunningJob:
        """Read nothing more until ``resume``."""
        self._execution.pause()
        return self

    def resume(self) -> RunningJob:
        """Continue to read."""
        self._execution.resume()
        return self

    def step(self, batches: int = 1) -> RunningJob:
        """Process some batches, then pause."""
        self._execution.step(batches)
        return self

    def results(self) -> Results:
        """What the job has committed so far; the same as ``slipstream.open`` of its folder."""
        return Results(self.folder)

    def __getitem__(self, output: str) -> Any:
        return self.results()[output]

    def __enter__(self) -> RunningJob:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:
            with _suppress_errors():
                self.stop()

    def __repr__(self) -> str:
        return f"<RunningJob {self.folder}: {self.status().state}>"

    def _repr_html_(self) -> str:
        return html.status(self.folder, self.status())

    def _run(self, spark: SparkSession) -> None:
        try:
            session.activate(spark)
            with silent():
                drive(spark, self._execution, self._tables, trains=ALL, again=_RESUMES)
        except BaseException as error:  # reported to whoever waits, whatever it was
            self._error = error.with_traceback(None) if isinstance(error, SlipstreamError) else error
        finally:
            _running.discard(self)


def _describe_error(error: BaseException) -> str:
    return error.message if isinstance(error, SlipstreamError) else f"{type(error).__name__}: {error}"


@contextmanager
def _suppress_errors() -> Iterator[None]:
    """The error that ends a block is the one to report, not what follows from it."""
    try:
        yield
    except Exception:
        return


@atexit.register
def _stop_all() -> None:
    """Stop jobs before Spark goes, which would end them in the middle of a batch."""
    for job in list(_running):
        with _suppress_errors():
            job.stop(30)
