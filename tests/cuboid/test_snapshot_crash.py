"""A killed engine leaves the snapshot of its last committed batch, and goes on from there."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from linear_road.test_crashes import finish, kill_all, started, wait_for
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._cuboid.snapshots.snapshot import Snapshot
from slipstream._io.outputs import JOURNAL
from slipstream._tools.processes.failpoints import VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slipstream._feeds.run import Run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    traffic = Traffic(expressways=2, minutes=5, demand=2.0, accident_every=2, returning=0.3)
    return simulate(spark, traffic, 3, tmp_path_factory.mktemp("runs") / "run")


def start(run: Run, out: Path, failpoint: str = "") -> subprocess.Popen[bytes]:
    arguments = ["toll", str(run.path), "--out", str(out), "--batch-seconds", "45", "--snapshot"]
    return started(arguments, {VARIABLE: failpoint})


def contents(out: Path) -> dict[str, bytes]:
    """All rows of all cuboids, in the order of their keys."""
    snapshot = Snapshot.open(out)
    found = {}
    for name in snapshot.names:
        rows = np.concatenate([fragment.rows for fragment in snapshot[name].fragments])
        found[name] = rows[np.argsort(rows["key"], kind="stable")].tobytes()
    return found


@pytest.fixture(scope="module")
def undisturbed(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    finish(start(run, out))
    return out


@pytest.mark.parametrize(
    "point", ["tolls.after-save", "accounts.before-save", "outputs.before-journal", "outputs.after-journal"]
)
def test_kill_everything_at(point: str, run: Run, undisturbed: Path, tmp_path: Path) -> None:
    """Failpoints stop the first batch that comes by: there is no committed one yet, except after the journal."""
    reached, out = tmp_path / "reached", tmp_path / "out"
    process = start(run, out, f"{point}:{reached}")
    wait_for(reached, process)
    kill_all(process)
    journal = (out / JOURNAL).read_text().splitlines() if (out / JOURNAL).exists() else []
    assert Snapshot.open(out).batch == (json.loads(journal[-1])["batch"] if journal else -1)
    if not journal:
        assert all(len(Snapshot.open(out)[name]) == 0 for name in Snapshot.open(out).names)
    finish(start(run, out))
    assert contents(out) == contents(undisturbed)
