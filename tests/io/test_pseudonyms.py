"""Pseudonyms at intake: the same for the same key, unknown without it, and no id is left in what is decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream._errors import BadArgument
from slipstream._io.formats import pseudonyms
from slipstream._io.named_feeds import Feed, make_feed

KEY, OTHER = b"k" * 32, b"o" * 32
SCHEMA = {"id": "text", "mmsi": "integer", "speed": "integer"}
LINES = b"van-7,7,50\nvan-8,8,fast\nvan-9,9,60\nvan-7,7,55\n"


@pytest.fixture(autouse=True)
def _unused_afterwards() -> Iterator[None]:
    yield
    pseudonyms.use(None)


def feed(tmp_path: Path, *columns: str, key: bytes | None = KEY) -> Feed:
    (tmp_path / "in.csv").touch()
    pseudonyms.use(key, columns)
    return make_feed(str(tmp_path / "in.csv"), SCHEMA, fields=list(SCHEMA))


def test_ids_are_replaced_and_everything_else_stays(tmp_path: Path) -> None:
    decoding = feed(tmp_path, "id", "mmsi").decoding
    assert decoding is not None
    found = decoding.decode(LINES)
    expected = [
        {"id": pseudonyms.hash_id(KEY, f"van-{n}"), "mmsi": pseudonyms.hash_id(KEY, n), "speed": speed}
        for n, speed in ((7, 50), (9, 60), (7, 55))
    ]
    assert found.tuples.to_pylist() == expected
    assert found.rejects.to_pylist() == [{"reason": "integer:speed", "line": ""}]


def test_columns_that_are_usually_ids_are_replaced_unless_others_are_named(tmp_path: Path) -> None:
    decoding = feed(tmp_path).decoding
    assert decoding is not None
    assert decoding.decode(LINES).tuples["mmsi"].to_pylist() == [7, 9, 7]
    assert "van-7" not in decoding.decode(LINES).tuples["id"].to_pylist()


@given(st.lists(st.text(max_size=8) | st.integers(-(2**63), 2**63 - 1), unique_by=str, max_size=50))
def test_different_ids_have_different_pseudonyms_and_another_key_gives_others(ids: list[str | int]) -> None:
    mine = [pseudonyms.hash_id(KEY, id_) for id_ in ids]
    assert len({*mine}) == len(ids)
    assert not {*mine} & {pseudonyms.hash_id(OTHER, id_) for id_ in ids}
    assert all(0 <= value < 2**63 for value in mine if isinstance(value, int))


def test_missing_ids_stay_missing() -> None:
    chosen = pseudonyms.Pseudonyms(("id",), "", KEY.hex())
    assert chosen.apply(pa.table({"id": ["a", None]}))["id"].to_pylist() == [pseudonyms.hash_id(KEY, "a"), None]


def test_the_key_is_not_stored_and_a_job_resumes_only_with_the_same(tmp_path: Path) -> None:
    stored = json.dumps(feed(tmp_path).to_dict())
    assert KEY.hex() not in stored
    again = Feed.from_dict(json.loads(stored))
    restored = again.with_settings(()).decoding
    assert restored is not None
    assert restored.decode(LINES).tuples["id"][0].as_py() == pseudonyms.hash_id(KEY, "van-7")
    for key, said in ((OTHER, "with another key"), (None, "with pseudonyms")):
        pseudonyms.use(key)
        with pytest.raises(BadArgument, match=said):
            again.with_settings(())
    plain = feed(tmp_path, key=None)
    pseudonyms.use(KEY)
    with pytest.raises(BadArgument, match="without pseudonyms"):
        plain.with_settings(())


def test_columns_that_cannot_be_ids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match="no column vin"):
        feed(tmp_path, "vin")
    (tmp_path / "in.csv").touch()
    pseudonyms.use(KEY)
    with pytest.raises(BadArgument, match="no column id or vid") as error:
        make_feed(str(tmp_path / "in.csv"), {"name": "text"}, fields=["name"])
    assert "--pseudonym-columns" in error.value.hint
