"""The example of a network on a topic that is overloaded: it sheds while results are late, and stops when they are not.

Results are late here by the stamps of the messages, not by the speed of the machine.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from services import service
from slipstream._io import outputs
from slipstream._network.running.run_folder import Execution

EXAMPLES = Path(__file__).parents[2] / "examples" / "networks"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


def example() -> Any:
    spec = importlib.util.spec_from_file_location("backlog", EXAMPLES / "backlog.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def send_until(done: Callable[[], bool], send: Callable[[], None], engine: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 240
    while not done():
        assert engine.poll() is None
        assert time.monotonic() < deadline
        send()
        time.sleep(0.2)


def test_a_backlog_is_shed_and_shedding_ends_with_it(broker: str, tmp_path: Path) -> None:
    where, out = f"kafka:{broker}/cars-{uuid.uuid4().hex}", tmp_path / "out"
    backlog = example()
    sender = backlog.Sender(where)
    sender.send()  # makes the topic
    command = [sys.executable, "-m", "slipstream", "network", "run", str(EXAMPLES / "slow_segments.yaml")]
    command += ["--input", f"cars={where}", "--follow", "--shed", "--out", str(out)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as engine:
        assert engine.stderr is not None
        assert any("Ready" in line for line in engine.stderr)
        run = Execution.open(out)
        send_until(lambda: bool(run.shares), sender.send, engine)
        send_until(lambda: not run.shares, lambda: sender.send(behind=0.0), engine)
        sender.end()
        assert engine.wait(240) == 0
    # how much, and so where, depends on the rate at which tuples came; for some rates, ``test_shedding`` knows
    where_dropped = set().union(*(line["dropped"] for line in run.shed()))
    assert where_dropped <= {"slow -> by_segment", "cars -> slow"}
    dropped = sum(count for line in run.shed() for count in line["dropped"].values())
    assert dropped > 0
    taken = sum(entry["taken"].get("cars", 0) for entry in run.monitor.entries())
    assert taken == sender.sent
    totals = run.monitor.totals()
    assert totals["segments"]["delivered"] < 1
    assert totals["segments"]["delivered"] <= totals["standing"]["delivered"]
    standing = outputs.read(out, "standing").num_rows
    if where_dropped == {"slow -> by_segment"}:
        assert standing == sender.sent // 20
    assert outputs.read(out, "rejects").num_rows == 0
