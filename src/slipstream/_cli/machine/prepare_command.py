"""``slipstream prepare``: do the slow part of starting Spark once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from slipstream._cli.common.options import Json
from slipstream._cli.machine.examples_command import find_examples
from slipstream._spark import class_archive, session
from slipstream._tools.files import temporary
from slipstream._tools.progress import say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def prepare(as_json: Json = False) -> None:
    """Archive Spark's classes, so that every later command starts Spark in about half the time.

    Takes about a minute and 200 MB in your cache folder (~/.cache/slipstream). `make setup` does it; after an update
    of Java or PySpark, run it again. Everything works without it.

    Example: `slipstream prepare`
    """
    java = session.java()
    place = class_archive.archive_file(java)
    if class_archive.use_archive(java):
        _report(place, as_json, "exists already, nothing to do.")
        return
    folder = temporary.folder()
    class_list = folder / "classes"
    options = f"{session.settings(quick=True)[session.JAVA_OPTIONS]} {class_archive.record_classes(class_list)}"
    spark = session.build("prepare", conf={session.JAVA_OPTIONS: options}, quick=True)
    say("Running a small network and some queries to see which classes Spark loads ...")
    _run_a_network(spark, folder / "network")
    _run_queries(spark, folder / "table")
    class_path, modules = _inspect_jvm(spark)
    session.close()
    say("Archiving the classes ...")
    class_archive.write_archive(java, class_list, class_path, modules)
    _report(place, as_json, f"{place.stat().st_size / 1e6:.0f} MB")


def _report(place: Path, as_json: bool, said: str) -> None:
    if as_json:
        print(json.dumps({"archive": str(place), "bytes": place.stat().st_size}))
    else:
        say(f"{place}: {said}")


def _run_a_network(spark: SparkSession, out: Path) -> None:
    from slipstream._network.running.driving import drive
    from slipstream._network.running.run_folder import Execution
    from slipstream._network.yaml_files import load

    networks = find_examples() / "networks"
    drive(spark, Execution.prepare(out, load(networks / "border.yaml"), {"soldiers": networks / "soldiers.csv"}))


def _run_queries(spark: SparkSession, table: Path) -> None:
    """Do what batch commands do: write and read Parquet, join, aggregate, order."""
    spark.range(1000).selectExpr("id", "id % 10 as key", "double(id) as x").write.parquet(str(table))
    read = spark.read.parquet(str(table))
    keys = read.groupBy("key").agg({"x": "sum"})
    read.join(keys, "key").where("x > 10").orderBy("id").limit(10).toPandas()


def _inspect_jvm(spark: SparkSession) -> tuple[str, list[str]]:
    """Return the JVM's class path, and the modules that its options add."""
    jvm: Any = spark.sparkContext._jvm
    arguments = jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    modules = [str(argument) for argument in arguments if str(argument).startswith("--add-modules=")]
    return str(jvm.java.lang.System.getProperty("java.class.path")), modules


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command()(prepare)
