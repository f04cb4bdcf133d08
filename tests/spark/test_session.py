"""What people are told when Spark, its JVM or a disk fails."""

from __future__ import annotations

import errno
import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from commands import Slipstream
from slipstream import _cli
from slipstream._errors import MARK, BadInput, SlipstreamError, Unavailable, locate
from slipstream._spark import session, workers
from slipstream._spark.session import task_errors
from slipstream._tools.files import temporary
from slipstream._tools.progress import COMPILING

OUT = Path("tolls/checkpoint")
GO_ON = "The same command goes on."


def told(error: Exception) -> SlipstreamError:
    with pytest.raises(SlipstreamError) as caught, task_errors(GO_ON, OUT):
        raise error
    return caught.value


def spark_error(text: str) -> Exception:
    from pyspark.errors import PySparkException

    return PySparkException(text)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (spark_error("java.io.IOException: No space left on device\n\tat x"), "The disk is full."),
        (spark_error("OSError: [Errno 30] Read-only file system: 'x'"), "The disk is read-only."),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "Spark's JVM has stopped."),
        (OSError(errno.ENOSPC, "No space left on device", "tolls/summary.json"), "tolls/summary.json: No space"),
        (
            spark_error("An error occurred while calling o3.x.\n: java.lang.IllegalStateException: no"),
            "failed: java.lang.",
        ),
        (spark_error('because the return of "o.a.s.SparkContext.dagScheduler()" is null'), "Spark has stopped."),
        (spark_error("Cannot call methods on a stopped SparkContext."), "Spark has stopped."),
        (spark_error("job aborted\nValueError: no"), "A Spark task failed: ValueError: no"),
    ],
)
def test_an_engine_that_fails_says_how_to_go_on(error: Exception, message: str) -> None:
    found = told(error)
    assert isinstance(found, Unavailable)
    assert message in found.message
    assert found.hint == GO_ON


@pytest.mark.parametrize(
    "text",
    [
        "org.apache.hadoop.fs.ChecksumException: Checksum error: file:/tolls/checkpoint/offsets/3 at 0",
        "java.lang.IllegalStateException: Incomplete log file in the offset log for 3",
        "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.",
    ],
)
def test_a_damaged_checkpoint_is_named(text: str) -> None:
    found = told(spark_error(f"Query failed.\n{text}\n\tat x"))
    assert isinstance(found, BadInput)
    assert str(OUT) in found.message
    assert "from a backup" in found.hint


def test_an_error_of_ours_comes_through_spark_with_its_data(spark: SparkSession) -> None:
    def fail(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with locate(box="boxes.over"):
            raise BadInput("x: damaged.\nIn two lines.", hint="Start afresh.", code="unknown-column", found="pos")

    with pytest.raises(BadInput) as caught, task_errors(GO_ON):
        spark.range(1).mapInArrow(fail, "id long").collect()
    found = caught.value
    assert (found.message, found.hint) == ("x: damaged.\nIn two lines.", "Start afresh.")
    assert (found.code, found.found, found.place.box) == ("unknown-column", "pos", "boxes.over")


def test_an_error_without_advice_gets_that_of_the_job() -> None:
    note = MARK + json.dumps(["BadInput", {"problem": "x: damaged.", "hint": "", "place": {}}])
    assert told(spark_error(f"Job aborted\n{note}\n\tat org.x")).hint == GO_ON
    cut = told(spark_error(f"Job aborted\nValueError: no\n{note[:-9]}"))
    assert cut.code == "task-failed"


def test_what_ctrl_c_ends_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> int:
        return _cli.STOPPED

    monkeypatch.setattr(_cli, "app", interrupted)
    done = Slipstream(capsys)("doctor")
    assert done.code == _cli.STOPPED
    assert "stopped. The same command resumes" in done.err


def speechless() -> Exception:
    """As Py4J's own, which ask a JVM for their words."""
    from py4j.protocol import Py4JError

    class Speechless(Py4JError):  # type: ignore[misc]
        def __str__(self) -> str:
            raise ConnectionRefusedError

    return Speechless()


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        (spark_error("java.lang.OutOfMemoryError: Java heap space"), "run out of memory", "SLIPSTREAM_DRIVER_MEMORY"),
        (spark_error("py4j.reflection.TypeUtil does not exist in the JVM"), "JVM has stopped", "Nothing was kept"),
        (speechless(), "JVM has stopped", "Nothing was kept"),
    ],
)
def test_no_command_shows_a_traceback_of_spark(
    error: Exception, message: str, hint: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(_cli, "app", fail)
    monkeypatch.setattr(session, "keep_log", lambda: Path("folder[1]/failed.log"))
    done = Slipstream(capsys)("doctor")
    assert done.code == Unavailable.exit_code
    assert message in done.err
    assert hint in done.err
    assert done.err.endswith("Spark's own messages, kept for a day: folder[1]/failed.log\n")


OWN_SESSION = """
from pyspark.sql import SparkSession
own = {"spark.sql.session.timeZone": "Europe/Berlin", "spark.sql.shuffle.partitions": "7", "spark.ui.enabled": "false"}
theirs = SparkSession.builder.master("local[1]").config(map=own).getOrCreate()
settings = sorted(map(tuple, theirs.sql("SET").collect()))

from slipstream._spark import session
spark = session.build("ours")
assert spark is theirs
assert sorted(map(tuple, spark.sql("SET").collect())) == settings

from pathlib import Path
from tempfile import mkdtemp
from slipstream._feeds.tuple_text import import_text
from slipstream._archive import open_archive
from slipstream._linear_road.job.engine import Settings, toll_run
folder = Path(mkdtemp())
(folder / "feed.dat").write_text("0,30,1,50,0,1,0,1,5280,-1,-1,-1,-1,-1,-1\\n")
run = import_text(folder / "feed.dat", folder / "run")
for out, start in (("a", "2007-05-28 00:00:00"), ("b", "2007-05-28T02:00:00+02:00")):
    toll_run(spark, run, folder / out, Settings(outputs="trips", text=False, start=start))
    (trip,) = open_archive(spark, folder / out).selectExpr("unix_seconds(Trip.t[0]) AS at").collect()
    assert trip.at == 1180310400 + 30, trip  # 2007-05-28 00:00:30 UTC

second = "SELECT unix_seconds(TIMESTAMP '1970-01-02 00:00:00') AS s"
assert session.in_utc(lambda spark: spark.sql(second).first().s)(spark) == 86400
assert spark.sql(second).first().s == 86400 - 3600
assert sorted(map(tuple, spark.sql("SET").collect())) == settings
try:
    spark.sql("SELECT mispelt FROM VALUES (1) AS t(misspelt)")
except Exception as error:
    print(type(error).__name__)
spark.stop()
print(session.build("ours", conf={"spark.sql.shuffle.partitions": "3"}).conf.get("spark.sql.session.timeZone"))
print(session.is_running())
session.close()
"""


@pytest.mark.long
def test_a_session_of_somebody_else_is_joined_as_it_is() -> None:
    # as in an environment that is activated: PySpark's workers are the first python3 on the path
    activated = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    own = [sys.executable, "-c", OWN_SESSION]
    done = subprocess.run(own, capture_output=True, text=True, check=False, env=activated)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["AnalysisException", "UTC", "True"]
    assert "QueryContextLogger" not in done.stderr
    assert done.stderr.count("Starting Spark ...") == 1


def test_a_kernel_that_is_not_on_the_disk_is_announced_once(tmp_path: Path) -> None:
    program = "from slipstream._tools.numba_tools import mix, np; mix(np.uint64(1)); mix(2); print('done')"
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        for _ in range(2)
    ]
    assert [(done.stdout, done.stderr) for done in runs] == [("done\n", f"{COMPILING}\n"), ("done\n", "")]


def test_a_mistake_of_the_user_has_nothing_to_do_with_sparks_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "keep_log", lambda: pytest.fail("a log was kept"))
    assert Slipstream(capsys)("toll", "nowhere", "--out", "out", "--format", "smoke").code == 2


def test_sparks_temporary_files_are_in_the_private_folder_unless_somebody_says_where() -> None:
    private = str(temporary.folder())
    plain = session._with_private_folder(session.settings(), session.LOCAL)
    assert f'"-Djava.io.tmpdir={private}"' in plain[session.JAVA_OPTIONS]
    assert "log4j2" in plain[session.JAVA_OPTIONS]
    assert plain["spark.sql.warehouse.dir"].startswith(private)
    given = {session.JAVA_OPTIONS: "-Djava.io.tmpdir=/big", "spark.sql.warehouse.dir": "/tables"}
    assert session._with_private_folder(given, "spark://elsewhere:7077") == given


def test_workers_import_what_is_installed_not_sparks_archives(spark: SparkSession) -> None:
    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyspark

        for _ in batches:
            imported, frozen = "numba" in sys.modules, gc.get_freeze_count()
            yield pa.record_batch({"file": [pyspark.__file__], "imported": [imported], "frozen": [frozen]})

    (found,) = spark.range(0, 1, 1, 1).mapInArrow(where, "file string, imported boolean, frozen long").collect()
    assert (found.file, found.imported) == (pyspark.__file__, True)
    assert found.frozen > 50_000, "what was imported is left out of garbage collections"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable  # what is in a private folder is not for children


def test_what_a_worker_has_loaded_is_left_out_of_garbage_collections_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []
    monkeypatch.setattr(gc, "freeze", lambda: done.append("freeze"))

    def work(sock: Any, authenticated: bool) -> int:
        done.append((sock, authenticated))
        return sock % 2

    kept = workers.keep_loaded(work)
    assert [kept(task, True) for task in range(6)] == [0, 1] * 3
    assert done == [(0, True), (1, True), (2, True), (3, True), "freeze", (4, True), (5, True)]


def test_workers_run_this_python_where_nothing_temporary_can_be_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert workers.make_python_command(tmp_path) == str(tmp_path / "worker-python")
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert workers.make_python_command(tmp_path) == sys.executable


def test_workers_of_this_machine_are_reached_through_unix_sockets_where_their_paths_may_be_that_long() -> None:
    assert session._connect_workers(Path("/tmp/short"))["spark.python.unix.domain.socket.dir"] == "/tmp/short"
    assert session._connect_workers(Path("/" + "long" * 25)) == {}
