"""Avro and Protobuf messages mean the same tuples as JSON, by a schema file or a registry; what is none is rejected."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, message_factory, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool
from hypothesis import given
from hypothesis import strategies as st

from registry_server import Server, registry
from slipstream._errors import BadArgument, Unavailable
from slipstream._io.formats.decoding import Decoding
from slipstream._io.formats.messages import frame_messages, read_definition
from slipstream._io.formats.registry import Registry, wrap
from slipstream._io.named_feeds import Definition, Feed, make_feed

CAR = {"id": "text", "time": "integer", "speed": "float", "moving": "boolean"}
AVSC = {
    "type": "record",
    "name": "Car",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "speed", "type": ["null", "double"]},
        {"name": "moving", "type": "boolean"},
        {"name": "extra", "type": {"type": "array", "items": "int"}},
    ],
}
COLUMNS = {"time": "ts:ms"}

cars = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.text(max_size=5),
            "ts": st.integers(0, 2**44),
            "speed": st.none() | st.floats(-1e6, 1e6),
            "moving": st.booleans(),
        }
    ),
    max_size=5,
)


def avro(row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVSC), {**row, "extra": [1, 2]})
    return out.getvalue()


def proto_file() -> descriptor_pb2.FileDescriptorProto:
    """What protoc makes of a file with two messages, the second within the first."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="cars.proto", package="city", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    car = file.message_type.add(name="Car")
    kinds = [
        ("id", field.TYPE_STRING),
        ("ts", field.TYPE_INT64),
        ("speed", field.TYPE_DOUBLE),
        ("moving", field.TYPE_BOOL),
    ]
    for number, (name, kind) in enumerate(kinds, 1):
        added = car.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
        if name == "speed":
            added.proto3_optional, added.oneof_index = True, 0
            car.oneof_decl.add(name="_speed")
    car.field.add(
        name="at", number=5, type=field.TYPE_MESSAGE, type_name=".google.protobuf.Timestamp", label=field.LABEL_OPTIONAL
    )
    inner = car.nested_type.add(name="Plate")
    inner.field.add(name="id", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
    return file


def car_class() -> Any:
    pool = DescriptorPool()
    known = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    pool.Add(known)
    pool.Add(proto_file())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("city.Car"))


CarMessage = car_class()


def protobuf(row: dict[str, Any]) -> bytes:
    made = CarMessage(**{name: value for name, value in row.items() if value is not None})
    made.at.FromMilliseconds(row["ts"])
    return bytes(made.SerializeToString())


DESCRIPTORS = base64.b64encode(descriptor_pb2.FileDescriptorSet(file=[proto_file()]).SerializeToString()).decode()


def plainly(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    lines = "\n".join(json.dumps(row) for row in rows).encode()
    found: list[dict[str, Any]] = Decoding("json", CAR, COLUMNS).decode(lines).tuples.to_pylist()
    return found


@pytest.fixture
def avro_messages() -> Decoding:
    return Decoding("avro", CAR, COLUMNS, definition=json.dumps(AVSC), framed=True)


@given(rows=cars)
def test_avro_and_protobuf_say_what_json_says(rows: list[dict[str, Any]]) -> None:
    expected = plainly(rows)
    by_avro = Decoding("avro", CAR, COLUMNS, definition=json.dumps(AVSC), framed=True)
    assert by_avro.decode(frame_messages(map(avro, rows))).tuples.to_pylist() == expected
    by_protobuf = Decoding("protobuf", CAR, COLUMNS, definition=DESCRIPTORS, framed=True)
    assert by_protobuf.decode(frame_messages(map(protobuf, rows))).tuples.to_pylist() == expected
    at = replace(by_protobuf, columns={"time": "at:ms"}, message="city.Car")
    assert at.decode(frame_messages(map(protobuf, rows))).tuples.to_pylist() == expected


@given(rows=cars, noise=st.lists(st.binary(max_size=30), max_size=3))
def test_every_message_is_a_tuple_or_a_reject(rows: list[dict[str, Any]], noise: list[bytes]) -> None:
    for encoding, encode, text in (("avro", avro, json.dumps(AVSC)), ("protobuf", protobuf, DESCRIPTORS)):
        given_ = [*map(encode, rows), *noise]
        found = Decoding(encoding, CAR, COLUMNS, definition=text, framed=True).decode(frame_messages(given_))
        assert found.tuples.num_rows + found.rejects.num_rows == len(given_)
        assert found.tuples.num_rows >= len(rows)


ROWS = [{"id": "a", "ts": 1500, "speed": None, "moving": True}, {"id": "b", "ts": 2000, "speed": 2.5, "moving": False}]


def test_files_of_avro_and_protobuf(tmp_path: Path) -> None:
    with (tmp_path / "cars.avro").open("wb") as out:
        fastavro.writer(out, fastavro.parse_schema(AVSC), [{**row, "extra": []} for row in ROWS], codec="deflate")
    feed = make_feed(str(tmp_path / "cars.avro"), CAR, columns=COLUMNS)
    assert feed.decoding is not None
    data = (tmp_path / "cars.avro").read_bytes()
    assert feed.decoding.decode(data).tuples.to_pylist() == plainly(ROWS)
    damaged = feed.decoding.decode(data[:-9])
    assert (damaged.tuples.num_rows, damaged.rejects["reason"].to_pylist()) == (0, ["avro"])
    (tmp_path / "cars.desc").write_bytes(base64.b64decode(DESCRIPTORS))
    messages = [protobuf(row) for row in ROWS]
    (tmp_path / "cars.pb").write_bytes(b"".join(bytes([len(message)]) + message for message in messages))
    named = Definition(Path(f"{tmp_path / 'cars.desc'}:city.Car"))
    feed = make_feed(str(tmp_path / "cars.pb"), CAR, columns=COLUMNS, definition=named)
    assert feed.decoding is not None
    data = (tmp_path / "cars.pb").read_bytes()
    assert feed.decoding.decode(data).tuples.to_pylist() == plainly(ROWS)
    assert feed.decoding.decode(data[:-3]).rejects["reason"].to_pylist() == ["protobuf"]


@pytest.fixture
def server() -> Iterator[Server]:
    with registry() as running:
        yield running


def reading(server: Server, encoding: str, **more: Any) -> Decoding:
    return Decoding(encoding, CAR, COLUMNS, registry=server.url, framed=True, **more)


def test_messages_name_their_schema_which_is_fetched_once(server: Server) -> None:
    server.register("cars", 7, "AVRO", json.dumps(AVSC))
    older = {**AVSC, "fields": [field for field in AVSC["fields"] if field["name"] != "speed"]}  # type: ignore[index]
    server.register("cars", 6, "AVRO", json.dumps(older))
    old = io.BytesIO()
    fastavro.schemaless_writer(old, fastavro.parse_schema(older), {**ROWS[0], "extra": []})
    messages = [wrap(7, avro(row)) for row in ROWS] + [wrap(6, old.getvalue()), wrap(9, b"?"), avro(ROWS[0])]
    how = reading(server, "avro")
    for _ in range(2):
        found = how.decode(frame_messages(messages))
        assert found.tuples.to_pylist() == plainly([*ROWS, ROWS[0]])
        assert found.rejects["reason"].to_pylist() == ["schema:9", "avro"]
    paths = [path.partition("?")[0] for path, _ in server.asked]
    assert sorted(paths) == ["/schemas/ids/6", "/schemas/ids/7", "/schemas/ids/9", "/schemas/ids/9"]


def test_a_registry_of_protobuf_says_which_message_of_its_file(server: Server) -> None:
    server.register("cars", 3, "PROTOBUF", base64.b64encode(proto_file().SerializeToString()).decode())
    first = wrap(3, b"\0" + protobuf(ROWS[1]))
    plate = CarMessage.DESCRIPTOR.nested_types_by_name["Plate"]
    second = wrap(3, bytes([4, 0, 0]) + message_factory.GetMessageClass(plate)(id="p").SerializeToString())
    found = reading(server, "protobuf").decode(frame_messages([first, second]))
    expected = [*plainly([ROWS[1]]), {"id": "p", "time": None, "speed": None, "moving": None}]
    assert found.tuples.to_pylist() == expected


def test_a_password_reaches_the_registry_and_no_file(server: Server) -> None:
    server.register("cars", 7, "AVRO", json.dumps(AVSC))
    server.password = "Basic " + base64.b64encode(b"me:secret").decode()
    with pytest.raises(Unavailable, match="401"):
        reading(server, "avro").decode(frame_messages([wrap(7, avro(ROWS[0]))]))
    feed = Feed("kafka:h:1/cars", "avro", decoding=reading(server, "avro"))
    feed = feed.with_settings([("schema.registry.basic.auth.user.info", "me:secret"), ("sasl.password", "secret")])
    assert feed.settings == (("sasl.password", "secret"),)
    assert feed.decoding is not None
    assert feed.decoding.decode(frame_messages([wrap(7, avro(ROWS[0]))])).tuples.num_rows == 1
    assert "secret" not in json.dumps(feed.to_dict())
    stored = json.loads(json.dumps(feed.to_dict()))
    assert Feed.from_dict(stored).to_dict() == Feed.from_dict(stored).with_settings(()).to_dict()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: make_feed("cars.json", CAR, encoding="json", definition=Definition(f)), "needs no schema"),
        (lambda f: make_feed("kafka:h:1/cars", CAR, encoding="avro"), "no schema is given"),
        (lambda f: make_feed("cars.pb", CAR, definition=Definition(None, "http://r")), "requires a topic"),
        (lambda f: make_feed("cars.pb", CAR, definition=Definition(f)), "descriptors"),
        (lambda f: make_feed("cars.pb", CAR, definition=Definition(f / "x")), "no such file"),
        (lambda f: make_feed("tcp:h:1", CAR, encoding="protobuf", definition=Definition(f)), "descriptors"),
        (lambda f: read_definition("avro", f), "not an Avro schema"),
        (lambda f: Registry("http://me:secret@host"), "must not contain a password"),
        (lambda f: Registry("host:1"), "not an address"),
        (lambda f: Registry("http://h", (("tls", "1"),)), "schema.registry.tls: unknown"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("{")
    with pytest.raises(BadArgument, match=message):
        make(tmp_path / "wrong")


def test_a_field_that_messages_do_not_have_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "cars.desc").write_bytes(base64.b64decode(DESCRIPTORS))
    (tmp_path / "cars.pb").write_bytes(b"")
    with pytest.raises(BadArgument, match="have no field 'time'"):
        make_feed(str(tmp_path / "cars.pb"), CAR, definition=Definition(tmp_path / "cars.desc"))
