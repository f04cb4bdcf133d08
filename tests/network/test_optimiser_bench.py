"""What the optimiser gains on an example: as ``slipstream network describe`` tells it, and in a run."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from measure import machine
from oracles.network_loads import NETWORKS, SAMPLE, Load, reached, speeding
from slipstream._cli import network as cli
from slipstream._network.quality.optimiser import optimise
from slipstream._network.quality.statistics import Figures, Statistics
from slipstream._network.schemas import check

#: the length of the batches of the runs
TRAIN = 400_000


@pytest.mark.bench
def test_the_gain_on_an_example(spark, tmp_path: Path) -> None:
    print(f"\n{machine()}")
    load = speeding()
    pq.write_table(load.tuples(SAMPLE), tmp_path / "positions.parquet")
    options = ("--functions", NETWORKS / "speeding.py", "--input", f"positions={tmp_path / 'positions.parquet'}")
    shown = CliRunner().invoke(cli.app, [str(o) for o in ("describe", NETWORKS / "speeding.yaml", *options, "--json")])
    found = json.loads(shown.stdout.splitlines()[-1])
    print(f"describe: {found['boxes_before']} boxes, {found['boxes_after']} after: {'; '.join(found['steps'])}")
    print(
        f"an input tuple costs {found['microseconds_before']} µs before, {found['microseconds_after']} after: "
        f"gain {found['gain']}"
    )
    dear = Statistics({"at_school": Figures(1e-5, (0.3,)), "fast": Figures(1e-8, (0.15,))})
    better = optimise(check(load.network, spark), dear, lambda network: check(network, spark)).network
    rates = [
        reached(spark, Load(network, load.tuples), tmp_path / name, TRAIN)
        for name, network in (("before", load.network), ("after", better))
    ]
    print(f"a run takes {rates[0]:,.0f} tuples/s before, {rates[1]:,.0f} after: gain {rates[1] / rates[0]:.2f}")
    assert found["steps"]
