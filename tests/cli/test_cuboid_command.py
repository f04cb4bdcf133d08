"""``slipstream cuboid``: looking up, asking, results and figures of a snapshot, and what it says when it cannot."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import Slipstream
from slipstream._cli.cuboid_command import _print_rows
from slipstream._cuboid import declare
from slipstream._cuboid.consistency import Moment, compute_figures
from slipstream._cuboid.fragment_state import QUERY, FragmentState, as_table, make_empty_rows
from slipstream._cuboid.query.sql import Query
from slipstream._cuboid.snapshots import snapshot_files
from slipstream._io import outputs
from slipstream._runtime.state.store import MemoryStore
from slipstream._runtime.watching.metrics import FILE, BatchMetrics
from slipstream._spark import session
from slipstream._tools.logs import encode_line

SCRIPT = declare.parse(
    "CREATE CUBOID stock (stock_id INT KEY, price AST(3)); CREATE PATTERN up AS (1, 2, 3);"
    "CREATE QUERY rising AS SELECT stock_id, ticks(price) AS tick FROM stock WHERE correlation(price, up) > 0.9"
)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three batches of a stream, as `cuboid run` leaves them; the last is not committed."""
    out = tmp_path_factory.mktemp("out")
    snapshot_files.Catalogue(SCRIPT.cuboids, SCRIPT.patterns).write(out / "snapshot")
    query = Query.parse(SCRIPT.queries["rising"], SCRIPT.cuboids, SCRIPT.patterns)
    keeper, store = FragmentState(SCRIPT.cuboids["stock"]), MemoryStore()
    committed = outputs.Outputs(out, "test", {"rising": make_empty_rows(query).schema})
    for batch in range(3):
        keys = np.array([1, 2, 1], np.int64)
        keeper.append(keys, {"price": np.array([10.0, 5.0, 11.0]) + 5 * batch}, show=True)
        assert keeper.arrivals is not None
        with keeper.timed(QUERY + "rising"):
            found = as_table(query.compute(keeper.arrivals))
        keeper.save(batch, store)
        keeper.publish(out / "snapshot", "stock", 0, batch)
        measured = BatchMetrics(batch, 10.0 * batch, -1, -1, commit_ms=4000, phases_ms={}, state_bytes=0, run="a")
        with (out / FILE).open("ab") as log:
            log.write(encode_line(asdict(measured)))
        if batch < 2:
            committed.commit(batch, [outputs.write(out, "rising", found, batch)])
    return out


def test_keys_are_looked_up(slipstream: Slipstream, out: Path) -> None:
    assert slipstream("cuboid", "get", out, "STOCK[1].price[0]").json == 16.0
    assert slipstream("cuboid", "get", out, "stock", 1).json == {"stock_id": 1, "price": [16.0, 15.0, 11.0]}
    assert slipstream("cuboid", "get", out, "stock[2].price[:]").json == [10.0, 5.0]
    for reference, message in (
        ("stock[9]", "No stock_id 9"),
        ("stock[2].price[-2]", "only 2 elements"),
        ("bond[1]", "bond"),
    ):
        told = slipstream("cuboid", "get", out, reference)
        assert told.code == 2
        assert message in told.err
        assert "Traceback" not in told.err


def test_questions_are_answered_and_mistakes_pointed_at(slipstream: Slipstream, out: Path, tmp_path: Path) -> None:
    question = "SELECT stock_id, avg(price) AS mean, delta(price, 2) FROM stock ORDER BY 1"
    asked = slipstream("cuboid", "query", out, question, "--json")
    assert asked.json == {
        "batch": 1,
        "rows": [
            {"stock_id": 1, "mean": 14.0, "delta(price, 2)": 5.0},
            {"stock_id": 2, "mean": 7.5, "delta(price, 2)": None},
        ],
    }
    assert "as of batch 1" in slipstream("cuboid", "query", out, question).out
    (tmp_path / "f.py").write_text(
        "from slipstream._cuboid.query.stream_functions import atomic\n"
        "@atomic('twice')\ndef twice(v):\n    return 2 * v[:, 0]\n"
    )
    mine = slipstream(
        "cuboid", "query", out, "SELECT twice(price) t FROM stock", "--functions", tmp_path / "f.py", "--json"
    )
    assert [row["t"] for row in mine.json["rows"]] == [32.0, 20.0]
    told = slipstream("cuboid", "query", out, "SELECT prise FROM stock")
    assert told.code == 2
    assert "no attribute 'prise' in STOCK; it has stock_id, price; patterns: up" in told.err
    assert "       ^^^^^" in told.err
    assert slipstream("cuboid", "query", tmp_path, "SELECT 1 FROM stock").code == 2


def test_results_and_figures_are_of_committed_batches(slipstream: Slipstream, out: Path, tmp_path: Path) -> None:
    lines = slipstream("cuboid", "results", out, "rising").out.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"_batch": 1, "stock_id": 1, "tick": 3.0},
        {"_batch": 1, "stock_id": 1, "tick": 4.0},
    ]
    assert "queries: rising" in slipstream("cuboid", "results", out, "falling").err
    measured = slipstream("cuboid", "metrics", out, "--png", tmp_path / "qos.png", "--json").json
    assert (measured["batches"], measured["tuples"], measured["stable"]) == (2, 6, True)
    assert measured["arrival_rate_per_s"] == round(6 / 14, 1)
    assert list(measured["query_us"]) == ["rising"]
    assert (tmp_path / "qos.png").stat().st_size > 10_000


def test_the_capacity_left_is_what_commits_and_queries_leave() -> None:
    found = [Moment(0, 0.0, 4.0, 100, {"a": 1.0}, 10.0), Moment(1, 10.0, 6.0, 100, {"a": 1.0, "b": 2.0}, 10.0)]
    measured = compute_figures(found)
    assert measured["interarrival_us"] == 1e5
    assert measured["commit_us"] == 1e6 * (3 + 3) / 200
    assert measured["query_us"] == {"a": 1e4, "b": 1e4}
    assert measured["query_time_capacity_us"] == 1e6 * 10 / 200
    assert measured["interarrival_us"] == pytest.approx(
        measured["commit_us"] + sum(measured["query_us"].values()) + measured["query_time_capacity_us"]
    )
    assert not compute_figures([Moment(0, 0.0, 4.0, 10, {}, 4.0)])["stable"]


def test_ticks_are_made_from_a_seed(slipstream: Slipstream, tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert slipstream("cuboid", "ticks", "--ticks", 50, "--seed", seed, "--out", tmp_path / name).code == 0
    texts = ["".join(file.read_text() for file in sorted((tmp_path / name).iterdir())) for name in "abc"]
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].count("\n") == 50 * 7 + 4


def test_a_run_that_cannot_be_is_told_before_spark_starts(slipstream: Slipstream, tmp_path: Path) -> None:
    for schema, message in (
        ("CREATE CUBOID s (a INT)", "no key; declare one"),
        ("CREATE PATTERN p AS (1, 2)", "declares 0 cuboids"),
        ("CREATE CUBOID s (a INT KEY, b AST(2)); SELECT a FROM s", "needs a name"),
    ):
        told = slipstream("cuboid", "run", "--input", tmp_path, "--schema", schema, "--out", tmp_path / "out")
        assert told.code == 2
        assert message in told.err


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "build", refuse)


STOCK = "CREATE CUBOID stock (stock_id INT KEY, price AST(3))"


@pytest.mark.usefixtures("without_spark")
def test_arguments_are_checked_without_spark(slipstream: Slipstream, out: Path, tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text("stock_id,price\n1,2.5\n")
    (tmp_path / "bad.csv").write_text("id,price\n1,2.5\n")
    (tmp_path / "ticks.txt").touch()
    (tmp_path / "empty").mkdir()
    pq.write_table(pa.table({"stock_id": ["a"], "price": [2.5]}), tmp_path / "text.parquet")
    for given, schema, target, complaint in (
        ("none.csv", STOCK, "new", "none.csv: no such file or folder"),
        ("empty", STOCK, "new", "empty: the folder has no files"),
        ("ticks.txt", STOCK, "new", "unknown format .txt"),
        ("bad.csv", STOCK, "new", "no column 'stock_id'"),
        (
            "text.parquet",
            STOCK,
            "new",
            "column 'stock_id' is string; the cuboid declares a number. Declare the key as text",
        ),
        ("good.csv", STOCK, "bad.csv", "bad.csv: not a folder"),
        ("good.csv", STOCK, out, "has another cuboid"),
        ("good.csv", f"{STOCK}; CREATE QUERY q AS SELECT prise FROM stock", "new", "no attribute 'prise'"),
        ("good.csv", f"{STOCK}; CREATE QUERY q AS SELECT count(*) FROM stock", "new", "q"),
        ("good.csv", f"{STOCK}; CREATE QUERY rejects AS SELECT price FROM stock", "new", "cannot be named rejects"),
    ):
        told = slipstream(
            "cuboid", "run", "--input", tmp_path / given, "--schema", schema.replace("AST(3)", "AST(4)"), "--out",
            tmp_path / target,
        )  # fmt: skip
        assert (told.code, told.out) == (2, ""), told.err
        assert complaint in " ".join(told.err.split())
    good = ("cuboid", "run", "--input", tmp_path / "good.csv", "--schema", STOCK, "--out", tmp_path / "new")
    assert "not in increasing order" in slipstream(*good, "--ranges", "5,3").err
    assert "--max-rejects 2: not a share" in slipstream(*good, "--max-rejects", "2").err
    assert slipstream("cuboid", "query", out, "SELECT prise FROM stock", "--spark").code == 2
    assert "its folder does not exist" in " ".join(
        slipstream("cuboid", "metrics", out, "--png", tmp_path / "no" / "a.png").err.split()
    )
    assert not (tmp_path / "new").exists()


def test_a_single_file_fills_a_cuboid_and_rejects_decide(spark, slipstream: Slipstream, tmp_path: Path) -> None:
    """One file of a folder, with a name that patterns would take apart; then one in which no key is a number."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "ticks [1], a.csv").write_text("stock_id,price\n1,2.5\n1,3.5\n2,4\nx,5\n")
    (tmp_path / "in" / "ticks 1.csv").write_text("stock_id,price\n7,1\n")
    told = slipstream(
        "cuboid", "run", "--input", tmp_path / "in" / "ticks [1], a.csv", "--schema", STOCK, "--out", tmp_path / "out",
        "--max-rejects", "25%", "--json",
    )  # fmt: skip
    assert told.code == 0, told.err
    assert {name: told.json[name] for name in ("rows", "rejected", "keys")} == {"rows": 4, "rejected": 1, "keys": 2}
    assert not any(name.startswith("found_by") for name in told.json)
    assert slipstream("cuboid", "get", tmp_path / "out", "stock[1].price[:]").json == [3.5, 2.5]

    (tmp_path / "in" / "text.csv").write_text("stock_id,price\na,2.5\nb,3.5\n")
    refused = slipstream(
        "cuboid",
        "run",
        "--input",
        tmp_path / "in" / "text.csv",
        "--schema",
        STOCK,
        "--out",
        tmp_path / "text",
        "--json",
    )
    assert refused.code == 3
    assert refused.json["rejected"] == refused.json["rows"] == 2
    assert "2 of 2 rejected" in refused.err
    rows = outputs.read(tmp_path / "text", "rejects").to_pylist()
    assert {row["reason"] for row in rows} == {"integer:stock_id"}
    assert sorted(row["line"] for row in rows) == ["a,2.5", "b,3.5"]


def test_keys_that_are_texts_are_kept_and_looked_up(spark, slipstream: Slipstream, tmp_path: Path) -> None:
    """Two files, two fragments, a restart between them; 007 is not 7."""
    schema = "CREATE CUBOID car (vin STRING KEY, speed INT AST(3)); CREATE QUERY slow AS SELECT vin, speed[0] AS s "
    schema += "FROM car WHERE speed[0] < 20 AND vin <> 'slow but known'"
    (tmp_path / "in").mkdir()
    command = ("cuboid", "run", "--input", tmp_path / "in", "--schema", schema, "--out", tmp_path / "out",
               "--fragments", 2, "--json")  # fmt: skip
    (tmp_path / "in" / "1.csv").write_text("vin,speed\nWVW 1,5\n007,50\nslow but known,3\nWVW 1,60\n")
    assert slipstream(*command).json["keys"] == 3
    (tmp_path / "in" / "2.csv").write_text("vin,speed\n7,9\nWVW 1,7\n,1\n")
    os.utime(tmp_path / "in" / "1.csv", (1, 1))
    told = slipstream(*command, "--max-rejects", "50%")
    assert {name: told.json[name] for name in ("rows", "rejected", "keys")} == {"rows": 7, "rejected": 1, "keys": 4}
    assert slipstream("cuboid", "get", tmp_path / "out", "car", "WVW 1").json == {"vin": "WVW 1", "speed": [7, 60, 5]}
    assert slipstream("cuboid", "get", tmp_path / "out", "CAR['007'].speed[0]").json == 50
    assert slipstream("cuboid", "get", tmp_path / "out", "car", "7").json["speed"] == [9]
    assert "No vin WVW in cuboid CAR" in slipstream("cuboid", "get", tmp_path / "out", "car", "WVW").err
    asked = slipstream(
        "cuboid", "query", tmp_path / "out", "SELECT vin FROM car WHERE speed[0] < 50 ORDER BY 1", "--json"
    )
    assert [row["vin"] for row in asked.json["rows"]] == ["7", "WVW 1", "slow but known"]
    found = [json.loads(line) for line in slipstream("cuboid", "results", tmp_path / "out", "slow").out.splitlines()]
    assert sorted((row["vin"], row["s"]) for row in found) == [("7", 9.0), ("WVW 1", 5.0), ("WVW 1", 7.0)]


def test_after_a_failure_the_hint_is_true(
    spark, slipstream: Slipstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full when the second batch is to be committed; the same command resumes there."""
    (tmp_path / "in").mkdir()
    for number, price in ((1, 2.5), (2, 3.5)):
        (tmp_path / "in" / f"{number}.csv").write_text(f"stock_id,price\n1,{price}\n")
        os.utime(tmp_path / "in" / f"{number}.csv", (number, number))
    command = ("cuboid", "run", "--input", tmp_path / "in", "--schema", STOCK, "--out", tmp_path / "out", "--json")
    monkeypatch.setenv("SLIPSTREAM_FAILPOINT", f"outputs.after-journal:{tmp_path / 'failed'}:ENOSPC")
    failed = slipstream(*command)
    assert failed.code == 4
    error = json.loads(failed.err.splitlines()[-1])["error"]
    assert (error["code"], error["message"]) == ("disk-full", "The disk is full.")
    assert error["hint"].startswith("Committed output is safe, and the same command resumes")
    assert slipstream("cuboid", "get", tmp_path / "out", "stock[1].price[:]").json == [2.5]
    assert slipstream(*command).json["rows"] == 2
    assert slipstream("cuboid", "get", tmp_path / "out", "stock[1].price[:]").json == [3.5, 2.5]


def test_a_metric_of_nothing_is_told(slipstream: Slipstream, tmp_path: Path) -> None:
    snapshot_files.Catalogue(SCRIPT.cuboids).write(tmp_path / "snapshot")
    assert slipstream("cuboid", "metrics", tmp_path).code == 4


def test_answers_are_printed_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    _print_rows({"vid": [1234567], "sum(charged)": [5208630.0], "empty": [float("nan")]}, 3, as_json=False)
    printed = capsys.readouterr().out
    assert printed.startswith("as of batch 3\n")
    assert "│ 1234567 │    5,208,630 │" in printed
    _print_rows({"vid": []}, 3, as_json=False)
    assert capsys.readouterr().out == "as of batch 3: no rows\n"
