"""Files of others: out and in again, and every bad row kept with its reason."""

from __future__ import annotations

import gzip
import shutil

import pytest

from berlinmod.test_queries import town
from slipstream.berlinmod import exchange, queries
from slipstream.berlinmod.dataset import Dataset
from slipstream.berlinmod.generator import Plan, generate
from slipstream.errors import BadArgument, BadInput


@pytest.fixture(scope="module")
def small(spark, tmp_path_factory):
    out = tmp_path_factory.mktemp("small") / "data"
    generate(spark, Plan(scale=0.000025), town(), out)
    return Dataset.open(out)


@pytest.mark.parametrize("kind", exchange.FORMATS)
def test_what_is_exported_loads_again_the_same(spark, small, tmp_path, kind):
    exchange.export(spark, small, kind, tmp_path / "files")
    made, rejected = exchange.load(spark, tmp_path / "files", kind, tmp_path / "back")
    assert rejected == 0
    assert (made.vehicles, made.trips, made.units) == (
        small.manifest.vehicles,
        small.manifest.trips,
        small.manifest.units,
    )
    back = Dataset.open(tmp_path / "back")
    for name, key in (("dataScar", "Moid"), ("dataMtrip", "TripId"), ("QueryPoints", "Id"), ("QueryPeriods", "Id")):
        first, second = (d.table(spark, name).orderBy(key).toArrow() for d in (small, back))
        assert first.equals(second.cast(first.schema)), name


def test_bad_rows_are_kept_with_their_reason(spark, small, tmp_path):
    files = tmp_path / "files"
    exchange.export(spark, small, "published", files)
    trips = (files / "trips.csv").read_text()
    bad = [
        "1,9000001,2007-05-28 10:00:00,2007-05-28 09:00:00,0,0,1,1",
        "1,9000002,yesterday,2007-05-28 09:00:00,0,0,1,1",
        "1,9000003,2007-05-28 09:00:00,2007-05-28 10:00:00,0,zero,1,1",
        "99,9000004,2007-05-28 09:00:00,2007-05-28 10:00:00,0,0,1,1",
        "1,9000005,2007-05-28 09:00:00,2007-05-28 10:00:00,0,0,1,NaN",
        "1,9000006,2007-05-28 09:00:00,2007-05-28 10:00:00,0,0,1,1",
        "1,9000006,2007-05-28 09:30:00,2007-05-28 10:30:00,0,0,1,1",
    ]
    (files / "trips.csv").write_text(trips + "\n".join(bad) + "\n")
    regions = (files / "queryregions.csv").read_text()
    (files / "queryregions.csv").write_text(regions + "101,0,0\n101,10,10\n101,10,0\n101,0,10\n")
    made, rejected = exchange.load(spark, files, "published", tmp_path / "data")
    assert rejected == 7
    reasons = spark.read.csv(str(tmp_path / "data" / "rejects"), header=True).toArrow()["reason"].to_pylist()
    for words in ("ends before", "Tstart cannot", "Ystart cannot", "no such vehicle", "not finite", "begins before"):
        assert any(words in reason for reason in reasons), words
    assert any("broken region" in reason for reason in reasons)
    assert made.vehicles == small.manifest.vehicles


def test_a_missing_file_or_column_is_named(spark, small, tmp_path):
    exchange.export(spark, small, "published", tmp_path / "files")
    points = tmp_path / "files" / "querypoints.csv"
    points.write_text("Id,X,Y\n1,2,3\n")
    with pytest.raises(BadInput, match="no column Pos_x"):
        exchange.load(spark, tmp_path / "files", "published", tmp_path / "a")
    points.unlink()
    with pytest.raises(BadInput, match=r"no querypoints\.csv"):
        exchange.load(spark, tmp_path / "files", "published", tmp_path / "b")
    with pytest.raises(BadArgument, match="--format"):
        exchange.load(spark, tmp_path / "files", "excel", tmp_path / "c")
    assert not (tmp_path / "a").exists()


@pytest.mark.long
def test_data_that_secondo_made_loads_and_answers(spark, real_data, tmp_path):
    made, rejected = exchange.load(spark, real_data / "berlinmod" / "secondo-sf0.005", "published", tmp_path / "data")
    with gzip.open(real_data / "berlinmod" / "secondo-sf0.005" / "trips.csv.gz", "rt") as lines:
        assert made.units == sum(1 for _ in lines) - 1
    assert (made.vehicles, rejected) == (141, 0)
    data = Dataset.open(tmp_path / "data")
    queries.prepare(spark, data)
    for number in queries.NUMBERS:
        one, other = (queries.answer(spark, number, form).count() for form in queries.REPRESENTATIONS)
        assert one == other, f"Q{number}"
    shutil.rmtree(tmp_path / "data")
