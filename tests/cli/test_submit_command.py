"""``slipstream submit``: what spark-submit is told, and what is refused before it starts."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from commands import Slipstream

CLIENT = {"command": "toll runs/first --out tolls", "master": "spark://host:7077"}
CLUSTER = {
    "command": "toll kafka:broker:9092/cars --follow --out /shared/tolls",
    "master": "yarn",
    "deploy_mode": "cluster",
    "environment": "environment.tar.gz",
    "conf": {"spark.executor.memory": "4g", "spark.executor.instances": 3},
}


def written(tmp_path: Path, body: object) -> Path:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(body))
    return file


def test_a_driver_on_this_machine_runs_this_python(slipstream: Slipstream, tmp_path: Path) -> None:
    words = slipstream("submit", written(tmp_path, CLIENT), "--dry-run", "--json").json["command"]
    assert words[0].endswith("bin/spark-submit")
    assert words[words.index("--deploy-mode") + 1] == "client"
    assert words[-6:] == ["toll", "runs/first", "--out", "tolls", "--master", "spark://host:7077"]
    assert "--archives" not in words


def test_a_driver_on_the_cluster_runs_the_packed_python(slipstream: Slipstream, tmp_path: Path) -> None:
    words = slipstream("submit", written(tmp_path, CLUSTER), "--dry-run", "--json").json["command"]
    assert words[words.index("--archives") + 1] == "environment.tar.gz#environment"
    assert {"spark.pyspark.driver.python=./environment/bin/python", "spark.executor.instances=3"} <= {*words}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"deploy_mode": "cluster", "master": "spark://host:7077"}, "Spark runs no Python driver on"),
        ({"environment": ""}, "environment: a driver on the cluster"),
        ({"command": "toll cars --out tolls"}, "must be an absolute path"),
        ({"command": "toll cars --master yarn --out /tolls"}, "--master belongs into the file"),
        ({"command": "slipstream toll cars --out /tolls"}, "begins with toll"),
        ({"deploy_mode": "remote"}, "remote is unknown"),
        ({"conf": {"executor.memory": "4g"}}, "not a Spark setting"),
        ({"wish": "much"}, "the field wish is unknown"),
    ],
)
def test_what_spark_would_refuse_later_is_refused_at_once(
    slipstream: Slipstream, tmp_path: Path, change: dict[str, object], said: str
) -> None:
    done = slipstream("submit", written(tmp_path, CLUSTER | change), "--dry-run")
    assert done.code in (2, 3)
    assert said in " ".join(done.err.split())


def test_a_missing_file_and_one_that_is_no_yaml_are_refused(slipstream: Slipstream, tmp_path: Path) -> None:
    assert slipstream("submit", tmp_path / "none.yaml").code == 2
    (tmp_path / "job.yaml").write_text("command: [")
    assert slipstream("submit", tmp_path / "job.yaml").code == 3


def test_spark_connect_is_refused_with_advice(slipstream: Slipstream, tmp_path: Path) -> None:
    done = slipstream("toll", tmp_path, "--out", tmp_path / "out", "--master", "sc://host:15002")
    assert done.code == 2
    assert "Spark Connect" in done.err
    assert "spark://HOST:7077" in done.err
