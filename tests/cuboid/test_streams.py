"""Streams into cuboids in Spark: any DataFrame, and the toll engine's state, both at once, against plain oracles."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from cuboid.plain import members
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._cuboid import consistency, declare, example_series
from slipstream._cuboid.cuboid_feeds import make_cuboid_feed
from slipstream._cuboid.query.one_off import run_query, run_query_in_spark
from slipstream._cuboid.snapshots.snapshot import Snapshot
from slipstream._errors import BadArgument
from slipstream._feeds.tuple_text import export_text
from slipstream._feeds.tuples import MILE
from slipstream._io import outputs
from slipstream._linear_road.job.engine import Settings, toll_run
from slipstream._linear_road.output_tables import answers_frame
from slipstream._linear_road.state.cars import Terms
from slipstream._network.planning.compiler import compile_network
from slipstream._network.running.filling import build_network, fill, find_cuboid, open_existing, read_run
from slipstream._network.running.run_folder import newest_tuples
from slipstream._network.schemas import check

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slipstream._feeds.run import Run

W = "CREATE PATTERN w AS (9, 3, 6, 3, 9);"
STOCKS = (
    "CREATE CUBOID stock (stock_id INT KEY, price AST(10), time BIGINT);"
    + W
    + "CREATE QUERY members AS SELECT stock_id, ticks(price) AS tick, correlation(price, w) AS r FROM stock "
    "WHERE correlation(price, w) > 0.95;"
)
CARS = W + (
    "CREATE QUERY drivers AS SELECT vid, ticks(speed) AS tick, correlation(speed, w) AS r FROM car "
    "WHERE correlation(speed, w) > 0.9;"
)
TICKS = 600


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Run:
    traffic = Traffic(expressways=2, minutes=6, demand=2.0, accident_every=2, returning=0.0)
    return simulate(spark, traffic, 3, tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="module")
def both(spark: SparkSession, run: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Seven stocks and a Linear Road stream, each with its cluster around a W; two rows of stocks are bad."""
    folder = tmp_path_factory.mktemp("both")
    example_series.write(folder / "ticks", TICKS, seed=7, files=3)
    with (folder / "ticks" / "ticks-00002.csv").open("a") as file:
        file.write("9,,1.5\n9,3000000000000,x\n")
    script = declare.parse(STOCKS)
    feed = replace(make_cuboid_feed(str(folder / "ticks"), script.cuboids["stock"]), most_files=1)
    fill(spark, feed, build_network(script), folder / "stocks", fragments=2)
    toll_run(spark, run, folder / "tolls", Settings(batch_seconds=100, snapshot=True, queries=CARS, text=False))
    return folder / "stocks", folder / "tolls"


def stock_ticks() -> list[tuple[int, float]]:
    made = example_series.make(TICKS, seed=7)
    return list(zip(made["stock_id"].tolist(), made["price"].tolist(), strict=True))


def test_a_stream_of_stocks_is_kept_element_by_element(both: tuple[Path, Path]) -> None:
    plain: dict[int, deque[float]] = {}
    for key, price in stock_ticks():
        plain.setdefault(key, deque(maxlen=10)).appendleft(price)
    stocks = Snapshot.open(both[0])["stock"]
    assert {key: stocks[key].price[:] for key in range(7)} == {key: list(past) for key, past in plain.items()}
    assert stocks[3].price.ticks == TICKS
    assert stocks[3].time == TICKS - 1
    rejected = outputs.read(both[0], "rejects").to_pylist()
    assert {row["reason"] for row in rejected} == {"no stock_id", "float:price"}
    lines = {row["reason"]: row["line"] for row in rejected}
    assert lines["float:price"] == "9,3000000000000,x"
    assert json.loads(lines["no stock_id"]) == {"stock_id": None, "price": 1.5, "time": 9}
    assert len(Snapshot.open(both[0]).fragments("stock")) == 2


def test_the_cluster_around_a_pattern_is_numpys_tick_by_tick(both: tuple[Path, Path]) -> None:
    """Whatever batches and fragments there were."""
    found = Snapshot.open(both[0]).results("members").to_pylist()
    expected = list(members(stock_ticks(), (9, 3, 6, 3, 9), 0.95))
    assert len(expected) > 20
    assert sorted((row["stock_id"], row["tick"]) for row in found) == sorted((key, tick) for key, tick, _ in expected)
    r = {(key, tick): value for key, tick, value in expected}
    assert all(abs(row["r"] - r[row["stock_id"], row["tick"]]) < 1e-9 for row in found)


@pytest.fixture(scope="module")
def reports(run: Run) -> list[dict[str, int]]:
    """The run's position reports, read from its text."""
    file = run.path.parent / "feed.dat"
    with file.open("wb") as out:
        export_text(run, out)
    names = ("type", "time", "vid", "speed", "xway", "lane", "dir", "segment", "pos")
    rows = (list(map(int, line.split(",")[:9])) for line in file.read_text().splitlines())
    return [dict(zip(names, row, strict=True)) for row in rows if row[0] == 0]


def test_the_cars_of_a_tolling_run_are_their_last_reports(
    both: tuple[Path, Path], reports: list[dict[str, int]]
) -> None:
    plain: dict[int, list[dict[str, int]]] = {}
    for report in reports:
        past = plain.setdefault(report["vid"], [])
        if past and report["time"] // 60 * 60 - Terms().forget_after > past[-1]["time"]:
            # silent for so long that it was forgotten: nothing of its past is promised
            past.clear()
        past.append(report)
    cars = Snapshot.open(both[1])["car"]
    newest = max(report["time"] for report in reports)
    seen = {vid: past for vid, past in plain.items() if past[-1]["time"] >= newest // 60 * 60 - Terms().forget_after}
    assert len(seen) > 50
    assert set(cars.scan(["key"])["key"].tolist()) == set(seen)
    for vid, past in seen.items():
        car = cars[vid]
        assert {name: getattr(car, name) for name in ("time", "xway", "lane", "dir", "pos")} == {
            name: past[-1][name] for name in ("time", "xway", "lane", "dir", "pos")
        }
        here = [report for report in past if report["xway"] == past[-1]["xway"]]
        assert car.segment[:][: len(here)] == [report["pos"] // MILE for report in reversed(here)][:6]
        assert car.speed[0] == past[-1]["speed"]


def test_the_drivers_in_the_cluster_are_numpys(both: tuple[Path, Path], reports: list[dict[str, int]]) -> None:
    speeds = ((report["vid"], float(report["speed"])) for report in sorted(reports, key=lambda report: report["time"]))
    expected = {(vid, round(r, 9)) for vid, _, r in members(speeds, (9, 3, 6, 3, 9), 0.9)}
    found = Snapshot.open(both[1]).results("drivers").to_pylist()
    assert {(row["vid"], round(row["r"], 9)) for row in found} == expected
    (last,) = newest_tuples(both[1], "drivers", 1)
    assert (last["vid"], round(last["r"], 9)) in expected, "an output as any other"


def test_a_snapshot_of_the_engine_fits_together(spark: SparkSession, both: tuple[Path, Path]) -> None:
    """Accounts against the tolls charged, segments against the answers given; Spark against one process."""
    snapshot = Snapshot.open(both[1])
    answers = answers_frame(spark, both[1]).toPandas()
    alerts = set(answers[answers.kind == 1].a)
    assert set(snapshot["accident"].scan(["segment"])["segment"].tolist()) <= alerts | set(range(100))
    segments = snapshot["segment"].scan()
    assert segments["key"].size == 2 * 200
    last = answers[(answers.kind == 0) & (answers.time >= 60 * (segments["minute"][0] - 1))]
    assert set(last.b) <= set(segments["toll"].tolist())
    accounts = snapshot["account"].scan(["charged"])
    assert 0 < accounts["charged"].sum() <= answers[answers.kind == 0].b.sum()
    for question in (
        "SELECT count(*), avg(speed[0]), max(time) FROM car",
        "SELECT xway, dir, count(*) AS n, min(avg(speed)) FROM car GROUP BY xway, dir ORDER BY 1, 2",
        "SELECT vid, speed FROM car WHERE slope(speed) > 0 ORDER BY vid LIMIT 5",
    ):
        alone, split = run_query(snapshot, question), run_query_in_spark(spark, snapshot, question)
        assert alone.keys() == split.keys()
        for name in alone:
            np.testing.assert_array_equal(alone[name], split[name])
    figures = consistency.compute_figures(consistency.read_moments(both[1]))
    assert figures["tuples"] > 0
    assert set(figures["query_us"]) == {"drivers"}
    consistency.plot_qos_map(consistency.read_moments(both[1])).savefig(both[1] / "qos.png")


@pytest.mark.long
def test_a_stream_goes_on_where_it_was_and_gives_dataframes(spark: SparkSession, tmp_path: Path) -> None:
    """New files after the end; continuous results as a DataFrame of their own; fragments by range."""
    script = declare.parse(STOCKS)
    example_series.write(tmp_path / "ticks", 40, seed=2, files=1)
    network = build_network(script, ranges=(3, 5))
    feed = make_cuboid_feed(str(tmp_path / "ticks"), script.cuboids["stock"])
    assert fill(spark, feed, network, tmp_path / "out")["elements"] == 7 * 40
    example_series.write(tmp_path / "more", 40, seed=3, files=1)
    (tmp_path / "more" / "ticks-00000.csv").rename(tmp_path / "ticks" / "ticks-00001.csv")
    assert fill(spark, feed, network, tmp_path / "out")["elements"] == 7 * 80
    assert fill(spark, feed, network, tmp_path / "out")["elements"] == 7 * 80, "nothing new"
    cuboids = [Snapshot.open(tmp_path / "out", fragments=[number])["stock"] for number in range(3)]
    assert [sorted(part.scan(["key"])["key"].tolist()) for part in cuboids] == [[0, 1, 2], [3, 4], [5, 6]]
    moves = build_network(declare.parse(STOCKS + "CREATE QUERY moves AS SELECT stock_id, delta(price) AS d FROM stock"))
    columns = "time bigint, stock_id bigint, price double"
    rows = spark.readStream.schema(columns).option("header", True).csv(str(tmp_path / "ticks"))
    found = compile_network(check(moves, spark), {"stream": rows}, parallel=2).output("moves").select("stock_id", "d")
    started = (
        found.writeStream.format("memory").queryName("moves").option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    started.trigger(availableNow=True).start().awaitTermination()
    assert spark.table("moves").count() == 7 * 80


def test_a_run_fills_a_cuboid(spark: SparkSession, run: Run, reports: list[dict[str, int]], tmp_path: Path) -> None:
    """Its position reports, in two fragments; a column may have another name there."""
    script = declare.parse(
        "CREATE CUBOID car (vid INT KEY, speed UTINYINT AST(4), pos INT);"
        "CREATE QUERY stopped AS SELECT vid, pos FROM car WHERE max(speed) = 0"
    )
    tuples = read_run(str(run.path), find_cuboid(script)[1], {"speed": "spd"})
    done = fill(spark, tuples, build_network(script), tmp_path / "out", fragments=2)
    assert (done["rows"], done["rejected"], done["elements"]) == (len(reports), 0, len(reports))
    past: dict[int, deque[int]] = {}
    stopped = []
    for report in sorted(reports, key=lambda report: report["time"]):
        mine = past.setdefault(report["vid"], deque(maxlen=4))
        mine.appendleft(report["speed"])
        if not any(mine):
            stopped.append((report["vid"], report["pos"]))
    cars = Snapshot.open(tmp_path / "out")["car"]
    assert {vid: cars[vid].speed[:] for vid in past} == {vid: list(mine) for vid, mine in past.items()}
    found = outputs.read(tmp_path / "out", "stopped").to_pylist()
    assert sorted((row["vid"], row["pos"]) for row in found) == sorted(stopped)
    assert fill(spark, tuples, build_network(script), tmp_path / "out", fragments=2) == done, "nothing new"


def test_a_run_is_refused_what_it_was_not_begun_with(spark: SparkSession, both: tuple[Path, Path], run: Run) -> None:
    with pytest.raises(BadArgument, match="started with --snapshot"):
        toll_run(spark, run, both[1], Settings(batch_seconds=100))
    others = (
        ("CREATE CUBOID s (stock_id INT KEY, price AST(3))", both[0], "another cuboid"),
        (STOCKS + "CREATE QUERY n AS SELECT stock_id FROM stock", both[0], "other queries"),
        (STOCKS + "CREATE QUERY n AS SELECT count(*) FROM stock", both[0].parent / "new", "cannot run continuously"),
        ("CREATE CUBOID s (stock_id INT KEY, volume INT)", both[0].parent / "new", "no column 'volume'"),
        ("CREATE PATTERN w AS (1, 2)", both[0].parent / "new", "declares 0 cuboids"),
    )
    for text, out, message in others:
        script = declare.parse(text)
        with pytest.raises(BadArgument, match=message):
            start_filling(both[0].parent / "ticks", script, out)


def start_filling(source: Path, script: declare.Script, out: Path) -> None:
    make_cuboid_feed(str(source), find_cuboid(script)[1])
    open_existing(out, build_network(script))
