"""The driver: whole seconds, in order, on time, to every destination."""

from __future__ import annotations

import io
import json
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from oracles.streams import busy_stream
from services import service, stop
from slipstream._bench.driving.driver import (
    MAX_LAG,
    DrivePlan,
    drive,
    log_to,
    prepare_ahead,
    read_seconds,
    read_sent,
    split_by_partition,
)
from slipstream._bench.driving.encoders import ENCODINGS, encode_json, encode_text, find_encoding
from slipstream._bench.driving.receivers import FeedReceiver, FolderDestination, open_destination
from slipstream._cli import app
from slipstream._errors import BadArgument, Unavailable
from slipstream._feeds.run import Run
from slipstream._feeds.tuple_text import export_text, import_text
from slipstream._feeds.tuples import FIELDS

TEXT = ENCODINGS["text"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("driver")
    (folder / "feed.txt").write_text("\n".join(busy_stream(3, seconds=150)) + "\n")
    return import_text(folder / "feed.txt", folder / "run")


def exported(run: Run) -> bytes:
    text = io.BytesIO()
    export_text(run, text)
    return text.getvalue()


class Recorder(FeedReceiver):
    """Notes what came when; may be slow once."""

    def __init__(self, slow_at: int = -1, by: float = 0) -> None:
        self.came: list[tuple[int, float]] = []
        self.data = b""
        self.slow_at, self.by = slow_at, by

    def deliver(self, second: int, parts: Sequence[bytes]) -> None:
        if second == self.slow_at:
            time.sleep(self.by)
        self.came.append((second, time.monotonic()))
        self.data += b"".join(parts)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("copies", [1, 3])
def test_nothing_is_lost_or_reordered(run: Run, copies: int) -> None:
    recorder = Recorder()
    result = drive(run.multiplied(copies), DrivePlan(0, 150, speed=0), encode_text, recorder)
    assert recorder.data == exported(run.multiplied(copies))
    assert result.tuples == sum(run.multiplied(copies).manifest.counts.values())
    assert [second for second, _ in recorder.came] == sorted({second for second, _ in recorder.came})


@pytest.mark.parametrize("partitions", [1, 2, 3, 7])
def test_parts_have_every_tuple_of_a_second_once_and_in_order(run: Run, partitions: int) -> None:
    for _, table in read_seconds(run.multiplied(5), 40):
        parts = split_by_partition(table, partitions)
        assert len(parts) == partitions
        lines = [set(encode_text(part).splitlines()) for part in parts if part.num_rows]
        assert sum(len(part) for part in parts) == table.num_rows
        assert set().union(*lines) == set(encode_text(table).splitlines())
        for part in parts:
            xways = {row["xway"] % partitions for row in part.to_pylist() if row["type"] == 0}
            assert len(xways) <= 1


def test_a_drive_that_was_interrupted_continues_after_its_last_second(run: Run, tmp_path: Path) -> None:
    log, first, rest = tmp_path / "sent.jsonl", Recorder(), Recorder()
    plan = DrivePlan.for_run(run, 0, 0, 150)
    drive(run, replace(plan, end=47), encode_text, first, note=log_to(log))
    with log.open("ab") as file:
        file.write(b'{"second": 47, "tup')  # killed while it wrote
    resumed = plan.after(read_sent(log)[-1].second)
    drive(run, resumed, encode_text, rest, note=log_to(log))
    assert first.data + rest.data == exported(run)
    assert [sent.second for sent in read_sent(log)] == [second for second, _ in first.came + rest.came]
    assert sum(sent.tuples for sent in read_sent(log)) == sum(run.manifest.counts.values())


def test_a_drive_may_begin_later(run: Run) -> None:
    recorder = Recorder()
    drive(run, DrivePlan.for_run(run, 0, 0, 100, since=61), encode_text, recorder)
    assert [second for second, _ in recorder.came] == [second for second, _ in read_seconds(run, 100) if second >= 61]


def test_every_second_leaves_when_it_is_due(run: Run) -> None:
    recorder = Recorder()
    result = drive(run, DrivePlan(20, 60, speed=40), encode_text, recorder)
    came = dict(recorder.came)
    assert max(came) == 59
    for second in range(21, 60):
        assert came[second] - came[20] >= (second - 20) / 40 - 0.01
    assert (result.fast_forwarded, result.seconds) == (20, 60)
    assert abs(result.origin_epoch_ms / 1000 - time.time()) < 60


def test_a_late_driver_makes_the_run_void(run: Run) -> None:
    recorder = Recorder(slow_at=30, by=MAX_LAG + 0.3)
    result = drive(run, DrivePlan(0, 40, speed=100), encode_text, recorder)
    assert result.void
    assert result.latest_second >= 30
    assert len(recorder.came) == len(list(read_seconds(run, 40)))


def test_json_has_the_fifteen_names_and_the_same_numbers(run: Run) -> None:
    for _, table in read_seconds(run, 50):
        objects = [json.loads(line) for line in encode_json(table).splitlines()]
        assert [list(o) for o in objects] == [list(FIELDS)] * table.num_rows
        lines = [",".join(str(value) for value in o.values()) for o in objects]
        assert lines == encode_text(table).decode().splitlines()


def test_a_folder_only_ever_shows_whole_files(run: Run, tmp_path: Path) -> None:
    drive(run, DrivePlan(0, 150, speed=0), encode_text, FolderDestination(tmp_path / "feed", TEXT))
    files = sorted((tmp_path / "feed").iterdir())
    assert files[0].name == "second-000000.txt"
    assert b"".join(file.read_bytes() for file in files) == exported(run)
    with pytest.raises(BadArgument, match="not empty"):
        FolderDestination(tmp_path / "feed", TEXT)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_tcp_client_gets_everything_and_its_going_away_is_told(run: Run) -> None:
    port = free_port()
    got = io.BytesIO()

    def listen() -> None:
        for _ in range(200):
            try:
                with socket.create_connection(("127.0.0.1", port)) as client:
                    while piece := client.recv(65536):
                        got.write(piece)
                return
            except ConnectionRefusedError:
                time.sleep(0.05)

    client = threading.Thread(target=listen)
    client.start()
    to = open_destination(f"tcp:127.0.0.1:{port}", TEXT)
    drive(run, DrivePlan(0, 150, speed=0), encode_text, to)
    to.close()
    client.join()
    assert got.getvalue() == exported(run)
    with pytest.raises(Unavailable, match="disconnected at second"):
        to.deliver(151, [b"more"])


def test_a_port_in_use_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(Unavailable, match="in use"):
        open_destination(f"tcp:127.0.0.1:{server.getsockname()[1]}", TEXT)


@pytest.mark.parametrize("bad", ["nowhere", "dir:", "tcp:host", "kafka:host:9092", "file:x"])
def test_an_unknown_destination_is_told(bad: str) -> None:
    with pytest.raises(BadArgument, match=r"not a (destination|topic)"):
        open_destination(bad, TEXT)


def test_an_unknown_encoding_and_seconds_outside_the_run_are_told(run: Run) -> None:
    with pytest.raises(BadArgument, match="Use one of: text, json"):
        find_encoding("xml")
    with pytest.raises(BadArgument, match="outside the run"):
        DrivePlan.for_run(run, 1, 200, None)


def test_the_command_says_what_it_delivered(run: Run, tmp_path: Path) -> None:
    arguments = ["drive", str(run.path), "--to", f"dir:{tmp_path / 'feed'}", "--speed", "0", "--until", "60", "--json"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    summary = json.loads(result.stdout)
    assert (summary["seconds"], summary["void"]) == (60, False)
    assert len(list((tmp_path / "feed").iterdir())) == len(list(read_seconds(run, 60)))


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    """HOST:PORT of a real broker."""
    yield from service("kafka")


def consume(broker: str, topic: str, count: int) -> list[bytes]:
    from confluent_kafka import Consumer

    consumer = Consumer({"bootstrap.servers": broker, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    messages: list[bytes] = []
    for _ in range(120):
        messages += [message.value() for message in consumer.consume(10_000, timeout=0.5)]
        if len(messages) >= count:
            break
    consumer.close()
    return messages


def test_a_topic_gets_every_tuple_in_order(run: Run, broker: str) -> None:
    topic = f"tuples-{uuid.uuid4().hex}"
    to = open_destination(f"kafka:{broker}/{topic}", TEXT)
    result = drive(run, DrivePlan(0, 150, speed=0), encode_text, to)
    assert consume(broker, topic, result.tuples) == exported(run).splitlines()


def test_partitions_share_every_tuple_in_order(run: Run, broker: str) -> None:
    """Reports of an expressway and requests of a vehicle stay together."""
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = f"spread-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": broker})  # must outlive the request
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(30)
    to = open_destination(f"kafka:{broker}/{topic}", TEXT, spread=True)
    assert to.partitions == 3
    result = drive(run.multiplied(4), DrivePlan(0, 150, speed=0), encode_text, to)
    assert sorted(consume(broker, topic, result.tuples)) == sorted(exported(run.multiplied(4)).splitlines())


def test_a_broker_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipstream._io.kafka_client.TIMEOUT_S", 1)
    with pytest.raises(Unavailable, match="the broker does not respond"):
        open_destination(f"kafka:127.0.0.1:{free_port()}/tuples", TEXT)


def test_a_broker_that_goes_away_is_told(run: Run, broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipstream._io.kafka_client.TIMEOUT_S", 2)
    to = open_destination(f"kafka:{broker}/gone-{uuid.uuid4().hex}", TEXT)
    to.deliver(0, [b"first\n"])
    stop("kafka")
    with pytest.raises(Unavailable, match="the broker failed at second 1"):
        to.deliver(1, [b"second\n"])


def test_a_driver_that_is_interrupted_leaves_no_thread() -> None:
    """One that is inside Arrow when Python ends takes the process down with it."""
    seconds = ((second, pa.table({"time": [second]})) for second in range(1000))
    before = threading.active_count()
    prepared = prepare_ahead(seconds, lambda table: [b""])
    assert next(prepared) == (0, 1, [b""])
    assert threading.active_count() == before + 1
    prepared.close()
    assert threading.active_count() == before
