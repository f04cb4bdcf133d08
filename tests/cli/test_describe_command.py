"""``slipstream describe`` as a person meets it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import Slipstream
from slipstream._feeds.run import Run
from slipstream._feeds.tuple_text import import_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LINES = "".join(
    f"0,{t},{v},{30 + v},0,1,0,10,{52800 + t},-1,-1,-1,-1,-1,-1\n" for t in range(0, 90, 30) for v in (1, 2)
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "in.dat").write_text(LINES)
    return import_text(tmp_path / "in.dat", tmp_path / "run")


def test_prints_a_table_and_writes_the_picture(slipstream: Slipstream, run: Run, spark: SparkSession) -> None:
    done = slipstream("describe", run.path, "--verify")
    assert done.code == 0
    assert "published run" in done.out
    assert "tuples/s, minute 1" in done.out
    assert (run.path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_json_has_the_same_figures(slipstream: Slipstream, run: Run, tmp_path: Path, spark: SparkSession) -> None:
    done = slipstream("describe", run.path, "--json", "--png", tmp_path / "p.png").json
    assert {f["name"]: f["value"] for f in done["figures"]}["tuples"] == 6
    assert (done["seconds"], done["multiply"], done["history"], done["verified"]) == (61, 1, False, False)
    assert done["picture"] == str(tmp_path / "p.png")
    assert (tmp_path / "p.png").exists()
    assert not (run.path / "picture.png").exists()


def test_verify_finds_what_was_changed(slipstream: Slipstream, run: Run) -> None:
    file = run.path / run.manifest.expressways[0].file
    table = pq.read_table(file)
    pq.write_table(table.set_column(2, table.schema.field(2), pa.array([9] * table.num_rows, pa.int32())), file)
    ended = slipstream("describe", run.path, "--verify")
    assert (ended.code, ended.out) == (3, "")
    assert "contents differ from the manifest" in ended.err


def test_a_picture_that_cannot_be_written_is_refused(slipstream: Slipstream, run: Run, tmp_path: Path) -> None:
    ended = slipstream("describe", run.path, "--png", tmp_path / "no" / "p.png")
    assert (ended.code, ended.out) == (2, "")
    assert f"{tmp_path / 'no' / 'p.png'}: its folder does not exist" in ended.err


def test_an_expressway_that_is_not_stored_is_refused(slipstream: Slipstream, run: Run) -> None:
    ended = slipstream("describe", run.path, "--expressway", 7)
    assert ended.code == 2
    assert "--expressway 7: not stored in this run" in ended.err
