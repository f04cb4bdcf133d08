"""A source is looked at before it is run: files, folders, runs, topics; sockets cannot be."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from services import service
from slipstream._console.errors import Conflict, NotFound
from slipstream._console.networks.source_previews import find_input, is_followed, preview
from slipstream._console.workspace import Workspace
from slipstream._errors import BadInput

ROWS = [{"vid": n, "speed": n / 2, "plate": f"B-{n}", "late": n > 3} for n in range(50)]
TYPES = {"vid": "bigint", "speed": "double", "plate": "string", "late": "boolean"}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A file of each format, and a folder of them."""
    (tmp_path / "arriving").mkdir()
    table = pa.Table.from_pylist(ROWS)
    pq.write_table(table, tmp_path / "cars.parquet")
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "cars.jsonl").write_text(lines)
    (tmp_path / "arriving" / "a.jsonl").write_text(lines)
    rows = "".join(f"{row['vid']},{row['speed']},{row['plate']},{str(row['late']).lower()}\n" for row in ROWS)
    (tmp_path / "cars.csv").write_text("vid,speed,plate,late\n" + rows)
    return Workspace.over([tmp_path])


@pytest.mark.parametrize("name", ["cars.parquet", "cars.jsonl", "cars.csv", "arriving"])
def test_the_first_tuples_of_a_file_or_folder_are_shown_with_their_types(workspace: Workspace, name: str) -> None:
    where = find_input(workspace, name)
    assert isinstance(where, Path)
    assert is_followed(where) == (name == "arriving")
    assert preview(where, 7) == (TYPES, ROWS[:7])


def test_what_cannot_be_shown_is_said(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="A socket sends its tuples once"):
        preview("tcp:127.0.0.1:9", 3)
    for name in ("nothing.csv", "../cars.csv", "http://x", "kafka:nowhere"):
        with pytest.raises(NotFound, match="No input"):
            find_input(workspace, name)
    (tmp_path / "broken.parquet").write_bytes(b"no Parquet")
    with pytest.raises(BadInput, match=r"broken\.parquet"):
        preview(find_input(workspace, "broken.parquet"), 3)
    (tmp_path / "arriving" / "0.txt").write_text("not a table")
    with pytest.raises(Conflict, match="arriving begins with no CSV"):
        preview(find_input(workspace, "arriving"), 3)


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


@pytest.mark.long
def test_the_newest_messages_of_a_topic_are_shown_and_stay(broker: str) -> None:
    from confluent_kafka import Producer

    topic = f"preview-{uuid.uuid4().hex}"
    where = f"kafka:{broker}/{topic}"
    with pytest.raises(Conflict, match="does not exist yet"):
        preview(where, 3)
    producer = Producer({"bootstrap.servers": broker})
    for row in ROWS:
        producer.produce(topic, json.dumps(row).encode())
    producer.produce(topic, b"no JSON")
    producer.flush(60)
    types, rows = preview(where, 3)
    assert types == {**TYPES, "message": "string"}
    assert [row["vid"] for row in rows] == [48, 49, None]
    assert rows[2]["message"] == "no JSON"
    assert preview(where, 3) == (types, rows)
