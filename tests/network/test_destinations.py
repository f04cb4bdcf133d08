"""A network that sends its outputs elsewhere, through the command line; killed, and with mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import Slipstream
from linear_road.test_kafka import received
from services import service
from slipstream._errors import BadArgument
from slipstream._io import outputs
from slipstream._network import Builder, Keep, Order
from slipstream._network.planning.plan import plan
from slipstream._network.planning.stages import output_keys
from slipstream._network.running.run_folder import Execution, collect_destinations, newest_tuples
from slipstream._network.schemas import check
from slipstream._network.sql.translation import Translations
from slipstream._runtime.job import JobFile
from slipstream._tools.processes.failpoints import VARIABLE

NETWORK = """
network: fast
version: 1
sources:
  cars: {id: integer, speed: integer}
boxes:
  fast: {filter: [speed >= 50], from: cars}
outputs:
  fast: {from: fast, to: text:fast.csv}
"""


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    """A network and its input, a hundred trains."""
    (tmp_path / "net.yaml").write_text(NETWORK)
    rows = [f"{number},{number * 7 % 100}" for number in range(500)]
    (tmp_path / "cars.csv").write_text("\n".join(["id,speed", *rows, ""]))
    return ["network", "run", str(tmp_path / "net.yaml"), "--out", str(tmp_path / "out")]


EXPECTED = [{"id": number, "speed": number * 7 % 100} for number in range(500) if number * 7 % 100 >= 50]


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


@pytest.mark.long
@pytest.mark.parametrize("point", ["topic.before-commit", "topic.after-commit", "text.before-append"])
def test_a_network_that_is_killed_while_it_sends_sends_every_tuple_once(
    point: str, broker: str, given: list[str], tmp_path: Path
) -> None:
    topic = f"fast-{uuid.uuid4().hex}"
    command = [sys.executable, "-m", "slipstream", *given]
    first = ["--input", f"cars={tmp_path / 'cars.csv'}", "--train", "100", "--to", f"fast=kafka:{broker}/{topic}"]
    reached = tmp_path / "reached"
    engine = subprocess.Popen([*command, *first], env={**os.environ, VARIABLE: f"{point}:{reached}"})
    deadline = time.monotonic() + 300
    while not reached.exists():
        assert engine.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    engine.kill()
    engine.wait()
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    lines = received(broker, topic, len(EXPECTED) + 1)
    assert [json.loads(line) for line in lines] == EXPECTED
    text = (tmp_path / "out" / "fast.csv").read_text().splitlines()
    assert text == ['"id","speed"', *(f"{row['id']},{row['speed']}" for row in EXPECTED)]


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("fast", "--to fast: not OUTPUT=WHERE"),
        ("fast=fast.csv", "--to fast=fast.csv: fast.csv: not a destination"),
        ("slow=console", "no such output"),
        ("fast=kafka:127.0.0.1:1/fast", "cannot reach a broker"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_spark_starts(
    to: str, message: str, given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = Slipstream(capsys)(*given, "--input", f"cars={tmp_path / 'cars.csv'}", "--to", to)
    assert done.code != 0
    assert message in " ".join(done.err.split())
    assert not (tmp_path / "out" / "job.json").exists()


def test_a_network_that_has_begun_keeps_to_its_destinations(
    given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = Builder("n")
    net.source("cars", id="integer", speed="integer").to("all")
    begun = Execution.on_feeds(tmp_path / "out", net.build(), {}, to={"all": ["console"]})
    assert Execution.open(tmp_path / "out").to == begun.to == {"all": ["console"]}
    done = Slipstream(capsys)(*given, "--to", "all=text:elsewhere.csv")
    assert done.code != 0
    assert "was started with all=console" in " ".join(done.err.split())


def test_the_key_of_messages_is_what_the_network_groups_an_output_by() -> None:
    net = Builder("n")
    cars = net.source("cars", id="text", road="integer", time="integer", speed="integer")
    cars.filter("speed > 3").to("plain")
    by_car = cars.aggregate({"mean": "avg(speed)"}, Order("time", 0, ("id", "road")), size=60)
    by_car.to("grouped")
    by_car.filter("mean > 3").map({"vin": "id", "road": "road + 1", "mean": "mean"}).to("renamed")
    by_car.map({"mean": "mean"}).to("lost")
    by_car.union(by_car.filter("mean > 3")).to("twice")
    one, two = by_car.map({"id": "id"}), cars.map({"id": "id"})
    one.union(two).to("mixed")
    cars.through(Keep("CREATE CUBOID car (id STRING KEY, speed INT AST(3))"), name="kept").to("kept")
    cars.running({"n": "count(*)"}, "road").to("so_far")
    made = plan(check(net.build(), None))
    assert output_keys(made, Translations(made)) == {
        "plain": (),
        "grouped": ("id", "road"),
        "renamed": ("vin",),
        "lost": (),
        "twice": ("id", "road"),
        "mixed": (),
        "kept": ("id",),
        "so_far": ("road",),
    }


def test_only_outputs_with_tables_go_elsewhere() -> None:
    net = Builder("n")
    net.source("cars", id="integer").view("kept")
    with pytest.raises(BadArgument, match="no such output"):
        collect_destinations(net.build(), {"kept": ["console"]})


def test_outputs_of_any_job_are_inspected(tmp_path: Path) -> None:
    import pyarrow as pa

    rejects = pa.table({"reason": ["late", "fields"], "line": ["1", "2"]})
    job = JobFile("toll", 1, {})
    job.write(tmp_path)
    made = outputs.Outputs(tmp_path, job.id, {"rejects": rejects.schema})
    assert newest_tuples(tmp_path, "rejects") == []
    made.commit(0, [outputs.write(tmp_path, "rejects", rejects, 0)])
    assert newest_tuples(tmp_path, "rejects", last=1) == [{"reason": "fields", "line": "2"}]
    with pytest.raises(BadArgument, match="no output 'trips'"):
        newest_tuples(tmp_path, "trips")
