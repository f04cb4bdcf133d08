"""Other people's CSV and JSON mean the same tuples as Linear Road's own lines, whatever the fields are called."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream._errors import BadArgument
from slipstream._feeds.parse import Parsed, format_lines, parse_text
from slipstream._feeds.tuples import FIELDS
from slipstream._io.formats.decoding import Decoding
from slipstream._io.report_feeds import report_feed
from slipstream._io.report_packing import ReportParser

values = st.one_of(
    st.integers(-2, 5), st.sampled_from([50, 101, 5280, 53320, 527_999, 528_000, 2**31 - 1, 2**31, -(2**40)])
)
tuples = st.lists(st.tuples(*([values] * len(FIELDS))), max_size=6)
NAMES = {name: f"the_{name}" for name in FIELDS}


def meant(parsed: Parsed) -> tuple[list[bytes], list[str]]:
    return format_lines(parsed.tuples), sorted(reason for _, reason in parsed.rejects)


@given(tuples)
def test_csv_and_json_say_what_text_says(rows: list[tuple[int, ...]]) -> None:
    # a segment that is not said follows from the position
    rows = [row for row in rows if not (row[0] == 0 and row[7] < 0)]
    text = "".join(",".join(map(str, row)) + "\n" for row in rows).encode()
    wanted = meant(parse_text(text))
    schema = dict.fromkeys(FIELDS, "integer")
    assert meant(ReportParser(Decoding("csv", schema))([text])) == wanted
    objects = "\n".join(json.dumps(dict(zip(NAMES.values(), row, strict=True))) for row in rows).encode()
    assert meant(ReportParser(Decoding("json", schema, NAMES))([objects])) == wanted


def test_a_report_of_seven_fields(tmp_path: Path) -> None:
    feed = tmp_path / "cars.csv"
    feed.write_text("car,ts,speed,xway,lane,dir,pos,note\n107,5999,32,0,1,0,53320,hello\n108,6000,fast,0,1,0,1,\n")
    found = report_feed(str(feed), "csv", columns={"vid": "car", "time": "ts:ms", "spd": "speed"})
    assert found.header.startswith("car,ts")
    assert found.decoding is not None
    parsed = ReportParser(found.decoding)([feed.read_bytes().partition(b"\n")[2]])
    assert format_lines(parsed.tuples) == [b"0,5,107,32,0,1,0,10,53320,-1,-1,-1,-1,-1,-1"]
    assert [reason for _, reason in parsed.rejects] == ["integer:speed"]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "cars.csv").write_text("car,ts\n")
    with pytest.raises(BadArgument, match="no field for time, vid, spd"):
        report_feed(str(tmp_path / "cars.csv"), "csv")
    with pytest.raises(BadArgument, match="do not go with --format text"):
        report_feed("feed.dat", "text", columns={"vid": "car"})
    with pytest.raises(BadArgument, match="unknown"):
        report_feed("feed.dat", "xml")
