"""What a source of a network would read: its first tuples, or the newest messages of a topic, before anything runs."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa

from slipstream._console.errors import Conflict
from slipstream._console.jobs.commands import LIVE
from slipstream._console.jobs.json_values import to_json_value
from slipstream._console.networks import network_files
from slipstream._console.workspace import Workspace, is_closed, pick
from slipstream._io.formats.encodings import find_first_file
from slipstream._io.kafka_client import Topic
from slipstream._io.named_feeds import KAFKA
from slipstream._io.readers import topic as topics

#: the column of messages that are not JSON objects
MESSAGE = "message"
_MOST_CHARACTERS = 1_000
#: the client of a topic is shared by the requests of a process
_consuming = Lock()


def find_input(workspace: Workspace, name: str) -> Path | str:
    """Return what a source reads: a recording or a folder of the workspace, or a topic or socket as it is written."""
    if LIVE.match(name):
        return name
    known = network_files.recordings(workspace) | network_files.folders(workspace)
    hint = "Choose a file, a folder or a run of the workspace, or write kafka:HOST:PORT/TOPIC or tcp:HOST:PORT."
    return pick(known, name, "input", hint)


def is_followed(path: Path) -> bool:
    """Whether a path is a folder of files, which is followed as it fills, and not a run."""
    return path.is_dir() and not is_closed(path)


def preview(where: Path | str, most: int) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Return the columns of an input with their types, and its first tuples, or the newest of a topic."""
    found = _read_live(where, most) if isinstance(where, str) else _read_stored(where, most)
    rows = [{name: to_json_value(value) for name, value in row.items()} for row in found.to_pylist()]
    return network_files.types(found), rows


def _read_stored(path: Path, most: int) -> pa.Table:
    if not is_followed(path):
        return network_files.read_first(path, most)
    first = path / find_first_file(str(path))
    if not first.is_file() or first.is_symlink() or first.suffix not in network_files.RECORDINGS:
        raise Conflict(
            f"{path.name} begins with no CSV, JSON lines or Parquet file.", hint="Run it to see what arrives."
        )
    return network_files.read_first(first, most)


def _read_live(where: str, most: int) -> pa.Table:
    if not where.startswith(KAFKA):
        raise Conflict("A socket sends its tuples once: there is no preview.", hint="Run it: its arcs show them.")
    topic = Topic.parse(where)
    topic.check_broker()
    with _consuming:
        marks = topics.watermarks(topic)
        if marks is None:
            raise Conflict(f"{topic} does not exist yet.", hint="A run waits for it.", code="no-such-topic")
        values = [
            value
            for number, (low, high) in marks.items()
            for value in topics.messages(topic, number, max(low, high - most), high).values
        ]
    return _to_table([_read_message(value) for value in values[-most:]])


def _read_message(value: bytes) -> dict[str, Any]:
    text = value.decode("utf-8", "replace")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    return body if isinstance(body, dict) else {MESSAGE: text[:_MOST_CHARACTERS]}


def _to_table(messages: list[dict[str, Any]]) -> pa.Table:
    """Return messages as a table; a field whose values differ in type becomes text."""
    names = list(dict.fromkeys(name for message in messages for name in message))
    return pa.table({name: _to_column([message.get(name) for message in messages]) for name in names})


def _to_column(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        return pa.array([None if value is None else json.dumps(value)[:_MOST_CHARACTERS] for value in values])
