"""In a Spark session that the user made, with settings of their own: the job runs, and the session stays as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[2]").appName("theirs")
    .config("spark.sql.shuffle.partitions", "3")
    .config("spark.sql.session.timeZone", "America/New_York")
    .config("spark.sql.execution.arrow.pyspark.enabled", "false")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)

def settings():
    return {row.key: row.value for row in spark.sql("SET").collect()}, sorted(spark.sparkContext.getConf().getAll())

before = settings()
functions = {one.name for one in spark.catalog.listFunctions()}

import pandas as pd
import slipstream as ss

@ss.udf.scalar("double")
def doubled(values):
    return values * 2

frame = pd.DataFrame({"id": ["a", "b", "a"], "time": [0, 1, 400], "x": [1.0, 2.0, 3.0]})
cars = ss.from_dataframe(spark.createDataFrame(frame))
owners = ss.table(spark.createDataFrame([("a", "Ann")], "id string, owner string"), name="owners")
owned = cars.join(owners, "left.id = right.id").select("owner", twice="doubled(x)", code="soundex(owner)")
out = ss.Job(sys.argv[1]).write(owned, name="owned").archive(cars.with_columns(y="x")).run(timeout=200)
found = sorted((row["owner"], row["twice"], row["code"]) for row in out["owned"].to_pylist())
assert found == [("Ann", 2.0, "A500"), ("Ann", 6.0, "A500")], found
assert out["owned"].to_spark().count() == 2
assert out.trips().where("travelled(Trip) >= 0").to_spark().count() == 3

# what only Spark knows is refused where it is written, as Spark is running
try:
    cars.select(code="soundex(id, id)")
except ss.BadInput as error:
    assert "soundex" in error.message and "\\n" not in error.message, error
else:
    raise AssertionError("accepted")

assert settings() == before
assert SparkSession.getActiveSession() is spark
assert {one.name for one in spark.catalog.listFunctions()} - functions <= set(ss.functions.__all__)
print("unchanged")
"""


@pytest.mark.long
def test_a_session_that_the_user_made_keeps_its_settings(tmp_path: Path) -> None:
    # as in an activated environment: the workers of a session that is not ours run the Python on the path
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["unchanged"]
