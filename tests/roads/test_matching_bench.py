"""How many positions a core matches per second, whole trips and live, beside fastmm; nothing here asserts a speed.

pytest -m bench -s tests/roads/test_matching_bench.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import slipstream as ss
from measure import machine
from roads.driven import Observed, drives, mismatch, observe
from roads.second_opinion import SecondOpinion
from slipstream._berlinmod.streets import read_network
from slipstream._roads.matching.matcher import Matcher
from slipstream._roads.matching.model import Model
from slipstream._roads.road_tables import save_roads
from slipstream.testing import MemoryHost, MemorySource

pytestmark = pytest.mark.bench


def cpu(work: Callable[[], object]) -> float:
    """The least processor time of three runs; the first compiles and remembers routes."""
    work()
    seconds = []
    for _ in range(3):
        started = time.process_time()
        work()
        seconds.append(time.process_time() - started)
    return min(seconds)


def test_positions_per_second_of_a_core(real_data: Path, tmp_path: Path) -> None:
    network = read_network(real_data / "berlinmod" / "streets.data")
    driven = drives(network, 200)
    print(f"\n{machine()}")
    for noise in (5, 10, 20):
        matcher = Matcher(network, Model(noise=noise))
        other = SecondOpinion(network, noise, tmp_path)
        for every in (1, 5, 15, 30):
            seen = observe(driven, every, noise)
            ours = cpu(lambda: matcher.match(seen.rows, seen.t, seen.x, seen.y))  # noqa: B023
            theirs = cpu(lambda: other.match(seen))  # noqa: B023
            wrong = mismatch(matcher, driven, seen, matcher.match(seen.rows, seen.t, seen.x, seen.y))
            count = len(seen.t)
            print(
                f"noise {noise} m, every {every} s: {count / ours:,.0f} positions/s of a core, "
                f"fastmm {count / theirs:,.0f}; {wrong:.2%} of the metres are wrong"
            )


def in_order_of_time(seen: Observed) -> list[dict[str, float]]:
    vehicle = np.repeat(np.arange(len(seen.rows) - 1), np.diff(seen.rows))
    order = np.lexsort((vehicle, seen.t))
    columns = (vehicle[order], seen.t[order] // 1_000_000, seen.x[order], seen.y[order])
    names = ("id", "time", "x", "y")
    return [dict(zip(names, row, strict=True)) for row in zip(*(c.tolist() for c in columns), strict=True)]


def test_live_positions_per_second_of_a_core(real_data: Path, tmp_path: Path) -> None:
    """In batches of 20,000, as a feed of that many per second has them; with the state that is saved after each."""
    network = read_network(real_data / "berlinmod" / "streets.data")
    save_roads(network, tmp_path)
    rows = in_order_of_time(observe(drives(network, 1000), 5, 10))
    schema = {"id": "bigint", "time": "bigint", "x": "double", "y": "double"}
    host = MemoryHost(ss.Job("out").write(ss.read(MemorySource(schema)).match(tmp_path, lag="30s"), name="on"))
    batches = [rows[i : i + 20_000] for i in range(0, len(rows), 20_000)]
    host.send(batches[0])
    started = time.process_time()
    for batch in batches[1:]:
        host.send(batch)
    seconds = time.process_time() - started
    print(
        f"\n{machine()}\n{(len(rows) - len(batches[0])) / seconds:,.0f} positions/s of a core, with the test's own host"
    )
