"""``slipstream history`` as a person meets it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from commands import Slipstream
from slipstream._feeds.tuple_text import import_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINE = "0,0,5,32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1\n"


def test_makes_a_history_once_and_refuses_to_make_another_in_its_place(
    slipstream: Slipstream, tmp_path: Path, spark: SparkSession
) -> None:
    (tmp_path / "one.dat").write_text(LINE)
    run = import_text(tmp_path / "one.dat", tmp_path / "run").path
    made = slipstream("history", run, "--seed", 4, "--json")
    assert made.code == 0
    assert made.json == {
        "history": str(run / "history"),
        "seed": 4,
        "expressways": 1,
        "vehicles": 1,
        "segment_rows": 20_160_000,
        "toll_rows": 69,
    }
    again = slipstream("history", run, "--seed", 4, "--json")
    assert (again.code, again.json) == (0, made.json)
    assert f"{run / 'history'}: already complete." in again.err
    other = slipstream("history", run)
    assert (other.code, other.out) == (2, "")
    assert "exists" in other.err
    assert "--overwrite" in other.err


def test_a_damaged_run_ends_with_one_message(slipstream: Slipstream, tmp_path: Path) -> None:
    (tmp_path / "one.dat").write_text(LINE)
    run = import_text(tmp_path / "one.dat", tmp_path / "run")
    (run.path / run.manifest.expressways[0].file).write_bytes(b"PAR1")
    ended = slipstream("history", run.path)
    assert ended.code == 3
    assert "expressway-00000.parquet: missing or truncated" in ended.err
    assert "Traceback" not in ended.err
    assert slipstream("history", tmp_path / "nothing").code == 2
