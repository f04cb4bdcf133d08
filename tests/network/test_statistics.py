"""Measured figures of boxes: shares are exact, costs are positive, and every kind of box can be measured."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from oracles.network_loads import border
from slipstream._cli import network as cli
from slipstream._errors import CheckFailed
from slipstream._network import Builder, Order, ScalarFunction
from slipstream._network.quality import calibration
from slipstream._network.quality.statistics import measure
from slipstream._network.schemas import check

NETWORKS = Path(__file__).parents[2] / "examples" / "networks"


def test_every_kind_of_box_is_measured(spark) -> None:
    net = Builder("n")
    one, two = net.source("one", a="integer", g="text"), net.source("two", a="integer", g="text")
    names = net.table("names", key="text", rank="integer")
    split = one.filter("a < 5", "a < 8", name="split")
    whole = split.union(split[2], name="whole")
    whole.bsort(Order("a", 2), name="sort").to("sorted")
    whole.aggregate({"n": "count(*)", "fast": "bool_or(a > 3)"}, Order("a"), size=2, name="windows").to("windows")
    whole.join(two, "left.g = right.g", size=0, left=Order("a"), right=Order("a"), name="pairs").to("pairs")
    two.join(names, "left.g = right.key", name="named").map({"r": "rank + 1"}, name="ranks").to("ranks")
    names.join(two, "left.key = right.g", name="known").to("known")
    one.resample(two, {"n": "count(*)"}, size=1, left=Order("a"), right=Order("a"), lag=0, name="near").to("near")
    rows = [{"_seq": i, "_ts": 0, "a": i, "g": "x" if i % 2 else None} for i in range(10)]
    sample = spark.createDataFrame(pa.Table.from_pylist(rows))
    tables = {"names": spark.createDataFrame(pa.table({"key": ["x", "x"], "rank": [1, 2]}))}
    found = measure(spark, check(net.build(), spark), {"one": sample, "two": sample}, tables)
    assert found.of("split").shares == (0.5, 0.3, 0.2)
    assert found.of("whole").shares == (1.0,)
    assert found.of("sort").shares == pytest.approx((5 / 7,))
    assert found.of("windows").shares == pytest.approx((3 / 7,))
    assert found.of("pairs").cost > 0
    assert found.of("named").shares == (1.0,)
    assert found.of("known").shares == (1.0,)
    assert found.of("ranks").shares == (1.0,)
    assert found.of("near").shares[0] > 0


OVER = """
network: over
version: 1
sources: {soldiers: {sid: integer, time: integer, pos: integer}}
boxes:
  over: {filter: [pos >= 30], from: soldiers}
  early: {filter: [time < 3], from: over}
outputs: {early: {from: early}}
"""


def test_the_command_line_says_whether_the_machine_holds_a_rate_and_what_optimising_gains(
    spark, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(calibration, "TRAINS", (1, 3))
    monkeypatch.setattr(calibration, "WARM", 0)
    sample = ("--input", f"soldiers={NETWORKS / 'soldiers.csv'}", "--json")
    border = str(NETWORKS / "border.yaml")
    flood = CliRunner().invoke(cli.app, ["check", border, "--rate", "soldiers=1e12", *sample])
    assert isinstance(flood.exception, CheckFailed), flood.output
    assert '"holds": false' in flood.stdout
    (tmp_path / "over.yaml").write_text(OVER)
    better = CliRunner().invoke(cli.app, ["describe", str(tmp_path / "over.yaml"), *sample])
    assert '"boxes_before": 2, "boxes_after": 1' in better.stdout, better.output
    assert "in one" in better.stdout


def test_a_user_function_is_called_only_for_tuples_that_are_there() -> None:
    seen: list[int] = []
    twice = ScalarFunction("twice", lambda a: seen.extend(a) or a * 2, "integer")
    assert twice.over(pd.Series([1, None, 3])).tolist() == [2, None, 6]
    assert seen == [1, 3]
    assert twice.over(pd.Series([5, 6])).tolist() == [10, 12]
    assert twice.over(pd.Series([None, None])).tolist() == [None, None]


def test_parts_of_a_sample_follow_each_other() -> None:
    parts = calibration.cut_parts(pa.table({"a": list(range(16))}), (1, 2, 1))
    assert [part["_seq"].to_pylist() for part in parts] == [list(range(4)), list(range(4, 12)), list(range(12, 16))]


def test_a_run_that_was_disturbed_is_made_again(spark, monkeypatch: pytest.MonkeyPatch) -> None:
    load = border()
    runs = iter([calibration.Marginal(0.0, 0.0), calibration.Marginal(4e-6, 1e-6)])
    monkeypatch.setattr(calibration, "measure_marginal", lambda *_: next(runs))
    found = calibration.calibrate(spark, check(load.network, spark), {load.source: load.tuples(calibration.FEW)})
    cores = spark.sparkContext.defaultParallelism
    assert found.reading == pytest.approx(1e-6 * cores)
    with pytest.raises(StopIteration):
        next(runs)
