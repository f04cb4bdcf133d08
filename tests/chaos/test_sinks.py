"""Networks and cuboids, killed at every named point of a batch."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from linear_road.test_crashes import finish, kill_all, started, wait_for
from slipstream.cuboid.snapshot import Snapshot
from slipstream.failpoints import FILL_POINTS, NETWORK_POINTS, OUTPUT_POINTS, VARIABLE
from slipstream.io import outputs

pytestmark = pytest.mark.long

NETWORKS = Path(__file__).parents[2] / "examples" / "networks"
SCHEMA = """
CREATE CUBOID stock (stock_id INT KEY, price AST(5));
CREATE QUERY high AS SELECT stock_id, price[0] AS price FROM stock WHERE price[0] > 60;
"""


@dataclass(frozen=True)
class Case:
    """A command that goes on where it was, and what it leaves."""

    command: Callable[[Path, bool], list[str]]
    outcome: Callable[[Path], Any]
    points: tuple[str, ...]


def ticks(folder: Path) -> Path:
    """Seven stocks in four files that came one after the other; one row of each file cannot be kept."""
    folder.mkdir(exist_ok=True)
    for number in range(4):
        rows = [f"{stock},{(stock * 37 + number * 11 + i * 5) % 97}" for i in range(20) for stock in range(7)]
        file = folder / f"{number}.csv"
        if not file.exists():
            file.write_text("stock_id,price\n" + "\n".join([*rows, ",5"]) + "\n")
            os.utime(file, (1_000_000 + number, 1_000_000 + number))
    return folder


def fill(out: Path, again: bool) -> list[str]:
    source = ticks(out.parent / "ticks")
    return ["cuboid", "run", "--from", str(source), "--schema", SCHEMA, "--out", str(out), "--fragments", "2"]


def filled(out: Path) -> Any:
    snapshot = Snapshot.open(out)
    return (
        sorted(map(str, snapshot["stock"].scan(["price"])["price"].tolist())),
        sorted(map(str, snapshot.results("high").to_pylist())),
        sorted(map(str, outputs.read(out, "rejects").to_pylist())),
        [(line.batch, line.outputs, line.tuples) for line in outputs.journal(out)],
    )


def network(out: Path, again: bool) -> list[str]:
    first = ["--input", f"soldiers={NETWORKS / 'soldiers.csv'}", "--train", "4", "--tap", "soldiers", "--tap", "over"]
    inputs = [] if again else first
    return ["network", "run", str(NETWORKS / "border.yaml"), "--out", str(out), *inputs]


def delivered(out: Path) -> Any:
    rows = {name: outputs.read(out, name).drop_columns("_ts").to_pylist() for name in outputs.names(out)}
    kept = [row for path in sorted(out.glob("points/*/*.parquet")) for row in ds.dataset(path).to_table().to_pylist()]
    batches = [(line.batch, line.outputs, line.tuples) for line in outputs.journal(out)]
    remembered = sorted(str({**row, "_ts": 0}) for row in kept)
    return {name: sorted(map(str, found)) for name, found in rows.items()}, remembered, batches


CASES = {
    "network": Case(network, delivered, NETWORK_POINTS + OUTPUT_POINTS),
    "cuboid": Case(fill, filled, FILL_POINTS + OUTPUT_POINTS),
}


def start(case: Case, out: Path, again: bool, failpoint: str = "") -> subprocess.Popen[bytes]:
    return started(case.command(out, again), {VARIABLE: failpoint})


def killed_at(process: subprocess.Popen[bytes], reached: Path) -> None:
    wait_for(reached, process)
    kill_all(process)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = {}
    for name, case in CASES.items():
        out = tmp_path_factory.mktemp(name) / "out"
        finish(start(case, out, again=False))
        found[name] = case.outcome(out)
    return found


@pytest.mark.parametrize("name", CASES)
def test_killed_at_every_point_in_turn(name: str, undisturbed: dict[str, Any], tmp_path: Path) -> None:
    """The last point first: after it the first batch is done, so at the others there is state to go on from."""
    case, out = CASES[name], tmp_path / "out"
    for number, point in enumerate(reversed(case.points)):
        reached = tmp_path / point
        killed_at(start(case, out, number > 0, f"{point}:{reached}"), reached)
    finish(start(case, out, again=True))
    assert case.outcome(out) == undisturbed[name]


@pytest.mark.parametrize("name", CASES)
def test_a_line_cut_short_by_a_crash(name: str, undisturbed: dict[str, Any], tmp_path: Path) -> None:
    case, out = CASES[name], tmp_path / "out"
    reached = tmp_path / "reached"
    killed_at(start(case, out, False, f"{case.points[-1]}:{reached}"), reached)
    with (out / "batches.jsonl").open("ab") as file:
        file.write(b'{"batch": 1, "fou')
    finish(start(case, out, again=True))
    assert case.outcome(out) == undisturbed[name]


def test_a_journal_that_lost_batches_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    finish(start(CASES["cuboid"], out, again=False))
    journal = out / "batches.jsonl"
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
    process = start(CASES["cuboid"], out, again=True)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 3
    assert b"1 batches, 4 were committed" in errors
    assert b"Traceback" not in errors
