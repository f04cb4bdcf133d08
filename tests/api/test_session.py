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
from slipstream._moving.sql_functions import names

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

# a mistake in a condition on trips is one line, without the JSON that PySpark logs before it raises
try:
    out.trips().where("mispelt > 0").to_spark(spark)
except ss.BadArgument as error:
    assert "mispelt" in error.message and "\\n" not in error.message, error
else:
    raise AssertionError("accepted")

# what only Spark knows is refused where it is written, as Spark is running
try:
    cars.select(code="soundex(id, id)")
except ss.BadInput as error:
    assert "soundex" in error.message and "\\n" not in error.message, error
else:
    raise AssertionError("accepted")

assert settings() == before
assert SparkSession.getActiveSession() is spark
# conditions on trips are SQL, so the operators are functions of the session now, under the names of the reference
added = {one.name for one in spark.catalog.listFunctions()} - functions
assert added <= {"trajectories", *map(str.lower, names())}, added
print("unchanged")
"""


FAILS = """
import sys
from pyspark.sql import SparkSession
import slipstream as ss

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
cars = ss.from_dataframe(spark.createDataFrame([(1, 2.0)], "id bigint, x double"))
try:
    ss.Job(sys.argv[1]).write(cars.filter("x > 1"), name="far").run(timeout=200)
except ss.Unavailable as error:
    assert error.code == "workers-differ" and "\\n" not in error.message and sys.executable in error.hint, error
    print(error.message)
"""
#: a Python that has neither Slipstream nor anything else of this environment
BARE = str(Path(sys.base_prefix) / "bin" / "python3")


def run(program: str, out: Path, **settings: str) -> str:
    """Run a program as ``.venv/bin/python program.py`` does where no environment is activated."""
    path = f"{Path(BARE).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name not in ("PYSPARK_PYTHON", "VIRTUAL_ENV")}
    done = subprocess.run(
        [sys.executable, "-c", program, str(out)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env={**kept, "PATH": path, **settings},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "QueryContextLogger" not in done.stderr
    return done.stdout.strip()


@pytest.mark.long
def test_a_session_that_the_user_made_keeps_its_settings(tmp_path: Path) -> None:
    """PySpark's workers would run the Python on the path, which has no Slipstream."""
    assert run(PROGRAM, tmp_path / "out") == "unchanged"


@pytest.mark.long
def test_workers_that_cannot_import_the_package_are_named(tmp_path: Path) -> None:
    """The user chose the workers' Python; that is their setting, so it is not changed."""
    found = run(FAILS, tmp_path / "out", PYSPARK_PYTHON=BARE)
    assert found == "Spark's Python workers cannot import slipstream."
