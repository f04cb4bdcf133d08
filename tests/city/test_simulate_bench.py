"""How fast the simulator is, and how much memory it takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from measure import machine, measured
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._spark import session

pytestmark = pytest.mark.bench


@pytest.mark.parametrize(("expressways", "cores", "goal", "gib"), [(1, 1, 60, 2), (10, 2, 360, 8)])
def test_three_hours(expressways: int, cores: int, goal: int, gib: int, tmp_path: Path) -> None:
    spark = session.build("bench", master=f"local[{cores}]")
    simulate(spark, Traffic(minutes=1), 1, tmp_path / "compiled")
    with measured() as cost:
        run = simulate(spark, Traffic(expressways=expressways), 1, tmp_path / "run")
    spark.stop()
    tuples = sum(run.manifest.counts.values())
    print(
        f"\nsimulate {expressways} x 3 h on {cores} core(s): {cost.seconds:.0f} s (goal {goal}), {cost.gib:.1f} GiB in "
        f"all processes (goal {gib}), {tuples / 1e6:.1f} M tuples, {tuples / cost.seconds / 1e3:.0f} k tuples/s\n"
        f"  {machine()}"
    )
