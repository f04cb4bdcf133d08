"""Locations as URIs: a file's is its path everywhere, some stores are taken, others refused with a way out."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import slipstream as ss
from commands import Slipstream
from slipstream._errors import BadArgument
from slipstream._tools.files.locations import local, replace_file_uris, to_path


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


@pytest.mark.parametrize("given", ["abfss://c@d/e", "gs://b"])
def test_other_stores_are_refused(given: str) -> None:
    with pytest.raises(BadArgument, match="is not supported") as told:
        to_path(given)
    assert "s3://BUCKET/PATH" in told.value.hint


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("s3://bucket/a b/c", "s3://bucket/a b/c"),
        ("s3a://bucket/a/", "s3://bucket/a"),
        ("hdfs://name:8020/a/../b", "hdfs://name:8020/b"),
        (Path("s3://bucket/a"), "s3://bucket/a"),
        (Path("data/cars"), "data/cars"),
        ("file:///data/cars", "/data/cars"),
    ],
)
def test_a_location_in_a_store_is_a_path_there(given: str | Path, path: str) -> None:
    found = to_path(given)
    assert str(found) == path
    assert pickle.loads(pickle.dumps(found)) == found
    assert (found / "x").parent == found


@pytest.mark.parametrize("given", ["s3://", "hdfs:///a"])
def test_a_location_in_a_store_names_it(given: str) -> None:
    with pytest.raises(BadArgument, match=r"names no (bucket|name node)"):
        to_path(given)


def test_what_must_be_in_a_file_system_says_so() -> None:
    with pytest.raises(BadArgument, match="must be in a file system"):
        local("s3://bucket/zones.csv")


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
    refused = slipstream("cuboid", "ticks", "--out", "gs://bucket/ticks")
    assert (refused.code, "gs is not supported" in refused.err) == (2, True)
    refused = slipstream("network", "run", "net.yaml", "--input", "cars=az://h/cars", "--out", tmp_path / "out")
    assert (refused.code, "az is not supported" in refused.err) == (2, True)
    file = next((tmp_path / "a b").iterdir())
    assert ss.read(file.as_uri()).columns == ["time", "stock_id", "price"]
    assert ss.Job(f"file://{tmp_path}/job").folder == str(tmp_path / "job")
    assert ss.Job("s3a://b/out").folder == "s3://b/out"
    for wrong in (lambda: ss.read("gs://b/cars"), lambda: ss.Job("gs://b/out"), lambda: ss.open("gs://b/out")):
        with pytest.raises(BadArgument, match="is not supported"):
            wrong()
