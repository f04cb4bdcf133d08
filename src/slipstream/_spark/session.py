"""The one place that builds a Spark session.

Local by default; ``--master`` and ``--conf`` take the same jobs to a cluster unchanged. Spark's own chatter is
kept off the terminal, workers use this environment's Python, and streaming state lives in RocksDB with
changelog checkpoints.
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

from slipstream._errors import BadArgument, BadInput, SlipstreamError, Unavailable, carried_in
from slipstream._spark import class_archive, workers
from slipstream._tools import child_processes, temporary
from slipstream._tools.progress import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

P = ParamSpec("P")
T = TypeVar("T")

LOCAL = "local[*]"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
#: How the JVM runs: for much work, or for many small batches and short commands, to which Java's second compiler and
#: more threads cost more than they gain.
THOROUGH, QUICK = "-XX:+UseParallelGC", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

LOCAL_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"

#: what text of instants without a zone is read and written in
UTC = {"spark.sql.session.timeZone": "UTC"}
#: what a stream that keeps state needs
STATE = {
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
        # long histories travel to a kernel in batches of bounded size
        "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        # how soon a query that finds nothing new says where it is
        "spark.sql.streaming.noDataProgressEventInterval": "1000",
        "spark.sql.adaptive.enabled": "true",
        JAVA_OPTIONS: f"-Dlog4j2.configurationFile=file:{quiet} {QUICK if quick else THOROUGH} "
        "-XX:+PerfDisableSharedMem",  # or the JVM leaves a file with its counters when it is killed
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.worker.reuse": "true",
    }
    if master.startswith("local"):
        common |= {
            "spark.driver.memory": os.environ.get("SLIPSTREAM_DRIVER_MEMORY") or f"{_driver_gigabytes()}g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # the default starts several processes (chmod, readlink) for every file of a checkpoint
            "spark.sql.streaming.checkpointFileManagerClass": LOCAL_CHECKPOINTS,
            "spark.python.daemon.module": "slipstream._spark.workers",
        }
    return common


def _in_private_folder(conf: dict[str, str], master: str) -> dict[str, str]:
    """Settings with all temporary files of the driver's JVM in this process's folder; folders that are given stay."""
    private = temporary.folder()
    if master.startswith("local"):
        conf = _sockets_in(private) | conf
    options = conf.get(JAVA_OPTIONS, "")
    if "-Djava.io.tmpdir=" not in options:
        options = f'{options} "-Djava.io.tmpdir={private}"'.strip()
    # Spark would make a folder for tables, which we do not have, wherever a command is called
    return {"spark.sql.warehouse.dir": str(private / "warehouse")} | conf | {JAVA_OPTIONS: options}


#: bytes that the path of a Unix socket may have on all systems, and those of the name that Spark gives it
_SOCKET_PATH, _SOCKET_NAME = 103, 43


def _sockets_in(folder: Path) -> dict[str, str]:
    """Let the JVM talk to its Python workers through Unix sockets in a folder, if its path is short enough for that.

    Over TCP, a small message may wait 40 ms until the one before it is acknowledged: 80 ms of every batch.
    """
    if len(os.fsencode(folder)) + _SOCKET_NAME > _SOCKET_PATH:
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(folder)}


def _with_archived_classes(conf: dict[str, str]) -> dict[str, str]:
    """Settings with which the driver's JVM maps Spark's classes from the archive, where `slipstream prepare` made one.

    Options that say themselves what is shared stay as they are.
    """
    options = conf.get(JAVA_OPTIONS, "")
    if "-Xshare:" in options:
        return conf
    return conf | {JAVA_OPTIONS: f"{options} {class_archive.use_archive(java())}".strip()}


def _driver_gigabytes() -> int:
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
            )
        conf[key] = value
    return conf


def java() -> Path:
    """The ``java`` that Spark will start."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if not found:
        raise Unavailable(
            "Spark needs Java 17 or newer and there is no `java`" + (f" in JAVA_HOME={home}." if home else " on PATH."),
            hint="Debian and Ubuntu: apt-get install openjdk-17-jre-headless. Then `slipstream doctor`.",
        )
    return Path(found)


def build(
    name: str = "slipstream", *, master: str = LOCAL, conf: dict[str, str] | None = None, quick: bool = False
) -> SparkSession:
    """Start the Spark session that all work of this process runs in, or join the one that runs.

    A session that somebody else started is joined as it is: nothing but ``conf`` is set in it.
    """
    from pyspark.sql import SparkSession

    asked: dict[str, Any] = {**(conf or {})}
    if is_running():
        started = SparkSession.builder.config(map=asked).getOrCreate()
    else:
        say("Starting Spark ...")
        conf = _with_archived_classes(settings(master, quick=quick) | asked)
        ours: dict[str, Any] = {**_in_private_folder(conf, master)}
        started = _start(SparkSession.builder.appName(name).master(master).config(map=ours), master)
    _silence_query_contexts()
    return started


def _silence_query_contexts() -> None:
    """Keep PySpark from printing the JVM's stack trace as JSON before it raises what a misspelt column causes."""
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
    """A new session; what the JVM and the workers say goes to the log."""
    if master.startswith("local"):
        java()
    from pyspark.errors import PySparkException

    private = temporary.folder()
    try:
        with (
            _workers_python(private, master),
            _spark_talks_to(spark_log()),
            _temporary_files_in(private),
            child_processes.adopting(),
        ):
            started: SparkSession = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise Unavailable(
            f"Spark did not start with --master {master}: {error}",
            hint="`slipstream doctor` checks Java and memory; leave out --master to run on this machine. "
            f"{_last_words(spark_log())}",
        ) from error
    # PySpark's accumulator server prints a traceback when the JVM hangs up first
    server: Any = started.sparkContext._accumulatorServer
    server.handle_error = lambda *_: None
    return started


@contextmanager
def _workers_python(folder: Path, master: str) -> Iterator[None]:
    """Tell the session that starts in this block which Python its workers run, unless somebody has said so.

    What is in ``folder`` goes with this process, so the environment, which children inherit, names it only meanwhile.
    """
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if os.environ.get("PYSPARK_PYTHON", sys.executable) != sys.executable:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = workers.python_for(folder) if master.startswith("local") else sys.executable
    try:
        yield
    finally:
        os.environ["PYSPARK_PYTHON"] = sys.executable


@contextmanager
def using(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings that hold while the block runs; afterwards the session is as it was.

    What a query needs is set this way, because the session may be somebody else's. Spark reads the settings when
    a query is analysed and when it is run or, of a stream, started.
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
def keeping_state(spark: SparkSession, partitions: int | None = None) -> Iterator[None]:
    """What a stream with state needs while it is started, in so many ``partitions`` if they are given."""
    with using(spark, STATE | ({"spark.sql.shuffle.partitions": str(partitions)} if partitions else {})):
        yield


def in_utc(work: Callable[Concatenate[SparkSession, P], T]) -> Callable[Concatenate[SparkSession, P], T]:
    """A function on a session that reads or writes instants as text: whatever the session's zone is, they are UTC."""

    @wraps(work)
    def working(spark: SparkSession, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with using(spark, UTC):
            return work(spark, *args, **kwargs)

    return working


def activate(spark: SparkSession) -> None:
    """Let queries that this thread starts find the session's sinks; only the first thread does so by itself."""
    session: Any = spark
    session._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)


def close() -> None:
    """Stop the session of this process, if it has one, before its JVM goes: what is left running would complain."""
    if "pyspark.sql" not in sys.modules:
        return
    from py4j.protocol import Py4JError
    from pyspark.sql import SparkSession

    try:
        if active := SparkSession.getActiveSession():
            active.stop()
    except (Py4JError, OSError):
        # the JVM is gone already
        return


def spark_log() -> Path:
    """Where Spark's own messages and its workers' go; what a user must know comes as an error."""
    return temporary.folder() / "spark.log"


def keep_log() -> Path | None:
    """Let Spark's messages be read for a day after this process has ended; nothing if Spark said nothing."""
    return temporary.keep(spark_log()) if "pyspark.sql" in sys.modules else None


def _last_words(log: Path) -> str:
    """The end of what Spark said before it gave up."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return f"Spark's last words: {lines[-1]}" if lines else ""


@contextmanager
def _spark_talks_to(log: Path) -> Iterator[None]:
    """Give the JVM that starts in this block, and its Python workers, ``log`` as standard error."""
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
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Put what ``tempfile`` makes in this block into ``folder``: PySpark gets its JVM's secret from such a file."""
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


#: what to do when a job failed that leaves nothing behind
NOTHING_KEPT = "Nothing was kept. `slipstream doctor` checks memory and disk."
#: and when one failed that resumes from its checkpoint
RESUMES = "What was committed is kept, and the same command resumes there. `slipstream doctor` checks memory and disk."
#: the code of an error whose cause is none that is known here
TASK_FAILED = "task-failed"

#: what Spark says of files of a checkpoint that were cut short or changed
_DAMAGED = re.compile(
    r"ChecksumException|Incomplete log file|malformed|EOFException|MalformedInput|JsonParse|MappingException|"
    r"CANNOT_LOAD_STATE|checksum|corrupt|STATE_STORE_\w*(MISSING|INVALID|UNEXPECTED)|Error reading (delta|snapshot)|"
    r"END_OF_STREAM|Invalid .* log|does not exist\.? *\n.*checkpoint",
    re.IGNORECASE,
)


@contextmanager
def task_errors(hint: str = NOTHING_KEPT, checkpoint: Path | None = None) -> Iterator[None]:
    """Turn what a Spark job of ours failed with into an error for people.

    ``hint`` says what to do then; a query that has a ``checkpoint`` may find it damaged.
    """
    try:
        yield
    except Exception as error:
        if (told := for_people(error, hint, checkpoint)) is None:
            raise
        raise told from error


def for_people(error: Exception, hint: str = NOTHING_KEPT, checkpoint: Path | None = None) -> SlipstreamError | None:
    """What Spark raised as an error for people: one of ours, a full disk, or its cause; nothing if it was not Spark."""
    if "pyspark.sql" not in sys.modules:
        return None
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if isinstance(error, PySparkException | Py4JError):
        return _of_spark(_text_of(error), hint, checkpoint)
    if isinstance(error, ConnectionError):
        return Unavailable("Spark's JVM has gone away.", hint=hint, code="jvm-lost")
    if isinstance(error, OSError) and checkpoint is not None:
        return Unavailable(f"{error.filename or checkpoint}: {error.strerror or error}.", hint=hint)
    return None


def _text_of(error: Exception) -> str:
    """What an error says; those that ask a JVM for their words have none when it is gone."""
    try:
        return str(error)
    except Exception:  # whatever it met on the way to its words
        return "Py4JNetworkError"


def _of_spark(text: str, hint: str, checkpoint: Path | None) -> SlipstreamError:
    if ours := carried_in(text):
        ours.hint = ours.hint or hint
        return ours
    if "OutOfMemoryError" in text:
        return Unavailable(
            "Spark's JVM has run out of memory.",
            hint=f"{hint} SLIPSTREAM_DRIVER_MEMORY=4g, for example, gives it more.",
            code="out-of-memory",
        )
    for known, message, code in (
        ("No space left on device", "The disk is full.", "disk-full"),
        ("Read-only file system", "The disk is read-only.", "disk-read-only"),
        ("Permission denied", "A folder may not be written.", "permission-denied"),
        ("Py4JNetworkError", "Spark's JVM has gone away.", "jvm-lost"),
        ("Answer from Java side is empty", "Spark's JVM has gone away.", "jvm-lost"),
        ("does not exist in the JVM", "Spark's JVM has gone away.", "jvm-lost"),
    ):
        if known in text:
            return Unavailable(message, hint=hint, code=code)
    if checkpoint is not None and (found := _DAMAGED.search(text)):
        line = next((line for line in text.splitlines() if found.group(0).splitlines()[0] in line), "")
        return BadInput(
            f"{checkpoint}: damaged ({line.strip()[:300]}).",
            hint="Put its files back from a copy, or start afresh in another --out folder.",
            code="damaged-checkpoint",
        )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = re.compile(r"(?:Caused by: )?([\w.]+(?:Error|Exception): .*)")
    cause = next((found[1] for line in reversed(lines) if (found := named.match(line))), lines[0])
    return Unavailable(f"A Spark task failed: {cause}", hint=hint, code=TASK_FAILED)


#: signals that come in this many seconds are one: a terminal that is closed sends two
_ONE_S = 2.0


def interrupt_on_signals() -> None:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does; the default would end it in the middle of things.

    What ``nohup`` started goes on when its terminal is closed. Ctrl-C is heard even by what a shell has put in the
    background, which is started deaf to it.
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
        # whoever has a way of their own with SIGTERM, as the console's server does, has it with SIGHUP
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
