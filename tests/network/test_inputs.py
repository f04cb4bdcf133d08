"""Recordings come in whole: every copy of a run, and a line that does not fit is named, not left out."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oracles.streams import busy_stream
from slipstream._errors import BadArgument, BadInput
from slipstream._feeds.tuple_text import export_text, import_text
from slipstream._feeds.tuples import FIELDS
from slipstream._network import Builder, Network
from slipstream._network.running.recordings import read_inputs, read_table, read_tables

SCHEMA = {"sid": "integer", "pos": "float", "name": "text", "here": "boolean"}


def test_a_multiplied_run_comes_in_with_all_its_copies(tmp_path: Path) -> None:
    (tmp_path / "feed.txt").write_text("\n".join(busy_stream(3, seconds=150)) + "\n")
    run = import_text(tmp_path / "feed.txt", tmp_path / "run")
    (run.path / "manifest.json").write_text(replace(run.manifest, multiply=3).to_json())
    exported = io.BytesIO()
    export_text(run.multiplied(3), exported)
    wanted = [tuple(map(int, line.split(","))) for line in exported.getvalue().decode().split()]

    table = read_table(run.path, dict.fromkeys(FIELDS, "integer"))
    rows = list(zip(*(table[name].to_pylist() for name in FIELDS), strict=True))
    assert Counter(rows) == Counter(wanted)
    times = table["time"].to_pylist()
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a.csv", "sid,pos,name,here\n1,2,a,true\n1,x,a,true\n", "a.csv, line 3, column pos: .*'x'"),
        ("a.csv", "sid,pos,name,here\n1,2,a,true\n1,2\n", "a.csv, line 3: Expected 4 columns, got 2"),
        ("a.csv", "sid,pos,name,here\n1.5,2,a,true\n", "a.csv, line 2, column sid: .*'1.5'"),
        ("a.csv", "sid,pos,name\n1,2,a\n", "no column 'here'"),
        ("a.csv", "", "Empty"),
        ("a.jsonl", '{"sid": 1}\n\n{"sid": "x"}\n', "a.jsonl, line 3, column sid: 'x' is not integer"),
        ("a.jsonl", '{"sid": 1}\n{"sid": 1.5}\n', "a.jsonl, line 2, column sid: 1.5 is not integer"),
        ("a.jsonl", '{"sid": 1}\nsid 2\n', "a.jsonl, line 2: not JSON"),
        ("a.jsonl", '{"id": 1, "pos": 2, "name": "a", "here": true}\n', "no column 'sid'"),
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path: Path, name: str, text: str, complaint: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=complaint):
        read_table(tmp_path / name, SCHEMA)


def test_a_column_that_does_not_fit_is_named(tmp_path: Path) -> None:
    columns = {"sid": [1.5], "pos": [2.0], "name": ["a"], "here": [True]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match=r"a.parquet, column sid: .*1.5"):
        read_table(tmp_path / "a.parquet", SCHEMA)


def test_what_is_empty_is_null_and_nothing_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("sid,pos,name,here\n1,,,\n2,3,a,false\n")
    (tmp_path / "a.jsonl").write_text('{"sid": 1}\n{"sid": 2, "pos": 3, "name": "a", "here": false}\n')
    rows = [
        {"sid": 1, "pos": None, "name": None, "here": None},
        {"sid": 2, "pos": 3.0, "name": "a", "here": False},
    ]
    assert read_table(tmp_path / "a.csv", SCHEMA).to_pylist() == rows
    assert read_table(tmp_path / "a.jsonl", SCHEMA).to_pylist() == rows


def two_sources() -> Network:
    net = Builder("pair")
    net.table("firms", sid="integer")
    net.source("cars", sid="integer").union(net.source("taxis", sid="integer")).to("all")
    return net.build()


def test_all_that_is_missing_or_unknown_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match="no input for the sources cars, taxis") as refused:
        read_inputs(two_sources(), {})
    assert refused.value.hint == "Give --input cars=FILE --input taxis=FILE."
    with pytest.raises(BadArgument, match=r"--input cabs=x\.csv: network pair has no source 'cabs'") as refused:
        read_inputs(two_sources(), {"cars": tmp_path, "cabs": Path("x.csv")})
    assert refused.value.hint == "It has: cars, taxis."
    with pytest.raises(BadArgument, match="no input for the table firms") as refused:
        read_tables(two_sources(), {})
    assert refused.value.hint == "Give --table firms=FILE."
