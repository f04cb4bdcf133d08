"""A look at a feed: the first tuples that are there, bounded, and nothing taken away from the job."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from linear_road.test_kafka import send
from services import service
from slipstream._io.named_feeds import make_feed
from slipstream._io.sampling import describe_empty_columns, sample

SCHEMA = {"id": "text", "speed": "integer"}
ROWS = [{"id": f"car {number}", "speed": number % 90} for number in range(500)]


def test_the_first_tuples_of_a_folder_that_fills(tmp_path: Path) -> None:
    for number in range(5):
        lines = [f"{row['id']},{row['speed']}" for row in ROWS[100 * number : 100 * number + 100]]
        (tmp_path / f"{number}.csv").write_text("\n".join(["id,speed", *lines, ""]))
    feed = make_feed(str(tmp_path), SCHEMA, encoding="csv", follow=True)
    assert sample(feed, 1000, 60).to_pylist() == ROWS
    assert sample(feed, 130, 60).to_pylist() == ROWS[:130]
    assert sample(feed, 1000, 0).num_rows > 0, "what was read is used, however long it took"


def test_whole_lines_of_a_file_that_grows_and_no_rejects(tmp_path: Path) -> None:
    file = tmp_path / "cars.json"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS[:3]) + "no tuple\n" + '{"id": "car 4", "sp')
    feed = make_feed(str(file), SCHEMA, columns={"speed": "speed"}, follow=True)
    assert sample(feed, 1000, 60).to_pylist() == ROWS[:3]


def test_a_column_without_any_value_is_reported(tmp_path: Path) -> None:
    """In JSON a field that is not there is null; so a wrong name must not go unnoticed."""
    file = tmp_path / "cars.json"
    file.write_text("".join(json.dumps({"id": row["id"], "velocity": row["speed"]}) + "\n" for row in ROWS))
    told = describe_empty_columns(make_feed(str(file), SCHEMA, encoding="json"))
    assert told.startswith(f"{file}: none of the first 500 tuples has a value for 'speed'.")
    assert "--columns speed=NAME" in told
    assert "{'speed': 'NAME'}" in told
    assert not describe_empty_columns(make_feed(str(file), SCHEMA, encoding="json", columns={"speed": "velocity"}))
    assert not describe_empty_columns(make_feed(str(tmp_path / "later.json"), SCHEMA, encoding="json", follow=True))


def test_nothing_is_there(tmp_path: Path) -> None:
    for where in (str(tmp_path / "later.json"), "tcp:127.0.0.1:1"):
        found = sample(make_feed(where, SCHEMA, encoding="json", follow=True), 1000, 60)
        assert (found.num_rows, found.column_names) == (0, ["id", "speed"])


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


@pytest.mark.long
@pytest.mark.parametrize("follow", [False, True])
def test_the_first_messages_of_every_partition(broker: str, follow: bool) -> None:
    name = f"cars-{uuid.uuid4().hex}"
    send(broker, name, [json.dumps(row).encode() for row in ROWS], partitions=3)
    feed = make_feed(f"kafka:{broker}/{name}", SCHEMA, follow=follow)
    found = sample(feed, 1000, 60).to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, ROWS))
    assert sample(feed, 60, 60).num_rows == 60


@pytest.mark.long
def test_a_column_that_no_message_has_is_reported(broker: str) -> None:
    name = f"cars-{uuid.uuid4().hex}"
    send(broker, name, [json.dumps(row).encode() for row in ROWS], partitions=3)
    wrong = make_feed(f"kafka:{broker}/{name}", SCHEMA, columns={"id": "vin"}, follow=True)
    assert "none of the first 500 tuples has a value for 'id'" in describe_empty_columns(wrong)
    assert not describe_empty_columns(make_feed(f"kafka:{broker}/{name}", SCHEMA, follow=True))
