"""Where streams come from: every kind of source gives its tuples once, with the columns that were asked for."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import slipstream as ss
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic

ROWS = [{"vin": f"car{i % 3}", "ts": 1000 * i, "kmh": 1.5 * i, "ok": i % 2 == 0} for i in range(20)]


def test_a_csv_file_brings_its_columns(tmp_path: Path) -> None:
    pd.DataFrame(ROWS).to_csv(tmp_path / "cars.csv", index=False)
    cars = ss.read(tmp_path / "cars.csv", columns={"id": "vin", "time": "ts:ms"})
    assert cars.schema == {"id": "string", "time": "bigint", "kmh": "double", "ok": "boolean"}


def test_json_lines_bring_their_columns(tmp_path: Path) -> None:
    lines = [json.dumps({**row, "at": {"x": 1}}) for row in ROWS]
    (tmp_path / "cars.jsonl").write_text("\n".join(lines) + "\n")
    assert ss.read(tmp_path / "cars.jsonl").schema == {
        "vin": "string",
        "ts": "bigint",
        "kmh": "double",
        "ok": "boolean",
    }


def test_times_become_seconds(tmp_path: Path, spark: SparkSession) -> None:
    at = [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in range(3)]
    frame = pd.DataFrame({"id": [1, 2, 3], "at": at})
    frame.to_csv(tmp_path / "cars.csv", index=False)
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "cars.parquet")
    expected = [moment.timestamp() for moment in at]
    for number, stream in enumerate(
        (
            ss.read(tmp_path / "cars.csv"),
            ss.read(tmp_path / "cars.parquet"),
            ss.from_dataframe(frame),
            ss.from_dataframe(spark.createDataFrame(frame)),
        )
    ):
        assert stream.schema == {"id": "bigint", "at": "double"}
        found = ss.Job(tmp_path / f"out{number}").write(stream.filter("id > 0"), name="all").run(spark, timeout=120)
        assert sorted(row["at"] for row in found["all"].to_pylist()) == expected


def test_a_static_frame_is_copied_and_resumed(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    stream = ss.from_dataframe(table, columns={"id": "vin"})
    job = ss.Job(tmp_path / "out").write(stream.select("id", double="kmh * 2"), name="doubled")
    found = job.run(spark, timeout=120)["doubled"].to_pylist()
    assert found == [{"id": row["vin"], "double": row["kmh"] * 2} for row in ROWS]
    assert job.run(spark, timeout=120)["doubled"].to_pylist() == found


def test_a_streaming_frame_is_read_in_its_own_session(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "in" / "a.parquet")
    frame = spark.readStream.schema("vin string, ts bigint, kmh double, ok boolean").parquet(str(tmp_path / "in"))
    stream = ss.from_dataframe(frame, columns={"id": "vin", "time": "ts"})
    before = {row.key: row.value for row in spark.sql("SET").collect()}
    with ss.Job(tmp_path / "out").write(stream.filter("ok"), name="good").start(spark) as job:
        job.wait_for(lambda status: status.outputs.get("good", 0) == 10, timeout=120)
        pq.write_table(pa.Table.from_pylist(ROWS[:4]), tmp_path / "in" / "b.parquet")
        job.wait_for(lambda status: status.outputs.get("good", 0) == 12, timeout=120)
    assert [row["time"] for row in job["good"].to_pylist()] == [row["ts"] for row in [*ROWS, *ROWS[:4]] if row["ok"]]
    assert job.status().why == "asked to stop"
    assert {row.key: row.value for row in spark.sql("SET").collect()} == before


class Countdown(ss.Source):
    """Numbers down to zero, three in each batch."""

    def __init__(self, top: int) -> None:
        self.top = top
        self.schema = {"n": "bigint", "even": "boolean"}

    def latest(self, start: int) -> int:
        return min(start + 3, self.top)

    def has_ended(self, position: int) -> bool:
        return position == self.top

    def read(self, start: int, end: int) -> dict[str, Any]:
        numbers = [self.top - place for place in range(start, end)]
        return {"n": numbers, "even": [n % 2 == 0 for n in numbers]}


def test_a_source_of_ones_own(spark: SparkSession, tmp_path: Path) -> None:
    stream = ss.read(Countdown(10))
    out = ss.Job(tmp_path / "out").write(stream.filter("even"), name="even").run(spark, timeout=120)
    assert [row["n"] for row in out["even"].to_pylist()] == [10, 8, 6, 4, 2]
    assert out.status().tuples == 10


def test_a_run_is_read_minute_by_minute(spark: SparkSession, tmp_path: Path) -> None:
    run = simulate(spark, Traffic(expressways=0.5, minutes=2), 1, tmp_path / "run", multiply=2)
    reports = ss.read(tmp_path / "run")
    assert set(ss.REPORT) < set(reports.columns)
    assert ss.read(tmp_path / "run", columns={"car": "vid"}).columns[2] == "car"
    out = ss.Job(tmp_path / "out").write(reports.select("id", "time", "type"), name="all").run(spark, timeout=120)
    found = out["all"].to_pandas()
    assert len(found) == sum(run.manifest.counts.values())
    assert found["time"].is_monotonic_increasing
    expected = run.dataframe(spark).selectExpr("vid as id", "time", "type").toPandas()
    order = ["id", "time", "type"]
    assert found.sort_values(order).to_numpy().tolist() == expected.sort_values(order).to_numpy().tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ss.read("nowhere.csv"), "nowhere.csv: no such file or folder"),
        (lambda: ss.read("kafka://b:1/t", columns={"plate": "p"}), "the type of column 'plate' is unknown"),
        (lambda: ss.read("kafka://b:1/t", {"at": "date"}), "column 'at': no type 'date'"),
        (lambda: ss.from_dataframe(pd.DataFrame({"a": [1]}), columns={"id": "b"}), "columns: no column 'b'"),
        (lambda: ss.from_dataframe(pd.DataFrame({"a": [[1]]})), "column 'a' is list"),
        (lambda: ss.read(ss.Source()), "source Source: no schema"),
        (lambda: ss.read("kafka://b:1/t", {"id": "bigint"}).toll(), "toll: no column 'time'"),
        (lambda: ss.read("kafka://b:1/t").toll(rules="1999"), "no rules '1999'"),
        (lambda: ss.read("kafka://b:1/t").toll(lateness="0.5s"), "tolling works on whole seconds"),
        (lambda: ss.read("kafka://b:1/t").window("tme", "1 minute").agg(n="count(*)"), "order column 'tme'"),
        (lambda: ss.read("kafka://b:1/t").window("time", "soon"), "size 'soon': not a duration"),
        (lambda: ss.Job("out").write(ss.read("kafka://b:1/t")), "the output has no name"),
        (lambda: ss.Job("out").network, "the job writes nothing"),
        (lambda: ss.Job("out").archive(ss.read("kafka://b:1/t", {"id": "bigint"})), "no columns for the place"),
        (lambda: ss.Job("out").write(ss.read("kafka://b:1/t"), name="rejects"), "'rejects' is the output of lines"),
        (lambda: ss.read("kafka://b:1/t").filter("speed +"), "filter: "),
    ],
)
def test_a_mistake_is_reported_where_it_is_made(make: Any, message: str) -> None:
    with pytest.raises(ss.SlipstreamError) as error:
        make()
    assert message in str(error.value)


def test_a_job_that_fails_raises_one_line(spark: SparkSession, tmp_path: Path) -> None:
    stream = ss.from_dataframe(pa.table({"a": [1, 0]}))
    job = ss.Job(tmp_path / "out").write(stream.select(b="1 / a"), name="b").start(spark)
    with pytest.raises(ss.BadInput, match="division by zero") as error:
        job.wait(120)
    assert error.value.__cause__ is None
    assert "\n\tat " not in str(error.value)
    assert job.status().state == "failed"
    assert "".join(error.value._render_traceback_()).count("File ") == 0
