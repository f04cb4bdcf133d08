"""Locations as URIs: a file's is its path everywhere, other stores are refused with a way out."""

from __future__ import annotations

from pathlib import Path

import pytest

import slipstream as ss
from commands import Slipstream
from slipstream._errors import BadArgument
from slipstream._tools.files.locations import local, replace_file_uris


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("file:///data/cars", "/data/cars"),
        ("file:/data/cars", "/data/cars"),
        ("file://localhost/data/cars", "/data/cars"),
        ("FILE:///data/a%20b", "/data/a b"),
        ("tcp://127.0.0.1:9", "tcp://127.0.0.1:9"),
        ("file", "file"),
        ("files/of:mine", "files/of:mine"),
    ],
)
def test_a_location_is_a_path(given: str, path: str) -> None:
    assert local(given) == path


@pytest.mark.parametrize("given", ["s3://bucket/a", "s3a://b", "hdfs://name:8020/a", "abfss://c@d/e", "gs://b"])
def test_other_stores_are_refused(given: str) -> None:
    with pytest.raises(BadArgument, match="is not supported") as told:
        local(given)
    assert "file system that all machines mount" in told.value.hint


def test_a_file_of_another_host_is_refused() -> None:
    with pytest.raises(BadArgument, match="names a host"):
        local("file://data/cars")


def test_words_of_a_command_line() -> None:
    words = [
        "--input",
        "cars=file:///a.csv",
        "--out=file:///o",
        "--to",
        "x=text:file:///t.csv",
        "--kafka-config",
        "a=s3://b",
    ]
    assert replace_file_uris(words) == [
        "--input", "cars=/a.csv", "--out=/o", "--to", "x=text:/t.csv", "--kafka-config", "a=s3://b"
    ]  # fmt: skip
    assert replace_file_uris(["SELECT 'file:///x' FROM car"]) == ["SELECT 'file:///x' FROM car"]


def test_commands_and_programs_take_uris(slipstream: Slipstream, tmp_path: Path) -> None:
    told = slipstream("cuboid", "ticks", "--ticks", 5, "--files", 1, "--out", (tmp_path / "a b").as_uri())
    assert told.code == 0, told.err
    assert len(list((tmp_path / "a b").iterdir())) == 1
    refused = slipstream("cuboid", "ticks", "--out", "s3://bucket/ticks")
    assert (refused.code, "s3 is not supported" in refused.err) == (2, True)
    refused = slipstream("network", "run", "net.yaml", "--input", "cars=hdfs://h/cars", "--out", tmp_path / "out")
    assert (refused.code, "hdfs is not supported" in refused.err) == (2, True)
    file = next((tmp_path / "a b").iterdir())
    assert ss.read(file.as_uri()).columns == ["time", "stock_id", "price"]
    assert ss.Job(f"file://{tmp_path}/job").folder == str(tmp_path / "job")
    for wrong in (lambda: ss.read("s3://b/cars"), lambda: ss.Job("s3://b/out"), lambda: ss.open("gs://b/out")):
        with pytest.raises(BadArgument, match="is not supported"):
            wrong()
