"""Networks on live feeds: every tuple once, in the order of arrival, through pauses, steps and restarts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from oracles.network import interpret
from services import service
from slipstream._errors import BadArgument, BadInput
from slipstream._io.chunks import CHUNK, OPENING, REJECTED, to_arrow_stream
from slipstream._io.named_feeds import make_feed
from slipstream._network import Builder
from slipstream._network.algebra import Network, Order
from slipstream._network.planning.plan import plan
from slipstream._network.quality.optimiser import optimise
from slipstream._network.quality.qos import Graph, Quality
from slipstream._network.quality.shedding import Marker, places
from slipstream._network.quality.statistics import Statistics
from slipstream._network.running import run_folder
from slipstream._network.running.adhoc import attach
from slipstream._network.running.driving import drive
from slipstream._network.running.run_folder import Execution
from slipstream._network.schemas import check
from slipstream._network.tasks import train_intake
from slipstream._network.tasks.parcels import Row
from slipstream._runtime.watching.status import has_finished

CAR = {"id": "text", "time": "integer", "seg": "integer", "spd": "float"}


def slow_segments() -> Network:
    net = Builder("slow")
    slow = net.source("cars", **CAR).filter("spd < 50", name="slow")
    slow.aggregate({"cars": "count(*)"}, Order("time", 0, ("seg",)), size=10, name="counted").to("segments")
    slow.map({"id": "upper(id)", "time": "time"}, name="named").to("names")
    return net.build()


def reports(seconds: range) -> list[dict[str, Any]]:
    return [
        {"vin": f"car{i}", "ts": 1000 * second + i, "seg": i % 3, "spd": float((7 * i + second) % 100)}
        for second in seconds
        for i in range(10)
    ]


def wanted(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    feed = [
        ("cars", 0, {"id": row["vin"], "time": row["ts"] // 1000, "seg": row["seg"], "spd": row["spd"]}) for row in rows
    ]
    return {name: [event.values for event in events] for name, events in interpret(slow_segments(), feed).items()}


def taken(run: Execution) -> int:
    return sum(entry["taken"].get("cars", 0) for entry in run.monitor.entries())


def comes_to_pause(run: Execution) -> bool:
    """A line of the journal can be read before it is durable, and a step counts after that."""
    for _ in range(100):
        if run.control == "pause":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("parallel", [1, 2])
def test_a_folder_that_fills(spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parallel: int) -> None:
    """Paused, stepped, left and resumed; a line that is no tuple is rejected; the end is said by a mark."""
    monkeypatch.setattr(run_folder, "REHEARSALS", 2)
    arriving = tmp_path / "arriving"
    arriving.mkdir()

    def arrive(name: str, rows: list[dict[str, Any]], more: str = "") -> None:
        lines = "".join(f"{row['vin']},{row['ts']},{row['seg']},{row['spd']}\n" for row in rows)
        (arriving / f".{name}").write_text(f"vin,ts,seg,spd\n{lines}{more}")
        (arriving / f".{name}").rename(arriving / name)

    arrive("a.csv", reports(range(10)))
    columns = {"id": "vin", "time": "ts:ms"}
    feed = make_feed(str(arriving), CAR, columns=columns, follow=True)
    assert (feed.encoding, feed.header) == ("csv", "vin,ts,seg,spd")
    run = Execution.on_feeds(tmp_path / "run", slow_segments(), {"cars": feed}, parallel=parallel)

    def until(*steps: Callable[[], bool]) -> Callable[[], bool]:
        rest = iter(steps)
        now = [next(rest)]

        def look() -> bool:
            time.sleep(0.05)
            if now[0]():
                now[:] = [next(rest, lambda: False)]
            return now[0] is leaving

        return look

    def leaving() -> bool:
        return False

    def paused() -> bool:
        if taken(run) < 100:
            return False
        run.pause()
        time.sleep(0.3)  # a batch that was planned before it may still come
        arrive("b.csv", reports(range(10, 20)), "oops\n")
        time.sleep(0.5)
        assert taken(run) == 100
        run.step()
        return True

    def stepped() -> bool:
        if taken(run) < 200:
            return False
        assert comes_to_pause(run)
        return True

    drive(spark, run, rest=until(paused, stepped, leaving))
    assert taken(run) == 200
    assert not has_finished(run.folder, "elsewhere")

    again = Execution.open(tmp_path / "run")
    again.resume()
    arrive("c.csv", reports(range(20, 30)))
    Path(f"{arriving}.end").touch()
    drive(spark, again)
    assert taken(again) == 300
    assert has_finished(again.folder, again.source)
    everything = wanted(reports(range(30)))
    for output in ("segments", "names"):
        assert again.inspect(output, last=1000) == everything[output]
        assert [row.asDict() for row in again.results(spark, output).collect()] == everything[output]
    assert again.inspect("rejects") == [{"source": "cars", "reason": "fields", "line": "oops"}]
    assert again.monitor.rejected() == (1, 301)
    assert again.shed() == []
    assert all(entry["outputs"][name]["worst"] < 300 for entry in again.monitor.entries() for name in entry["outputs"])


def kept_and_viewed() -> Network:
    """Slow cars, kept for queries to come; a view of the last of them; all of it behind a map that could wait."""
    net = Builder("kept")
    named = net.source("cars", **CAR).map({"id": "upper(id)", "time": "time", "spd": "spd"}, name="named")
    slow = named.filter("spd < 50", name="slow").keep("slow_cars")
    slow.view("last", tuples=3)
    slow.filter("spd < 10", name="slower").to("standing", Quality(delay=Graph(((0, 1), (300, 1), (600, 0)))))
    return net.build()


def test_queries_points_views_taps_and_the_monitor_on_a_live_feed(
    spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An optimised network follows a file; an ad hoc query comes in the middle, and misses nothing."""
    monkeypatch.setattr(run_folder, "REHEARSALS", 2)
    rows, file = reports(range(30)), tmp_path / "cars.json"
    lines = [json.dumps({**row, "ts": row["ts"] // 1000}) + "\n" for row in rows]
    file.write_text("".join(lines[:150]))
    better = optimise(check(kept_and_viewed(), spark), Statistics(), lambda network: check(network, spark))
    assert better.steps
    feed = make_feed(str(file), CAR, columns={"id": "vin", "time": "ts"}, follow=True)
    run = Execution.on_feeds(tmp_path / "run", better.network, {"cars": feed})
    asked = Builder("asked")
    asked.source("slow_cars", id="text", time="integer", spd="float").filter("spd > 40").to("fast")
    queries: list[Execution] = []

    def rest() -> bool:
        time.sleep(0.05)
        if taken(run) >= 150 and not queries:
            queries.append(attach(spark, run, "slow_cars", asked.build(), tmp_path / "query"))
            with file.open("a") as more:
                more.writelines(lines[150:])
            Path(f"{file}.end").touch()
        return False

    drive(spark, run, rest=rest)
    slow = [{"id": row["vin"].upper(), "time": row["ts"] // 1000, "spd": row["spd"]} for row in rows if row["spd"] < 50]
    assert run.inspect("slow_cars", last=1000) == slow
    assert run.inspect("last", last=3) == slow[-3:]  # a view keeps whole batches
    assert run.inspect("standing", last=1000) == [row for row in slow if row["spd"] < 10]
    totals = run.monitor.totals()["standing"]
    assert (totals["good"], totals["delivered"]) == (1, 1)
    (query,) = queries
    query.run(spark)
    assert query.inspect("fast", last=1000) == [row for row in slow if row["spd"] > 40]


def rows_of(*rows: tuple[int, int, int, int, bytes]) -> list[Row]:
    return [Row(0, *row) for row in rows]


def test_rows_become_trains_in_the_order_of_their_arrival() -> None:
    net = Builder("two")
    left, right = net.source("left", n="integer"), net.source("right", n="integer")
    left.union(right, name="both").to("out")
    made = plan(check(net.build(), None))

    def train(*numbers: int) -> bytes:
        return to_arrow_stream(pa.table({"n": pa.array(numbers, pa.int64())}))

    rejects = to_arrow_stream(pa.table({"reason": ["json"], "line": ["x"]}))
    found = train_intake.read_batch(
        made,
        rows_of(
            (0, 5, CHUNK, 200, train(3, 4)),
            (1, 0, CHUNK, 150, train(2)),
            (0, 1, CHUNK, 100, train(1)),
            (1, 9, REJECTED, 150, rejects),
        ),
        batch=7,
    )
    first = 7 << 40
    assert found.trains["left"].columns["n"].tolist() == [1, 3, 4]
    assert found.trains["left"].order[:, 0].tolist() == [first, first + 2, first + 3]
    assert found.trains["right"].order[:, 0].tolist() == [first + 1]
    assert found.trains["left"].ts.tolist() == [100_000, 200_000, 200_000]
    assert found.rejects is not None
    assert found.counts == {"taken": {"left": 3, "right": 1, "rejects": 1}, "dropped": {}}
    assert train_intake.read_batch(made, rows_of((0, -1, OPENING, 0, b"")), 0).is_opening


def test_tuples_of_a_feed_are_shed_by_the_shares_that_hold(tmp_path: Path) -> None:
    net = Builder("one")
    net.source("cars", n="integer").filter("n >= 0", name="all").to("out")
    network = net.build()
    made, marker = plan(check(network, None)), Marker(str(tmp_path), network)
    rows = rows_of((0, 0, CHUNK, 100, to_arrow_stream(pa.table({"n": pa.array(range(1000), pa.int64())}))))
    assert not train_intake.read_batch(made, rows, 1, marker).trains["cars"].shed.any()
    (tmp_path / "shed.json").write_text(json.dumps({str(places(network)[0]): 0.25}))
    assert train_intake.read_row(made, rows[0], marker)[1].dropped, "where tuples are read it is the same"
    found = train_intake.read_batch(made, rows, 1, marker)
    lost = int((found.trains["cars"].shed & 1).sum())
    assert 200 < lost < 300
    assert found.counts["dropped"] == {"cars": {str(places(network)[0]): lost}}
    again = train_intake.read_batch(made, rows, 1, marker)
    assert (again.trains["cars"].shed == found.trains["cars"].shed).all(), "a batch that is repeated drops the same"


def test_feeds_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "cars.csv").write_text("vin,ts\n")
    with pytest.raises(BadArgument, match="no field 'id'"):
        make_feed(str(tmp_path / "cars.csv"), CAR)
    with pytest.raises(BadArgument, match="no file with a header"):
        make_feed(str(tmp_path / "later.csv"), CAR, follow=True)
    with pytest.raises(BadArgument, match="a socket cannot carry"):
        make_feed("tcp:127.0.0.1:1", CAR, encoding="arrow")
    with pytest.raises(BadArgument, match="no such file"):
        make_feed(str(tmp_path / "cars.json"), CAR)
    other = make_feed(str(tmp_path / "cars.csv"), {"id": "text"}, columns={"id": "vin"})
    from slipstream._io.readers.lines import LineInput, LineReader

    (tmp_path / "cars.csv").write_text("ts,vin\n")
    reader = LineReader(LineInput(str(tmp_path / "cars.csv"), follow=False, header=other.header))
    end = reader.latestOffset(reader.initialOffset(), None)
    with pytest.raises(BadInput, match="line 1: not the header"):
        [list(reader.read(part)) for part in reader.partitions(reader.initialOffset(), end)]


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


@pytest.mark.long
def test_a_topic_with_four_partitions_and_a_kill(broker: str, tmp_path: Path) -> None:
    """Every message once, though the engine is killed in the middle; the bad one is rejected."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = f"cars-{uuid.uuid4().hex}"
    admin: Any = AdminClient({"bootstrap.servers": broker})
    admin.create_topics([NewTopic(topic, 4, 1)])[topic].result(30)
    producer: Any = Producer({"bootstrap.servers": broker})
    (tmp_path / "net.yaml").write_text(
        "network: fast\nversion: 1\nsources:\n  cars: {id: text, time: float, spd: float}\n"
        "boxes:\n  fast: {filter: [spd >= 50], from: cars}\noutputs:\n  fast: {from: fast}\n"
    )
    out = tmp_path / "out"
    command = [sys.executable, "-m", "slipstream", "network", "run", str(tmp_path / "net.yaml"), "--out", str(out)]
    first = ["--input", f"cars=kafka:{broker}/{topic}", "--columns", "id=vin,time=ts:ms", "--follow"]
    rows = reports(range(400))

    def send(part: list[dict[str, Any]]) -> None:
        for row in part:
            producer.produce(topic, json.dumps(row).encode(), partition=row["seg"])
        assert producer.flush(60) == 0

    engine = subprocess.Popen([*command, *first], stderr=subprocess.PIPE, text=True)
    assert engine.stderr is not None
    assert any("Ready" in line for line in engine.stderr)
    send(rows[:2000])
    deadline = time.monotonic() + 60
    while not Execution.open(out).monitor.entries() and time.monotonic() < deadline:
        time.sleep(0.05)
    engine.kill()
    engine.wait()
    producer.produce(topic, b"not a report", partition=3)
    send(rows[2000:])
    producer.produce(topic, b"", partition=3)
    assert producer.flush(60) == 0
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    run = Execution.open(out)
    found = sorted((row["id"], row["time"]) for row in run.inspect("fast", last=10_000))
    assert found == sorted((row["vin"], row["ts"] / 1000) for row in rows if row["spd"] >= 50)
    assert run.inspect("rejects") == [{"source": "cars", "reason": "json", "line": "not a report"}]
