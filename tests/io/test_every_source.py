"""Every cell of docs/reference/sources.md: each kind of source in each encoding, as each kind of job reads it.

The sources are Spark's, driven here without Spark, so that all cells fit into seconds. Behind them run the stages of
``toll`` and ``archive`` in memory, or the decoding that ``network run`` and ``cuboid run`` share. That these jobs run
in Spark on such sources is shown by one test each: ``linear_road/test_query.py`` (files, folders, sockets, DataFrames),
``network/test_feeds.py`` (folders, topics), ``network/test_streaming.py`` (DataFrames), ``cuboid/test_streams.py``.
"""

from __future__ import annotations

import io
import json
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import descriptor_pb2, message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from pyarrow import csv

from linear_road.engine_in_memory import CAR, Engine
from linear_road.test_kafka import send
from oracles.linear_road import answers
from oracles.trips import trips_of
from services import service
from slipstream._errors import BadArgument, BadInput
from slipstream._feeds.trains import frame
from slipstream._feeds.tuples import FIELDS
from slipstream._io.chunks import CHUNK, ChunkReader, read_arrow_stream
from slipstream._io.formats.encodings import MESSAGES
from slipstream._io.kafka_client import Topic
from slipstream._io.named_feeds import Definition, Feed, make_feed
from slipstream._io.readers import topic as topics
from slipstream._io.report_feeds import has_text_ids, report_feed

#: ten vehicles that report for four minutes, and ask for their balances
ROWS = [
    dict(zip(FIELDS, (0, t, vid, 40 + vid, vid % 2, 1, 0, t // 40, 5280 * (t // 40) + vid, *[-1] * 6), strict=True))
    for t in range(0, 240, 30)
    for vid in range(10)
]
ROWS += [dict(zip(FIELDS, (2, 239, vid, *[-1] * 6, 100 + vid, *[-1] * 5), strict=True)) for vid in range(10)]
LINES = [",".join(str(row[name]) for name in FIELDS) for row in ROWS]
#: as networks and cuboids read it
SCHEMA = {"vid": "integer", "time": "integer", "pos": "integer"}

Rows = list[dict[str, Any]]


def avsc(named: bool) -> str:
    kinds = {name: "string" if named and name == "vid" else "int" for name in FIELDS}
    return json.dumps({"type": "record", "name": "Car", "fields": [{"name": n, "type": t} for n, t in kinds.items()]})


def proto(named: bool) -> tuple[bytes, Any]:
    """A descriptor set, and the class of its message."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="car.proto", syntax="proto3")
    car = file.message_type.add(name="Car")
    for number, name in enumerate(FIELDS, 1):
        kind = field.TYPE_STRING if named and name == "vid" else field.TYPE_SINT32
        car.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
    pool = DescriptorPool()
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("Car"))
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), made


def csv_bytes(table: pa.Table, *, header: bool = True) -> bytes:
    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink, csv.WriteOptions(include_header=header))
    return bytes(sink.getvalue().to_pybytes())


def parquet_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue().to_pybytes())


def arrow_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def avro_file(rows: Rows, named: bool) -> bytes:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(json.loads(avsc(named))), rows)
    return out.getvalue()


def message(encoding: str, row: dict[str, Any], named: bool) -> bytes:
    """One message of a topic."""
    if encoding == "avro":
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(avsc(named))), row)
        return out.getvalue()
    if encoding == "protobuf":
        return bytes(proto(named)[1](**row).SerializeToString())
    if encoding == "csv":
        return csv_bytes(pa.Table.from_pylist([row]), header=False).strip()
    return file_bytes(encoding, [row], named).strip(b"\n" if encoding in ("text", "json") else b"")


def file_bytes(encoding: str, rows: Rows, named: bool = False) -> bytes:
    """A file of some rows."""
    if encoding == "text":
        return "".join(",".join(str(row[name]) for name in FIELDS) + "\n" for row in rows).encode()
    if encoding == "json":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    if encoding == "train":
        by_second = {row["time"]: [one for one in rows if one["time"] == row["time"]] for row in rows}
        return b"".join(
            frame({name: np.array([row[name] for row in some], np.int32) for name in FIELDS})
            for some in by_second.values()
        )
    if encoding == "avro":
        return avro_file(rows, named)
    if encoding == "protobuf":
        bodies = [message(encoding, row, named) for row in rows]
        return b"".join(bytes([len(body)]) + body for body in bodies)  # all of them are short
    tables: dict[str, Callable[[pa.Table], bytes]] = {"csv": csv_bytes, "parquet": parquet_bytes, "arrow": arrow_bytes}
    return tables[encoding](pa.Table.from_pylist(rows))


# --- the kinds of source


class Given:
    """A source of one kind, and how its rows come to be there."""

    def __init__(self, tmp_path: Path, kind: str, encoding: str, named: bool, broker: str = "") -> None:
        self.kind, self.encoding, self.named, self.place = kind, encoding, named, tmp_path
        self.rows: Rows = [{**row, "vid": f"{CAR}{row['vid']}"} for row in ROWS] if named else ROWS
        self.half = next(place for place, row in enumerate(ROWS) if row["time"] == 120)
        self.where = str(tmp_path / f"feed.{encoding}") if kind in ("file", "growing") else str(tmp_path / "folder")
        self.follow = kind in ("growing", "filling", "socket")
        self.steps: Iterator[None] = getattr(self, kind)(broker)
        next(self.steps)

    @property
    def definition(self) -> Definition | None:
        if self.encoding not in MESSAGES or (self.encoding == "avro" and self.kind != "topic"):
            return None
        file = self.place / "schema"
        file.write_bytes(avsc(self.named).encode() if self.encoding == "avro" else proto(self.named)[0])
        return Definition(file)

    def bytes(self, rows: Rows) -> bytes:
        return file_bytes(self.encoding, rows, self.named)

    def file(self, _: str) -> Iterator[None]:
        Path(self.where).write_bytes(self.bytes(self.rows))
        yield

    def growing(self, _: str) -> Iterator[None]:
        whole = self.bytes(self.rows)
        Path(self.where).write_bytes(whole[: len(whole) // 2])  # a line is torn
        yield
        Path(self.where).write_bytes(whole)
        Path(self.where + ".end").touch()
        yield

    def folder(self, _: str) -> Iterator[None]:
        Path(self.where).mkdir()
        for number, rows in enumerate((self.rows[: self.half], self.rows[self.half :])):
            (Path(self.where) / f"{number}.{self.encoding}").write_bytes(self.bytes(rows))
        yield

    def filling(self, _: str) -> Iterator[None]:
        Path(self.where).mkdir()
        (Path(self.where) / "0").write_bytes(self.bytes(self.rows[: self.half]))
        yield
        (Path(self.where) / "1").write_bytes(self.bytes(self.rows[self.half :]))
        Path(self.where + ".end").touch()
        yield

    def socket(self, _: str) -> Iterator[None]:
        server = socket.create_server(("127.0.0.1", 0))
        self.where = f"tcp:127.0.0.1:{server.getsockname()[1]}"
        whole = self.bytes(self.rows)
        data = whole.partition(b"\n")[2] if self.encoding == "csv" else whole
        thread = threading.Thread(target=serve, args=(server, data))
        thread.start()
        yield
        thread.join()
        yield

    def topic(self, broker: str) -> Iterator[None]:
        name = f"cells-{uuid.uuid4().hex}"
        self.where = f"kafka:{broker}/{name}"
        # one partition: what is late is judged in each
        bodies = [message(self.encoding, row, self.named) for row in self.rows]
        send(broker, name, [self.bytes(self.rows)] if self.encoding in ("parquet", "arrow", "train") else bodies)
        yield

    def feed(self, *, tolled: bool) -> Feed:
        fields = FIELDS if self.encoding == "csv" and self.kind in ("socket", "topic") else ()
        more: dict[str, Any] = {"fields": fields, "follow": self.follow, "definition": self.definition}
        if tolled:
            untyped = self.kind in ("socket", "topic") and self.encoding not in MESSAGES
            columns = {"vid": "vid:text"} if self.named and untyped else {}
            return report_feed(self.where, self.encoding, columns=columns, **more)
        schema = {**SCHEMA, "vid": "text"} if self.named else SCHEMA
        return make_feed(self.where, schema, encoding=self.encoding, **more)

    def read(self, feed: Feed, packing: Any = None) -> list[list[Any]]:
        """The rows that the tasks of each batch give to Spark."""
        reader: Any = feed.source(self.place / "checkpoint", packing=packing).streamReader(None)
        assert isinstance(reader, ChunkReader)
        feed.connect(self.place / "checkpoint")
        found, at = [], reader.initialOffset()
        while not at["ended"]:
            end = reader.latestOffset(at, None)
            batches = [batch for task in reader.partitions(at, end) for batch in reader.read(task)]
            found.append([SimpleNamespace(**row) for batch in batches for row in batch.to_pylist()])
            at = end
            next(self.steps, None)
        return found


def serve(server: socket.socket, data: bytes) -> None:
    connection, _ = server.accept()
    with server, connection:
        for place in range(0, len(data), 1000):
            connection.sendall(data[place : place + 1000])


def check_tolls(given: Given) -> None:
    """Answers and trips are the oracle's: ``toll`` and ``archive`` read alike."""
    feed = given.feed(tolled=True)
    assert has_text_ids(feed) == given.named
    engine = Engine(named=given.named)
    packing = type(engine.packing)(feed.encoding, (0,), 60, feed.decoding, given.named)
    for number, rows in enumerate(given.read(feed, packing)):
        if rows:
            engine.take(number, rows)
    assert engine.rejects == []
    assert sorted(engine.outputs) == sorted(answers(LINES).outputs)
    assert sorted(trip for batch in engine.trips for trip in batch) == sorted(trips_of(LINES))


def check_tuples(given: Given) -> None:
    """The tuples are those that were sent: ``network run`` and ``cuboid run`` read alike."""
    feed = given.feed(tolled=False)
    rows = [row for batch in given.read(feed) for row in batch]
    found = [one for row in rows if row.what == CHUNK for one in read_arrow_stream(row.chunk).to_pylist()]
    assert found == [{name: row[name] for name in SCHEMA} for row in given.rows]


CHECKS = pytest.mark.parametrize("check", [check_tolls, check_tuples])
OWN, LINED, WHOLE = ("text", "train"), ("csv", "json"), ("parquet", "arrow", "avro", "protobuf")
CELLS = [(kind, encoding) for kind in ("file", "folder", "filling") for encoding in (*OWN, *LINED, *WHOLE)]
CELLS += [("growing", encoding) for encoding in ("text", *LINED)] + [("socket", e) for e in (*OWN, *LINED)]
#: Linear Road's own encodings have numbers only
IDS = {encoding: (False,) if encoding in OWN else (False, True) for encoding in (*OWN, *LINED, *WHOLE)}


@CHECKS
@pytest.mark.parametrize(
    ("kind", "encoding", "named"), [(kind, encoding, named) for kind, encoding in CELLS for named in IDS[encoding]]
)
def test_a_cell(kind: str, encoding: str, named: bool, check: Callable[[Given], None], tmp_path: Path) -> None:
    check(Given(tmp_path, kind, encoding, named))


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


@pytest.mark.long
@CHECKS
@pytest.mark.parametrize(("encoding", "named"), [(encoding, named) for encoding in IDS for named in IDS[encoding]])
def test_a_cell_of_topics(
    encoding: str, named: bool, check: Callable[[Given], None], broker: str, tmp_path: Path
) -> None:
    check(Given(tmp_path, "topic", encoding, named, broker))


# --- cells that are empty, and feeds that change under a job


@pytest.mark.parametrize("encoding", ["train", *WHOLE])
def test_a_file_that_is_not_lines_cannot_be_followed(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "feed"
    file.write_bytes(file_bytes(encoding, ROWS))
    with pytest.raises(BadArgument, match=f"a file of {encoding} cannot be followed"):
        Feed(str(file), encoding, follow=True).check()


@pytest.mark.parametrize("encoding", WHOLE)
def test_a_socket_carries_lines_and_trains(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "schema").write_bytes(avsc(False).encode() if encoding == "avro" else proto(False)[0])
    definition = Definition(tmp_path / "schema") if encoding == "protobuf" else None
    with pytest.raises(BadArgument, match=f"a socket cannot carry {encoding}"):
        make_feed("tcp:127.0.0.1:1", SCHEMA, encoding=encoding, definition=definition)


def test_ids_that_look_like_numbers_are_numbers_unless_told_otherwise(tmp_path: Path) -> None:
    """The first line of a file decides; later texts are rejected, not guessed."""
    for name, lines, text in [
        ("a.csv", "vid,time,spd,xway,lane,dir,pos\n17,1,2,0,1,0,5\nB-X,1,2,0,1,0,5\n", False),
        ("b.csv", "vid,time,spd,xway,lane,dir,pos\nB-X,1,2,0,1,0,5\n17,1,2,0,1,0,5\n", True),
        ("c.json", '{"vid": "17"}\n', True),
        ("d.json", '{"vid": 17}\n', False),
        ("e.json", "not JSON\n", False),
    ]:
        (tmp_path / name).write_text(lines)
        assert has_text_ids(report_feed(str(tmp_path / name), name[2:], columns={"time": "time"})) == text, name
    assert has_text_ids(report_feed(str(tmp_path / "a.csv"), "csv", columns={"vid": "vid:text"}))


@pytest.mark.parametrize(
    ("marks", "message"),
    [(None, "the topic no longer exists"), ({0: (0, 3)}, "ends before message 3, but 7 were read")],
)
def test_a_topic_that_disappears_or_is_made_anew_stops_the_job(
    marks: topics.Marks | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the job would wait for ever, or skip what the new topic has."""
    reader = topics.TopicReader(topics.Subscription(Topic("127.0.0.1:1", "cars"), True, "json"))
    monkeypatch.setattr(topics, "watermarks", lambda _: marks)
    with pytest.raises(BadInput, match=message):
        reader.next_offset({"openings": 0, "ended": False, "at": {"0": 7}, "behind": []})


@pytest.mark.long
def test_a_topic_that_is_deleted_stops_the_job(broker: str) -> None:
    from confluent_kafka.admin import AdminClient

    name = f"gone-{uuid.uuid4().hex}"
    send(broker, name, [b"{}"])
    feed = Feed(f"kafka:{broker}/{name}", "json", follow=True)
    reader: Any = feed.source(Path("unused")).streamReader(None)
    at = reader.latestOffset(reader.initialOffset(), None)
    admin: Any = AdminClient({"bootstrap.servers": broker})
    admin.delete_topics([name])[name].result(30)

    def read_on() -> None:
        place = at
        for _ in range(200):
            place = reader.latestOffset(place, None)

    with pytest.raises(BadInput, match="the topic no longer exists"):
        read_on()
