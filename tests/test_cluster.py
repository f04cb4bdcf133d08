"""The same commands on a real cluster engine: Spark standalone, a master and two workers, one of them killed midway."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest
import yaml

from linear_road.test_crashes import without_emit
from services import SCRIPTS, service
from slipstream._linear_road.answer_text import TEXT
from slipstream._linear_road.job.toll_journal import last_batch

pytestmark = pytest.mark.long
LOCAL = "local[2]"


@pytest.fixture
def cluster() -> Iterator[str]:
    yield from service("cluster")


def command(*words: object) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "slipstream", *map(str, words)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=900)
    assert process.returncode == 0, errors


def wait_for(process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    """Wait until something holds; the process must not have ended before."""
    deadline = time.monotonic() + 600
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def lose_a_worker() -> None:
    subprocess.run([SCRIPTS / "cluster.sh", "kill", "2"], check=True)


def rows(folder: Path) -> list[dict[str, object]]:
    """All rows of a folder of Parquet files, in an order of their own."""
    return sorted(ds.dataset(folder, format="parquet").to_table().to_pylist(), key=repr)


def test_a_tolling_run_that_loses_a_worker(cluster: str, tmp_path: Path) -> None:
    run, here, there = tmp_path / "run", tmp_path / "here", tmp_path / "there"
    finish(command("simulate", "--minutes", 4, "--seed", 3, "--demand", 2, "--out", run, "--master", cluster))
    finish(command("toll", run, "--out", here, "--batch-seconds", 30, "--master", LOCAL))
    tolling = command("toll", run, "--out", there, "--batch-seconds", 30, "--master", cluster)
    wait_for(tolling, lambda: (last := last_batch(there)) is not None and last.batch >= 3)
    lose_a_worker()
    finish(tolling)
    assert (there / TEXT).stat().st_size > 0
    assert without_emit(there) == without_emit(here)


def test_berlinmod_generated_and_queried_with_a_worker_less(cluster: str, tmp_path: Path) -> None:
    made = {}
    for name, master in (("here", LOCAL), ("there", cluster)):
        data, answers = tmp_path / name, tmp_path / f"{name}-answers"
        finish(command("berlinmod", "generate", "--scale", "0.0005", "--out", data, "--master", master))
        asking = command("berlinmod", "run", data, "--as", "tba", "--out", answers, "--master", master)
        if master == cluster:
            wait_for(asking, lambda answers=answers: len(list(answers.glob("tba/*"))) >= 3)
            lose_a_worker()
        finish(asking)
        made[name] = {
            "trips": rows(data / "dataMtrip"),
            "answers": [rows(one) for one in sorted(answers.glob("tba/*"))],
        }
    assert made["here"]["trips"]
    assert made["here"] == made["there"]


def test_a_submitted_job_file_gives_the_answers_of_one_process(cluster: str, tmp_path: Path) -> None:
    run, here, there = tmp_path / "run", tmp_path / "here", tmp_path / "there"
    finish(command("simulate", "--expressways", 0.5, "--minutes", 2, "--seed", 3, "--out", run, "--master", LOCAL))
    finish(command("toll", run, "--out", here, "--master", LOCAL))
    body = {"command": f"toll {run} --out {there} --parallel 2", "master": cluster}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(body | {"conf": {"spark.executor.memory": "1g"}}))
    finish(command("submit", tmp_path / "job.yaml"))
    assert (there / TEXT).stat().st_size > 0
    assert without_emit(there) == without_emit(here)
