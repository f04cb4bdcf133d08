"""``slipstream simulate`` as a person meets it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from commands import Slipstream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_run_that_is_there_is_not_made_again(slipstream: Slipstream, tmp_path: Path, spark: SparkSession) -> None:
    command = ("simulate", "--expressways", 0.5, "--minutes", 1, "--out", tmp_path / "run", "--json")
    made = slipstream(*command)
    assert made.code == 0, made.err
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*")}
    again = slipstream(*command)
    assert (again.code, again.json) == (0, made.json)
    assert f"{tmp_path / 'run'}: already complete." in again.err
    other = slipstream(*command, "--seed", 2)
    assert (other.code, other.out) == (2, "")
    assert "exists" in other.err
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "run").rglob("*")} == before
