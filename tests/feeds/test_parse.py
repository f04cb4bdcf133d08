"""The compiled parser against the oracle's plain one, on anything; trains against the tuples they carry."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.linear_road import parse_line as plain_parse
from slipstream._errors import BadInput
from slipstream._feeds import trains
from slipstream._feeds.parse import PARSERS, format_lines, parse_json, parse_text, parse_trains
from slipstream._feeds.tuples import FIELDS

numbers = st.one_of(
    st.integers(-3, 110).map(str),
    st.sampled_from(
        ["2147483647", "2147483648", "-2147483648", "-2147483649", "007", "-0", "", "+1", " 1", "1.0", "x"]
    ),
    st.text("0123456789-, x\r", max_size=4),
)
likely = st.lists(numbers, min_size=14, max_size=16).map(",".join)
good = st.tuples(st.integers(0, 200), st.integers(0, 50), st.integers(0, 99)).map(
    lambda v: f"0,{v[0]},{v[1]},30,0,1,0,{v[2]},{v[2] * 5280}" + ",-1" * 6
)


@given(st.lists(st.one_of(likely, good, st.text("01,-\r \x00é", max_size=30)), max_size=8))
def test_text_is_judged_like_the_oracle_judges_it(feed: list[str]) -> None:
    feed = [line.replace("\n", "") for line in feed]
    parsed = parse_text("".join(line + "\n" for line in feed).encode())
    judged = [(line.rstrip("\r"), *plain_parse(line.rstrip("\r"))) for line in feed]
    assert [(line.decode(), reason) for line, reason in parsed.rejects] == [(t, r) for t, _, r in judged if r]
    accepted = [",".join(map(str, tup)) for _, tup, _ in judged if tup]
    assert [line.decode() for line in format_lines(parsed.tuples)] == accepted


@given(st.lists(good, max_size=20))
def test_json_and_trains_carry_what_text_carries(feed: list[str]) -> None:
    from_text = PARSERS["text"]([line.encode() for line in feed]).tuples
    rows = [dict(zip(FIELDS, map(int, line.split(",")), strict=True)) for line in feed]
    from_json = parse_json("\n".join(map(json.dumps, rows)).encode())
    assert not from_json.rejects
    assert format_lines(from_json.tuples) == format_lines(from_text)
    framed = b""
    for second in np.unique(from_text["time"]):
        framed += trains.frame({name: column[from_text["time"] == second] for name, column in from_text.items()})
    assert sorted(format_lines(parse_trains(framed).tuples)) == sorted(format_lines(from_text))


@given(st.binary(max_size=60))
def test_bytes_that_are_no_train_are_rejected_not_read(garbage: bytes) -> None:
    parsed = parse_trains(b"LRT1" + garbage)
    assert parsed.tuples["type"].size == 0
    assert [reason for _, reason in parsed.rejects] == ["train"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [("{", "fields"), ("[1]", "fields"), ('{"type": 0, "speed": 3}', "fields"), ('{"type": 1.5}', "integer")],
)
def test_a_json_message_that_is_no_tuple_is_rejected(message: str, reason: str) -> None:
    assert parse_json(message.encode()).rejects == [(message.encode(), reason)]


def test_a_cut_train_names_its_second() -> None:
    with pytest.raises(BadInput, match="A train of second 7 has 3 bytes, expected 14"):
        trains.decode(7, 1, 0, b"123")
