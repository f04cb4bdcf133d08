"""A job is copied while it runs and resumes from the copy; of a vehicle that one forgets, nothing is left."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from linear_road.test_crashes import without_emit
from slipstream._io import outputs
from slipstream._io.outputs import last_batch

pytestmark = pytest.mark.long
#: a follower of a text file sees the end of the input here
LATENESS = 2


def slipstream(*words: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "slipstream", *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    return done


@contextmanager
def running(*words: object) -> Iterator[subprocess.Popen[str]]:
    line = [sys.executable, "-m", "slipstream", *map(str, words)]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=300)


def lines_of(folder: Path) -> list[str]:
    """Linear Road text of a short run, in order of time."""
    run = folder / "run"
    slipstream("simulate", "--expressways", 0.5, "--minutes", 3, "--seed", 5, "--demand", 4, "--out", run)
    slipstream("export", run, "--out", folder / "run.dat")
    return (folder / "run.dat").read_text().splitlines()


def wait_for_batch(out: Path, process: subprocess.Popen[str], more_than: int) -> None:
    deadline = time.monotonic() + 600
    while (last := last_batch(out)) is None or not outputs.output_names(out) or last.detail["newest"] < more_than:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_copy_of_a_running_job_resumes_with_the_same_answers(tmp_path: Path) -> None:
    lines = lines_of(tmp_path)
    feed, out, copy = tmp_path / "feed.dat", tmp_path / "out", tmp_path / "copy"
    half = len(lines) // 2
    feed.write_text("\n".join(lines[:half]) + "\n")
    with running("toll", feed, "--follow", "--lateness", LATENESS, "--archive", "--out", out) as process:
        wait_for_batch(out, process, 30)
        slipstream("job", "backup", out, copy)
        with feed.open("a") as more:
            more.write("\n".join(lines[half:]) + "\n")
        wait_for_batch(out, process, 150)
    copied = last_batch(copy)
    assert copied is not None
    assert copied.detail["newest"] < 150
    for place in (out, copy):
        slipstream("toll", feed, "--lateness", LATENESS, "--archive", "--out", place)
    assert without_emit(copy) == without_emit(out)
    assert outputs.read(copy, "trips").num_rows == outputs.read(out, "trips").num_rows > 0


def test_nothing_is_left_of_a_vehicle_that_a_toll_job_forgets(tmp_path: Path) -> None:
    lines = lines_of(tmp_path)
    names = ["type,time,car,spd,xway,lane,dir,seg,pos"]
    for fields in (line.split(",") for line in lines if line.startswith("0,")):
        names.append(",".join([*fields[:2], f"plate-{fields[2]}", *fields[3:9]]))
    (tmp_path / "named.csv").write_text("\n".join(names) + "\n")
    out = tmp_path / "out"
    slipstream("toll", tmp_path / "named.csv", "--columns", "vid=car", "--archive", "--snapshot", "--out", out)
    seen = outputs.read(out, "notifications")["vehicle"].to_pylist()
    gone, stays = seen[0], next(name for name in seen if name != seen[0])
    slipstream("job", "forget", out, "--id", gone)
    for file in (path for path in out.rglob("*") if path.is_file()):
        rows = str(pq.read_table(file, partitioning=None).to_pydict()) if file.suffix == ".parquet" else ""
        text = rows + file.read_bytes().decode(errors="replace")
        assert f"'{gone}'" not in text, file
        assert f",{gone}," not in text, file
    assert outputs.read(out, "notifications")["vehicle"].to_pylist() == [name for name in seen if name != gone]
    assert f",{stays}," in (out / "output.csv").read_text()
