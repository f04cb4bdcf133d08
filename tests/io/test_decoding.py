"""Feeds in any encoding: every good line becomes a tuple, every bad one a reject, whatever stands beside it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream._errors import BadArgument
from slipstream._io.chunks import to_arrow_stream
from slipstream._io.formats.decoding import Decoding, parse_columns
from slipstream._io.kafka_client import read_settings

SCHEMA = {"id": "text", "time": "integer", "speed": "float", "on": "boolean"}

json_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text("ab é\\", max_size=4),
    st.just([1]),
    st.just({"a": 1}),
)
rows = st.dictionaries(st.sampled_from([*SCHEMA, "other"]), json_values, max_size=5)
json_lines = st.lists(
    st.one_of(rows.map(json.dumps), st.sampled_from(["", "no", "[1]", "{", "7", '{"id": "x"'])),
    max_size=12,
)


def expected_json(line: str) -> dict[str, Any] | str | None:
    """What one line is, by the rules in words: null fits everywhere, a whole number is a float or a text, too."""
    if not line.strip():
        return None
    try:
        body = json.loads(line)
    except ValueError:
        return "json"
    if not isinstance(body, dict):
        return "json"
    kinds: dict[str, tuple[type, ...]] = {
        "text": (str, int),
        "integer": (int,),
        "float": (int, float),
        "boolean": (bool,),
    }
    for name, type_ in SCHEMA.items():
        value = body.get(name)
        whole = type_ != "integer" or not isinstance(value, int) or -(2**63) < value < 2**63
        if value is not None and (type(value) not in kinds[type_] or not whole):
            return f"{type_}:{name}"
    return {
        name: str(body["id"]) if name == "id" and type(body.get("id")) is int else body.get(name) for name in SCHEMA
    }


@given(json_lines)
def test_json_line_by_line(lines: list[str]) -> None:
    found = Decoding("json", SCHEMA).decode("\n".join(lines).encode())
    wanted = [expected_json(line) for line in lines]
    assert found.tuples.to_pylist() == [line for line in wanted if isinstance(line, dict)]
    assert found.rejects["reason"].to_pylist() == [line for line in wanted if isinstance(line, str)]


cells = st.sampled_from(["", "a", "7", "-12", "1.5", "1e3", "true", "False", "x y", "9223372036854775808", " 4 ", "0"])
csv_lines = st.lists(st.lists(cells, min_size=3, max_size=5).map(",".join), max_size=12)


@given(csv_lines)
def test_a_line_of_csv_means_the_same_alone_and_among_others(lines: list[str]) -> None:
    how = Decoding("csv", SCHEMA)
    together = how.decode("".join(f"{line}\n" for line in lines).encode())
    alone = [how.decode(f"{line}\n".encode()) for line in lines]
    assert together.tuples.to_pylist() == [row for one in alone for row in one.tuples.to_pylist()]
    reasons = [row["reason"] for one in alone for row in one.rejects.to_pylist()]
    assert sorted(together.rejects["reason"].to_pylist()) == sorted(reasons)
    assert together.tuples.num_rows + together.rejects.num_rows == sum(bool(line.strip()) for line in lines)


def test_csv_by_its_fields_and_what_does_not_fit() -> None:
    how = Decoding("csv", {"id": "text", "speed": "float"}, {"id": "vin"}, ["ts", "vin", "speed"])
    found = how.decode(b"1,a,50\n2,b,fast\n3,c\n4,d,1.5\n\xff,e,2\n")
    assert found.tuples.to_pylist() == [{"id": "a", "speed": 50.0}, {"id": "d", "speed": 1.5}]
    assert found.rejects.to_pylist() == [
        {"reason": "utf-8", "line": "\ufffd,e,2"},
        {"reason": "fields", "line": "3,c"},
        {"reason": "float:speed", "line": "2,b,fast"},
    ]


@pytest.mark.parametrize(
    ("unit", "given_", "wanted"),
    [
        ("s", 12, 12),
        ("ms", 12_999, 12),
        ("us", 12_000_001, 12),
        ("iso", "1970-01-01T00:00:12.9Z", 12),
        ("iso", "1970-01-01T01:00:00+01:00", 0),
    ],
)
def test_times(unit: str, given_: Any, wanted: int) -> None:
    how = Decoding("json", {"time": "integer"}, {"time": f"ts:{unit}"})
    assert how.decode(json.dumps({"ts": given_}).encode()).tuples.to_pylist() == [{"time": wanted}]


def test_what_is_no_time_is_rejected() -> None:
    how = Decoding("json", {"time": "float"}, {"time": "ts:iso"})
    found = how.decode(b'{"ts": "2020-01-01T00:00:00.5Z"}\n{"ts": "soon"}\n{"ts": null}\n')
    assert found.tuples["time"].to_pylist() == [1577836800.5, None]
    assert found.rejects.to_pylist() == [{"reason": "time:ts", "line": '{"ts": "soon"}'}]


def test_tables(tmp_path: Any) -> None:
    table = pa.table({"id": ["a"], "n": pa.array([1], pa.int16())})
    other = pa.table({"id": ["a"]})
    schema = {"id": "text", "n": "integer"}
    found = Decoding("arrow", schema).decode(
        to_arrow_stream(table) + to_arrow_stream(other) + to_arrow_stream(table) + b"junk"
    )
    assert found.tuples.to_pylist() == 2 * [{"id": "a", "n": 1}]
    assert found.rejects["reason"].to_pylist() == ["arrow", "arrow"]
    pq.write_table(table, tmp_path / "t.parquet")
    assert Decoding("parquet", schema).decode((tmp_path / "t.parquet").read_bytes()).tuples.num_rows == 1
    assert Decoding("parquet", schema).decode(b"junk").rejects.num_rows == 1


def test_linear_road_lines() -> None:
    found = Decoding("text", {"vid": "integer", "speed": "integer"}, {"speed": "spd"}).decode(
        b"0,0,107,32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1\n0,x\n"
    )
    assert found.tuples.to_pylist() == [{"vid": 107, "speed": 32}]
    assert found.rejects.to_pylist() == [{"reason": "fields", "line": "0,x"}]


def test_what_cannot_be_read_is_refused_at_once() -> None:
    for wrong in (
        lambda: Decoding("xml", SCHEMA),
        lambda: Decoding("json", SCHEMA, {"vin": "id"}),
        lambda: Decoding("json", SCHEMA, {"id": "ts:ms"}),
        lambda: Decoding("csv", SCHEMA, {}, ["id", "time", "speed"]),
        lambda: Decoding("text", SCHEMA),
        lambda: parse_columns(["id"], "cars", SCHEMA),
        lambda: read_settings(["no-such-file"]),
        lambda: read_settings(["group.id=mine"]),
    ):
        with pytest.raises(BadArgument):
            wrong()


def test_settings_from_a_file(tmp_path: Any) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# ours\nsecurity.protocol = SASL_SSL\n\nsasl.username=me\n")
    assert read_settings([str(file)]) == (("security.protocol", "SASL_SSL"), ("sasl.username", "me"))
