"""What outputs send elsewhere: each row once, however often the job is killed; and what cannot be sent is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv

import delivering
from delivering import JOB, SCHEMAS, rows_of
from services import service
from slipstream._errors import BadArgument, BadInput, Unavailable
from slipstream._io.outputs import text_files
from slipstream._io.outputs.destinations import check_brokers, check_columns, check_inside, check_unused, parse
from slipstream._io.outputs.json_lines import to_json_lines
from slipstream._tools.processes.failpoints import OUTPUT_POINTS, TOPIC_POINTS, VARIABLE

BATCHES = 4
#: a kill takes two processes: one on each side of the transaction is enough for every day
QUICK = ["topic.before-commit", "topic.after-commit"]
SLOW = [point for point in (*OUTPUT_POINTS[-3:], *TOPIC_POINTS) if point not in QUICK]


def expected(output: str) -> list[dict[str, Any]]:
    return [row for batch in range(BATCHES) if output in rows_of(batch) for row in rows_of(batch)[output].to_pylist()]


# --- text


@pytest.mark.parametrize("point", [*OUTPUT_POINTS, "text.before-append"])
def test_text_that_fails_anywhere_and_is_repeated_has_every_row_once(
    point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    to = {"alerts": [f"text:{tmp_path / 'alerts.csv'}"], "rejects": ["text:inside.csv"]}
    for upto in range(1, BATCHES + 1):
        monkeypatch.setenv(VARIABLE, f"{point}:{tmp_path / f'reached-{upto}'}:EIO")
        try:
            delivering.deliver(out, upto, to)
        except OSError:
            delivering.deliver(out, upto, to)
    assert any(tmp_path.glob("reached-*"))
    assert csv.read_csv(tmp_path / "alerts.csv", convert_options=_NULLS).to_pylist() == expected("alerts")
    assert csv.read_csv(out / "inside.csv").to_pylist() == expected("rejects")


_NULLS = csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)


def test_a_text_file_that_lost_committed_rows_is_refused(tmp_path: Path) -> None:
    to = {"alerts": ["text:alerts.csv"]}
    delivering.deliver(tmp_path, BATCHES, to)
    (tmp_path / "alerts.csv").write_text("")
    with pytest.raises(BadInput, match=r"0 bytes, but [0-9]+ were committed"):
        delivering.deliver(tmp_path, BATCHES, to)


# --- the console


def test_the_console_gets_every_row_of_a_run_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for upto in range(1, BATCHES + 1):
        delivering.deliver(tmp_path, upto, {"alerts": ["console"]})
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == expected("alerts")


# --- topics


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


def received(broker: str, topic: str) -> list[dict[str, Any]]:
    """All committed messages of a topic."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    settings = {"bootstrap.servers": broker, "group.id": uuid.uuid4().hex, "enable.partition.eof": True}
    consumer: Any = Consumer({**settings, "auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(20)) is not None:
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            consumer.close()
            return found
        found.append(json.loads(message.value()))
    raise AssertionError("the broker does not answer")


def deliver_in_a_process(folder: Path, to: dict[str, Sequence[str]], point: str = "") -> None:
    """Deliver everything; with a point, the process is killed when it comes to it for the first time."""
    reached = folder.parent / f"{folder.name}.reached"
    environment = {**os.environ, **({VARIABLE: f"{point}:{reached}"} if point else {})}
    command = [sys.executable, delivering.__file__, str(folder), str(BATCHES), json.dumps(to)]
    with subprocess.Popen(command, env=environment) as process:
        if not point:
            assert process.wait(120) == 0
            return
        deadline = time.monotonic() + 120
        while not reached.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.kill()


@pytest.mark.parametrize("point", QUICK + [pytest.param(p, marks=pytest.mark.long) for p in SLOW])
def test_a_job_that_is_killed_on_either_side_of_a_transaction_sends_every_row_once(
    point: str, broker: str, tmp_path: Path
) -> None:
    topic = f"alerts-{uuid.uuid4().hex}"
    to: dict[str, Sequence[str]] = {"alerts": [f"kafka:{broker}/{topic}"], "rejects": [f"kafka:{broker}/{topic}"]}
    deliver_in_a_process(tmp_path / "out", to, point)
    deliver_in_a_process(tmp_path / "out", to)
    found = received(broker, topic)
    assert [row for row in found if "id" in row] == expected("alerts")
    assert [row for row in found if "l" in row] == expected("rejects")


@pytest.mark.parametrize("point", ["topic.after-commit", pytest.param("topic.before-send", marks=pytest.mark.long)])
def test_a_broker_that_has_forgotten_the_job_is_asked_for_its_messages(point: str, broker: str, tmp_path: Path) -> None:
    """Offsets of groups without members expire after a week; here they are deleted."""
    from confluent_kafka.admin import AdminClient

    topic, folder = f"alerts-{uuid.uuid4().hex}", tmp_path / uuid.uuid4().hex
    to: dict[str, Sequence[str]] = {"alerts": [f"kafka:{broker}/{topic}"]}
    deliver_in_a_process(folder, to, point)
    admin: Any = AdminClient({"bootstrap.servers": broker})
    for deletion in admin.delete_consumer_groups([f"slipstream-{JOB}-alerts"]).values():
        deletion.exception(30)  # there is none before the first transaction
    deliver_in_a_process(folder, to)
    assert received(broker, topic) == expected("alerts")


# --- mistakes


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("alerts.csv", "not a destination"),
        ("text:", "not a destination"),
        ("kafka:nowhere", "not a topic"),
        ("console:", "not a destination"),
    ],
)
def test_what_is_no_destination_is_refused(where: str, message: str) -> None:
    with pytest.raises(BadArgument, match=message):
        parse(where)


def test_text_keeps_its_place_and_a_network_file_cannot_write_elsewhere(tmp_path: Path) -> None:
    assert parse("text:alerts.csv") == f"text:{Path.cwd() / 'alerts.csv'}"
    check_inside("text:alerts.csv")
    for outside in (f"text:{tmp_path}/alerts.csv", "text:../alerts.csv"):
        with pytest.raises(BadArgument, match="outside the folder"):
            check_inside(outside)


def test_files_that_are_there_or_wanted_twice_are_refused(tmp_path: Path) -> None:
    (tmp_path / "full.csv").write_text("something")
    for to, message in (
        ({"a": ["text:full.csv"]}, "already exists"),
        ({"a": ["text:new.csv"], "b": ["text:new.csv"]}, "used for both outputs a and b"),
        ({"a": [f"text:{tmp_path}/nowhere/new.csv"]}, "no such folder"),
    ):
        with pytest.raises(BadArgument, match=message):
            check_unused(tmp_path, to)
    check_unused(tmp_path, {"a": ["text:new.csv"], "b": ["console"]})


def test_a_broker_that_is_not_there_is_reported_before_anything_runs() -> None:
    with pytest.raises(Unavailable, match="cannot reach a broker"):
        check_brokers({"a": ["kafka:127.0.0.1:1/alerts"]})


def test_csv_has_no_place_for_nested_columns() -> None:
    schemas = {**SCHEMAS, "trips": pa.schema([("Trip", pa.list_(pa.int64()))])}
    check_columns({"alerts": ["text:a.csv"], "trips": ["console"]}, schemas)
    with pytest.raises(BadArgument, match=r"cannot represent trips\.Trip"):
        check_columns({"trips": ["text:a.csv"]}, schemas)


def test_the_key_of_a_topic_is_a_column() -> None:
    schemas = {"alerts": pa.schema([("id", pa.int64()), ("speed", pa.int64())])}
    check_columns({"alerts": ["kafka:127.0.0.1:1/alerts?key=id", "kafka:127.0.0.1:1/alerts?key=id,speed"]}, schemas)
    with pytest.raises(BadArgument, match="alerts has no column 'car'"):
        check_columns({"alerts": ["kafka:127.0.0.1:1/alerts?key=car"]}, schemas)
    with pytest.raises(BadArgument, match="no column is given for the key"):
        parse("kafka:127.0.0.1:1/alerts?key=")


# --- encodings


@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "i": st.none() | st.integers(-(2**63), 2**63 - 1),
                "f": st.none() | st.floats(allow_nan=False, allow_infinity=False),
                "b": st.none() | st.booleans(),
                "t": st.none() | st.text(st.characters(codec="utf-8")),
                "n": st.none() | st.lists(st.integers(0, 9), max_size=3),
            }
        ),
        max_size=8,
    )
)
def test_json_lines_say_what_the_rows_do(rows: list[dict[str, Any]]) -> None:
    types = {"i": pa.int64(), "f": pa.float64(), "b": pa.bool_(), "t": pa.string(), "n": pa.list_(pa.int64())}
    found = to_json_lines(pa.Table.from_pylist(rows, pa.schema(list(types.items()))))
    assert not any(b"\n" in line for line in found)
    assert [json.loads(line) for line in found] == rows


def test_numbers_that_json_lacks_are_null() -> None:
    assert to_json_lines(pa.table({"f": [float("inf"), float("nan")]})) == [b'{"f": null}'] * 2


def test_csv_has_its_header_once() -> None:
    rows = pa.table({"id": [1], "road": ["a,b"]})
    assert (
        text_files.to_csv(rows, header=True) + text_files.to_csv(rows, header=False)
        == b'"id","road"\n1,"a,b"\n1,"a,b"\n'
    )
