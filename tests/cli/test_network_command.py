"""``slipstream network``: what can be known without Spark is said before it starts, and nothing is said twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from commands import Slipstream
from slipstream._cli.network.network_options import assign_rates, parse_rates
from slipstream._errors import BadArgument
from slipstream._io.train_files import last_arrival
from slipstream._network import yaml_files
from slipstream._network.running.run_folder import Execution
from slipstream._spark import session

NETWORKS = Path(__file__).parents[2] / "examples" / "networks"
BORDER, SOLDIERS = NETWORKS / "border.yaml", NETWORKS / "soldiers.csv"


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "build", refuse)


MISTAKES = [
    ("pos: bigint}", "pos: timestamp}", "unknown type 'timestamp'"),
    ("boxes:", "boxs:", "no field 'boxs'"),
    ("network: border", "network: [border", "line 2"),
    ("filter: [pos >= 30]", "filtre: [pos >= 30]", "Give one of: filter"),
    ("pos >= 30", "poss >= 30", "column 'poss' does not exist"),
    ("pos >= 30", "pos >=", "is not an SQL expression"),
    ("from: crowd}", "from: crowds}", "'crowds' does not exist"),
    ("count(*)", "mode(pos)", "window function 'mode' does not exist"),
    ("{on: time, slack: 1}", "{on: tim, slack: 1}", "order column 'tim' does not exist"),
    ("size: 1", "size: 0", "must be above 0"),
    ("    from: enough", "    from: enough.7", "enough has no output 7"),
]


@pytest.mark.parametrize(("old", "new", "complaint"), MISTAKES, ids=[mistake[2][:30] for mistake in MISTAKES])
@pytest.mark.usefixtures("without_spark")
def test_a_mistake_in_the_file_is_found_without_spark(
    slipstream: Slipstream, tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    text = BORDER.read_text()
    assert old in text
    (tmp_path / "net.yaml").write_text(text.replace(old, new))
    for command in (
        ("check",),
        ("describe",),
        ("run", "--out", tmp_path / "out", "--input", f"soldiers={SOLDIERS}"),
    ):
        refused = slipstream("network", command[0], tmp_path / "net.yaml", *command[1:])
        assert (refused.code, refused.out) == (3, "")
        assert complaint in " ".join(refused.err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["net.yaml"]


@pytest.mark.usefixtures("without_spark")
def test_arguments_are_checked_without_spark(slipstream: Slipstream, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("sid,time,pos\n1,2,3\n1,x,3\n")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    new = ("--out", tmp_path / "out")
    good = ("--input", f"soldiers={SOLDIERS}")
    for code, complaint, arguments in (
        (2, "Give --input soldiers=FILE.", ("run", BORDER, *new)),
        (2, "not NAME=FILE", ("run", BORDER, *new, "--input", "soldiers")),
        (2, "no source 'soldier'", ("run", BORDER, *new, "--input", f"soldier={SOLDIERS}")),
        (2, "no such file", ("run", BORDER, *new, "--input", "soldiers=none.csv")),
        (3, "bad.csv, line 3, column time", ("run", BORDER, *new, "--input", f"soldiers={tmp_path / 'bad.csv'}")),
        (2, "exists and is not an empty folder", ("run", BORDER, "--out", tmp_path / "there", *good)),
        (2, "not the folder of a network", ("run", BORDER, "--out", tmp_path / "there")),
        (2, "no arc 'under' to tap", ("run", BORDER, *new, *good, "--tap", "under")),
        (2, "has no table 'firms'", ("run", BORDER, *new, *good, "--table", "firms=x.csv")),
        (2, "--shed needs --rate", ("run", BORDER, *new, *good, "--shed")),
        (2, "no such file", ("run", BORDER, *new, *good, "--functions", tmp_path / "none.py")),
        (2, "no such file", ("check", tmp_path / "none.yaml")),
        (2, "--rate soldier: no such source", ("check", BORDER, "--rate", "soldier=3", *good)),
        (2, "--rate soldier: no such source", ("run", BORDER, *new, *good, "--rate", "soldier=3")),
        (2, "--rate 0: not a number of tuples per second", ("run", BORDER, *new, *good, "--rate", "0")),
        (2, "--rate soldiers=: not a number", ("check", BORDER, "--rate", "soldiers=", *good)),
        (2, "Give --input soldiers=FILE.", ("check", BORDER, "--rate", "soldiers=3")),
        (2, "Give --input soldiers=FILE.", ("check", BORDER, "--rate", "3")),
        (2, "no such file", ("describe", BORDER, "--input", "soldiers=none.csv")),
        (2, "its folder does not exist", ("draw", BORDER, "--out", tmp_path / "no" / "border.svg")),
        (2, "not the folder of a network", ("attach", tmp_path / "there", "crossings", BORDER, *new)),
    ):
        refused = slipstream("network", *arguments)
        assert (refused.code, refused.out) == (code, ""), refused.err
        assert complaint in " ".join(refused.err.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "there"]


@pytest.mark.usefixtures("without_spark")
def test_a_missing_input_is_found_before_heavy_modules_are_imported(tmp_path: Path) -> None:
    command = ["network", "run", str(NETWORKS / "border.yaml"), "--out", str(tmp_path / "out")]
    script = f"import sys, slipstream._cli; sys.argv += {command!r}\n"
    script += "try: slipstream._cli.main()\nfinally: print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert "no input for the source soldiers" in done.stderr
    assert not {"numba", "pandas", "pyspark"} & {*done.stdout.split()}


def test_what_has_delivered_nothing_says_so(slipstream: Slipstream, tmp_path: Path) -> None:
    Execution.lay_out(tmp_path / "run", yaml_files.load(BORDER))
    inspected = slipstream("network", "inspect", tmp_path / "run", "alerts")
    assert (inspected.code, inspected.out) == (0, "")
    assert "alerts: no tuples so far" in inspected.err
    assert slipstream("network", "inspect", tmp_path / "run", "alerts", "--json").json == []
    monitored = slipstream("network", "monitor", tmp_path / "run")
    assert (monitored.code, monitored.out) == (0, "")
    assert "nothing has been delivered so far" in " ".join(monitored.err.split())
    refused = slipstream("network", "attach", tmp_path / "run", "crossing", BORDER, "--out", tmp_path / "new")
    assert (refused.code, "no such connection point" in refused.err) == (2, True)


def test_a_box_is_described_with_what_was_left_out(spark, slipstream: Slipstream) -> None:
    described = slipstream("network", "describe", BORDER, "--json")
    crowd = next(box for box in described.json["boxes"] if box["box"] == "crowd")
    assert "size 1 advance 1" in crowd["what"]
    shown = slipstream("network", "describe", BORDER).out
    assert shown.splitlines()[0].strip() == "border: 1 stage"


def test_stages_are_described_with_their_keys(spark, slipstream: Slipstream) -> None:
    network = NETWORKS / "linear_road.yaml"
    command = ("network", "describe", network, "--functions", network.with_suffix(".py"), "--parallel", 2)
    described = slipstream(*command, "--json").json
    first, second = described["stages"][:2]
    assert (first["keys"], first["partitions"]) == ([["vid", "qid"], ["vid", "xway"], ["xway", "dir", "seg"]], 2)
    assert (second["keys"], second["partitions"]) == ([], 1)
    assert {box["stage"] for box in described["boxes"]} == {0, *(stage["stage"] for stage in described["stages"])}
    assert "2 partitions by" in slipstream(*command).err


@pytest.mark.usefixtures("without_spark")
def test_a_network_that_has_begun_keeps_its_partitions(slipstream: Slipstream, tmp_path: Path) -> None:
    Execution.lay_out(tmp_path / "run", yaml_files.load(BORDER))
    refused = slipstream("network", "run", BORDER, "--out", tmp_path / "run", "--parallel", 3)
    assert (refused.code, "was started with 1" in " ".join(refused.err.split())) == (2, True)


SPEEDS = """
network: speeds
version: 1
sources:
  cars: {id: text, speed: integer}
boxes:
  named: {map: {id: id, mph: speed * 5 / 8}, from: cars}
  late: {filter: [mph > 10], from: named}
  ours: {filter: [id <> 'x'], from: late}
outputs:
  fast: {from: ours}
"""


def test_a_network_is_optimised_by_what_a_feed_has_at_the_start(
    spark, slipstream: Slipstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails with the first batch, and resumes with the network that was chosen."""
    (tmp_path / "net.yaml").write_text(SPEEDS)
    (tmp_path / "in").mkdir()
    rows = [{"id": "abx"[number % 3], "speed": number % 40} for number in range(200)]
    (tmp_path / "in" / "1.json").write_text("".join(json.dumps(row) + "\n" for row in rows) + "no tuple\n" * 3)
    command = ("network", "run", tmp_path / "net.yaml", "--out", tmp_path / "out")
    # in the folder of the job, so that what measures the boxes does not fail
    monkeypatch.setenv("SLIPSTREAM_FAILPOINT", f"outputs.before-journal:{tmp_path / 'out' / 'failed'}:ENOSPC")
    failed = slipstream(*command, "--input", f"cars={tmp_path / 'in'}", "--format", "json", "--optimise")
    assert (failed.code, failed.out) == (4, "")
    told = " ".join(failed.err.split())
    assert "measuring the tuples available now: 200 of cars (at most 100,000, or 3 s of reading)" in told
    # by their costs, one filter goes before the map, or both become one
    assert "optimised: " in told, failed.err
    chosen = yaml_files.load(tmp_path / "out" / "network.yaml")
    assert chosen != yaml_files.load(tmp_path / "net.yaml")
    assert "--optimise needs --input" in slipstream(*command, "--optimise").err
    done = slipstream(*command, "--json")
    expected = [row for row in rows if row["id"] != "x" and row["speed"] * 5 / 8 > 10]
    assert (done.code, done.json) == (0, {"fast": len(expected), "rejects": 3}), done.err
    assert yaml_files.load(tmp_path / "out" / "network.yaml") == chosen
    assert slipstream(*command, "--json").json == done.json
    # a complete job does not call rows its own that somebody else has written
    table = str(tmp_path / "out" / "outputs" / "fast")
    write_deltalake(table, pa.table(DeltaTable(table).to_pyarrow_table()).slice(0, 1), mode="append")
    refused = slipstream(*command, "--json")
    assert refused.code == 3
    assert "Something else has changed this table" in refused.err


def test_a_feed_with_nothing_to_measure_by_runs_as_it_is_written(spark, slipstream: Slipstream, tmp_path: Path) -> None:
    (tmp_path / "net.yaml").write_text(SPEEDS)
    (tmp_path / "in").mkdir()
    told = slipstream("network", "run", tmp_path / "net.yaml", "--out", tmp_path / "out", "--optimise", "--format",
                      "json", "--input", f"cars={tmp_path / 'in'}")  # fmt: skip
    assert told.code == 0, told.err
    assert "cars has no tuples yet to measure; the network runs as it is written" in " ".join(told.err.split())
    assert yaml_files.load(tmp_path / "out" / "network.yaml") == yaml_files.load(tmp_path / "net.yaml")


TWO = """
network: two
version: 1
sources:
  slow: {time: integer}
  fast: {time: integer}
boxes:
  both: {union: true, from: [slow, fast]}
outputs: {all: {from: both}}
"""


def test_trains_and_rates_of_a_recording_may_differ_by_source(tmp_path: Path) -> None:
    tables = dict.fromkeys(("slow", "fast"), pa.table({"time": range(6)}))
    made = Execution.record(
        tmp_path, yaml_files.loads(TWO), tables, train={"slow": 2, "fast": 6}, rate={"slow": 1, "fast": 2}
    )
    found = {f"{train.parent.name}/{train.name[:-8]}": last_arrival(train) / 1e6 for train in made.waiting()}
    assert found == {
        "fast/train-00000000": 2.5,
        "slow/train-00000000": 1.0,
        "slow/train-00000001": 3.0,
        "slow/train-00000002": 5.0,
    }


def test_a_rate_is_of_every_source_or_of_one() -> None:
    network = yaml_files.loads(TWO)
    assert assign_rates(network, {}) == {}
    assert assign_rates(network, parse_rates(["10"])) == {"slow": 10.0, "fast": 10.0}
    assert assign_rates(network, parse_rates(["10", "fast=1000"])) == {"slow": 10.0, "fast": 1000.0}
    with pytest.raises(BadArgument, match=r"no --rate for slow\."):
        assign_rates(network, parse_rates(["fast=1000"]))
