"""The one place that builds a Spark session.

Local by default; ``--master`` and ``--conf`` take the same jobs to a cluster unchanged. Spark's own messages are kept
off the terminal, workers use this environment's Python, and streaming state lives in RocksDB with changelog
checkpoints.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from slipstream._errors import BadArgument, BadInput, SlipstreamError, Unavailable, classify, read_carried
from slipstream._spark import class_archive, workers
from slipstream._tools.files import aws_settings, temporary
from slipstream._tools.files.locations import in_use
from slipstream._tools.processes import child_processes
from slipstream._tools.progress import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = ParamSpec("P")
T = TypeVar("T")

LOCAL = "local[*]"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
#: JVM options for heavy work, and for small batches and short commands, where Java's second compiler and more threads
#: cost more than they gain.
THOROUGH, QUICK = "-XX:+UseParallelGC", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

LOCAL_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

#: Hadoop's client of S3; it brings the SDK of AWS
S3A = "org.apache.hadoop:hadoop-aws"

#: the time zone in which instants without one are read and written as text
UTC = {"spark.sql.session.timeZone": "UTC"}
#: what a stateful stream needs; with format 2 a batch that is repeated after a crash reads the state that the last
#: committed batch left, and never a snapshot that the crashed attempt uploaded
STATE = {
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def settings(master: str = LOCAL, *, quick: bool = False) -> dict[str, str]:
    """The settings every session starts from; ``--conf`` overrides any of them.

    ``quick`` is for short commands and many small batches.
    """
    quiet = files("slipstream").joinpath("log4j2.properties")
    common = {
        **UTC,
        **STATE,
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # long histories reach a kernel in batches of bounded size
        "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        # how soon an idle query reports its progress
        "spark.sql.streaming.noDataProgressEventInterval": "1000",
        "spark.sql.adaptive.enabled": "true",
        # by default a hundred, fewer than a program with a dozen queries has: all would be compiled again each time
        "spark.sql.codegen.cache.maxEntries": "1000",
        # every table of a broadcast join, however small, takes a page: of a heap of 3 GB, Spark would give each 64 MB,
        # and the JVM would collect them all the time
        "spark.buffer.pageSize": "4m",
        JAVA_OPTIONS: f"-Dlog4j2.configurationFile=file:{quiet} {QUICK if quick else THOROUGH} "
        "-XX:+PerfDisableSharedMem",  # otherwise a killed JVM leaves a file with its counters
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
        # larger functions would be sent as broadcast variables, which the worker on the driver's side of a stateful
        # stage cannot read
        "spark.broadcast.UDFCompressionThreshold": str(1 << 30),
    }
    if master.startswith("local"):
        common |= {
            "spark.driver.memory": os.environ.get("SLIPSTREAM_DRIVER_MEMORY") or f"{_choose_driver_gigabytes()}g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # the default starts several processes (chmod, readlink) for every file of a checkpoint
            "spark.sql.streaming.checkpointFileManagerClass": LOCAL_CHECKPOINTS,
            "spark.python.daemon.module": "slipstream._spark.workers",
        }
    return common


def _with_private_folder(conf: dict[str, str], master: str) -> dict[str, str]:
    """Put all temporary files of the driver's JVM into this process's folder, unless ``conf`` names another."""
    private = temporary.folder()
    if master.startswith("local"):
        conf = _connect_workers(private) | conf
    options = conf.get(JAVA_OPTIONS, "")
    if "-Djava.io.tmpdir=" not in options:
        options = f'{options} "-Djava.io.tmpdir={private}"'.strip()
    # otherwise Spark creates a warehouse folder in the current directory
    return {"spark.sql.warehouse.dir": str(private / "warehouse")} | conf | {JAVA_OPTIONS: options}


#: the longest path of a Unix socket on any system, and the length of the name that Spark gives it, in bytes
_SOCKET_PATH, _SOCKET_NAME = 103, 43


def _connect_workers(folder: Path) -> dict[str, str]:
    """Connect the JVM to its Python workers through Unix sockets in a folder, if its path is short enough.

    Over TCP, a small message may wait 40 ms for the acknowledgement of the previous one: 80 ms per batch.
    """
    if len(os.fsencode(folder)) + _SOCKET_NAME > _SOCKET_PATH:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(folder)}


def _with_archived_classes(conf: dict[str, str]) -> dict[str, str]:
    """Make the driver's JVM map Spark's classes from the archive, if `slipstream prepare` has written one.

    Options that already configure class sharing are left alone.
    """
    options = conf.get(JAVA_OPTIONS, "")
    if "-Xshare:" in options:
        return conf
    return conf | {JAVA_OPTIONS: f"{options} {class_archive.use_archive(java())}".strip()}


def _choose_driver_gigabytes() -> int:
    """A sixth of the machine for the JVM, 2 to 4 GB: most of the work, and of the state, is in Python workers."""
    return max(2, min(4, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (6 << 30)))


def parse_conf(pairs: Iterable[str]) -> dict[str, str]:
    """Read ``key=value`` options.

    >>> parse_conf(["spark.driver.memory=4g"])
    {'spark.driver.memory': '4g'}
    """
    conf = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key.startswith("spark."):
            raise BadArgument(
                f"--conf {pair}: not a Spark setting.",
                hint="Write --conf spark.some.key=value, once per setting.",
                code="malformed-value",
                found=pair,
            )
        conf[key] = value
    return conf


def java() -> Path:
    """The ``java`` that Spark will start."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if not found:
        raise Unavailable(
            "Spark needs Java 17 or newer, but there is no `java`"
            + (f" in JAVA_HOME={home}." if home else " on PATH."),
            hint="On Debian and Ubuntu: apt-get install openjdk-17-jre-headless. Then run `slipstream doctor`.",
            code="missing-software",
        )
    return Path(found)


def build(
    name: str = "slipstream", *, master: str = LOCAL, conf: dict[str, str] | None = None, quick: bool = False
) -> SparkSession:
    """Start the Spark session of this process, or return the one that is running.

    A session that somebody else started is used as it is: only ``conf`` is set in it.
    """
    from pyspark.sql import SparkSession

    asked: dict[str, Any] = {**(conf or {})}
    if is_running():
        started = SparkSession.builder.config(map=asked).getOrCreate()
        workers.use_this_python()
    else:
        say("Starting Spark ...")
        conf = _with_archived_classes(settings(master, quick=quick) | _settings_of_stores(asked) | asked)
        ours: dict[str, Any] = {**_with_private_folder(conf, master)}
        started = _start(SparkSession.builder.appName(name).master(master).config(map=ours), master)
    _silence_query_contexts()
    return started


def _settings_of_stores(asked: Mapping[str, str]) -> dict[str, str]:
    """What Spark needs to keep a checkpoint in the stores that this process uses; Hadoop's client of S3 is fetched."""
    if not in_use:
        return {}
    # S3 has no file contexts with an atomic rename: a file is copied to its name, which readers see at once
    conf = {"spark.sql.streaming.checkpointFileManagerClass": LOCAL_CHECKPOINTS}
    if "s3" in in_use:
        conf |= aws_settings.spark_settings()
        if not any("hadoop-aws" in value for value in asked.values()):
            conf["spark.jars.packages"] = _join(asked.get("spark.jars.packages", ""), f"{S3A}:{_find_hadoop()}")
    return conf


def _join(some: str, more: str) -> str:
    return f"{some},{more}" if some else more


def _find_hadoop() -> str:
    """The version of Hadoop that this PySpark contains: its other modules must be of the same one."""
    import pyspark

    jars = sorted(Path(pyspark.__file__).parent.joinpath("jars").glob("hadoop-client-api-*.jar"))
    return jars[0].stem.removeprefix("hadoop-client-api-") if jars else "3.5.0"


def adopt(spark: SparkSession | None) -> SparkSession:
    """Return a session that the user passed, or build one; no setting of a session that exists changes."""
    if spark is None:
        return build()
    if not hasattr(spark, "_jsparkSession"):
        raise BadArgument(
            "A session of Spark Connect cannot run this: it has no JVM of its own, and no Python workers that share "
            "files and state with the driver.",
            hint="Use a classic session: SparkSession.builder.master(...), or none at all.",
            code="not-allowed",
        )
    _silence_query_contexts()
    return spark


def _silence_query_contexts() -> None:
    """Keep PySpark from printing the JVM's stack trace as JSON before it raises an analysis error."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def is_running() -> bool:
    """Whether this process has a Spark session, whoever started it."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None


def _start(builder: Any, master: str) -> SparkSession:
    """Start a session whose JVM and workers write to the log."""
    if master.startswith("local"):
        java()
    from pyspark.errors import PySparkException

    private = temporary.folder()
    try:
        with (
            _set_worker_python(private, master),
            _redirect_stderr(spark_log()),
            _use_tempdir(private),
            child_processes.adopting(),
        ):
            started: SparkSession = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise Unavailable(
            f"Spark did not start with --master {master}: {error}",
            hint="`slipstream doctor` checks Java and memory; leave out --master to run on this machine. "
            f"{_read_last_log_line(spark_log())}",
            code="spark-not-started",
        ) from error
    # PySpark's accumulator server prints a traceback when the JVM disconnects first
    server: Any = started.sparkContext._accumulatorServer
    server.handle_error = lambda *_: None
    return started


@contextmanager
def _set_worker_python(folder: Path, master: str) -> Iterator[None]:
    """Set the workers' Python for a session that starts in this block, unless ``PYSPARK_PYTHON`` is set.

    ``folder`` is removed with this process, so the environment, which children inherit, names it only in this block.
    """
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if os.environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = workers.make_python_command(folder) if master.startswith("local") else sys.executable
    try:
        yield
    finally:
        os.environ["PYSPARK_PYTHON"] = sys.executable


@contextmanager
def with_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Apply settings while the block runs, then restore the session.

    The session may be somebody else's, so the settings a query needs are set this way. Spark reads them when a query is
    analysed and when it is run or, for a stream, started.
    """
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, former in before.items():
            if former is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, former)


@contextmanager
def stateful_settings(spark: SparkSession, partitions: int | None = None) -> Iterator[None]:
    """Apply the settings a stateful stream needs while it is started, with its number of ``partitions`` if given."""
    with with_settings(spark, STATE | ({"spark.sql.shuffle.partitions": str(partitions)} if partitions else {})):
        yield


def in_utc(work: Callable[Concatenate[SparkSession, P], T]) -> Callable[Concatenate[SparkSession, P], T]:
    """Make a function read and write instants as text in UTC, whatever the session's time zone is."""

    @wraps(work)
    def working(spark: SparkSession, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with with_settings(spark, UTC):
            return work(spark, *args, **kwargs)

    return working


def activate(spark: SparkSession) -> None:
    """Make queries that this thread starts find the session's sinks; Spark does this for the first thread only."""
    session: Any = spark
    session._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)


def close() -> None:
    """Stop the session of this process, if it has one, before its JVM exits; running queries would log errors."""
    if "pyspark.sql" not in sys.modules:
        return
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    try:
        if active := SparkSession.getActiveSession():
            active.stop()
    except (Py4JError, OSError):
        # the JVM is already gone
        return


def spark_log() -> Path:
    """The log of Spark and its workers; what a user must know is raised as an error."""
    return temporary.folder() / "spark.log"


def keep_log() -> Path | None:
    """Keep Spark's log for a day after this process has ended; returns None if it is empty."""
    return temporary.keep_log(spark_log()) if "pyspark.sql" in sys.modules else None


def _read_last_log_line(log: Path) -> str:
    """The last line that Spark logged."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return f"Spark's last message: {lines[-1]}" if lines else ""


@contextmanager
def _redirect_stderr(log: Path) -> Iterator[None]:
    """Make ``log`` the standard error of the JVM that starts in this block and of its Python workers."""
    sys.stderr.flush()
    ours = os.dup(2)
    log.touch(mode=0o600)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


@contextmanager
def _use_tempdir(folder: Path) -> Iterator[None]:
    """Make ``tempfile`` use ``folder`` in this block: PySpark receives its JVM's secret through a temporary file."""
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


#: the hint when a job failed that leaves nothing behind
NOTHING_KEPT = "Nothing was kept. `slipstream doctor` checks memory and disk."
#: the hint when a job failed that resumes from its checkpoint
RESUMES = (
    "Committed output is safe, and the same command resumes from there. `slipstream doctor` checks memory and disk."
)
#: the code of an error whose cause is not a known one
TASK_FAILED = "task-failed"

#: how Spark reports checkpoint files that are truncated or damaged
_DAMAGED = re.compile(
    r"ChecksumException|Incomplete log file|malformed|EOFException|MalformedInput|JsonParse|MappingException|"
    r"CANNOT_LOAD_STATE|checksum|corrupt|STATE_STORE_\w*(MISSING|INVALID|UNEXPECTED)|Error reading (delta|snapshot)|"
    r"END_OF_STREAM|Invalid .* log|does not exist\.? *\n.*checkpoint",
    re.IGNORECASE,
)


@contextmanager
def task_errors(hint: str = NOTHING_KEPT, checkpoint: Path | None = None) -> Iterator[None]:
    """Translate what a failed Spark job raises into a SlipstreamError.

    ``hint`` is the next step; a query that has a ``checkpoint`` may find it damaged.
    """
    try:
        yield
    except Exception as error:
        if (translated := translate_error(error, hint, checkpoint)) is None:
            raise
        # a page of Java's stack would hide the message; Spark's log has it, and what is not understood keeps it
        raise translated from (error if translated.code == TASK_FAILED else None)


def translate_error(
    error: Exception, hint: str = NOTHING_KEPT, checkpoint: Path | None = None
) -> SlipstreamError | None:
    """Translate what Spark raised: an error of ours, a full disk, or its cause; None if Spark did not raise it."""
    if "pyspark.sql" not in sys.modules:
        return None
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if isinstance(error, PySparkException | Py4JError):
        return _translate_text(_read_message(error), hint, checkpoint)
    if isinstance(error, ConnectionError):
        return Unavailable("Spark's JVM has stopped.", hint=hint, code="jvm-lost")
    if isinstance(error, OSError) and checkpoint is not None:
        return Unavailable(
            f"{error.filename or checkpoint}: {error.strerror or error}.", hint=hint, code=classify(error)
        )
    return None


def _read_message(error: Exception) -> str:
    """Return the text of an error; Py4J fetches it from the JVM, which may have ended."""
    try:
        return str(error)
    except Exception:  # whatever Py4J raises then
        return "Py4JNetworkError"


#: what Spark writes, what it means, what to do, and the code
_KNOWN = (
    (
        "OutOfMemoryError",
        "Spark's JVM has run out of memory.",
        "{hint} SLIPSTREAM_DRIVER_MEMORY=4g, for example, gives it more.",
        "out-of-memory",
    ),
    (
        "No module named 'slipstream'",
        "Spark's Python workers cannot import slipstream.",
        "Set PYSPARK_PYTHON={python} before the session starts, or install Slipstream there.",
        "workers-differ",
    ),
    (
        "BROADCAST_VARIABLE_NOT_LOADED",
        "A function of yours, with the variables of its module, is larger than this session sends to stateful stages.",
        "Start the session with spark.broadcast.UDFCompressionThreshold=1g, or keep the data in a stored table.",
        "function-too-large",
    ),
    ("No space left on device", "The disk is full.", "{hint}", "disk-full"),
    ("Read-only file system", "The disk is read-only.", "{hint}", "disk-read-only"),
    ("Permission denied", "A folder is not writable.", "{hint}", "permission-denied"),
    ("Py4JNetworkError", "Spark's JVM has stopped.", "{hint}", "jvm-lost"),
    ("Answer from Java side is empty", "Spark's JVM has stopped.", "{hint}", "jvm-lost"),
    ("does not exist in the JVM", "Spark's JVM has stopped.", "{hint}", "jvm-lost"),
    ("stopped SparkContext", "Spark has stopped.", "{hint}", "jvm-lost"),
    ("SparkContext was shut down", "Spark has stopped.", "{hint}", "jvm-lost"),
    ('SparkContext.dagScheduler()" is null', "Spark has stopped.", "{hint}", "jvm-lost"),
)


def _translate_text(text: str, hint: str, checkpoint: Path | None) -> SlipstreamError:
    if ours := read_carried(text):
        ours.hint = ours.hint or hint
        return ours
    for known, message, advice, code in _KNOWN:
        if known in text:
            return Unavailable(message, hint=advice.format(hint=hint, python=sys.executable), code=code)
    if checkpoint is not None and (found := _DAMAGED.search(text)):
        line = next((line for line in text.splitlines() if found.group(0).splitlines()[0] in line), "")
        return BadInput(
            f"{checkpoint}: damaged ({line.strip()[:300]}).",
            hint="Restore its files from a backup, or start again in another --out folder.",
            code="damaged-checkpoint",
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = re.compile(r"(?:Caused by: |: )?([\w.]+(?:Error|Exception): .*)")
    cause = next((found[1] for line in reversed(lines) if (found := named.match(line))), lines[0])
    return Unavailable(f"A Spark task failed: {cause}", hint=hint, code=TASK_FAILED)


#: signals within this many seconds count as one: closing a terminal sends two
_ONE_S = 2.0


def interrupt_on_signals() -> None:
    """Make SIGTERM and SIGHUP interrupt a command as Ctrl-C does; by default they would end it without cleanup.

    A command that ``nohup`` started keeps running when its terminal is closed. SIGINT works even for background jobs,
    for which a shell ignores it.
    """
    last = -_ONE_S

    def stop(number: int, frame: Any) -> None:  # noqa: ARG001
        nonlocal last
        before, last = last, time.monotonic()
        if last - before >= _ONE_S:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        # code that installs its own SIGTERM handler, as the console's server does, handles SIGHUP the same way
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
