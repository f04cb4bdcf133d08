"""Decoding Avro and Protobuf messages, which need a schema.

The schema is given as a file, or each message refers to one in a schema registry. Messages of a topic are framed, so
that a chunk can hold several; files are Avro's own containers, or length-delimited Protobuf messages.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import IO, Any

from slipstream._errors import BadArgument, SlipstreamError
from slipstream._io.formats.encodings import AVRO, PROTOBUF
from slipstream._io.formats.registry import Registry, unwrap
from slipstream._tools.files import temporary

_LENGTH = struct.Struct("<I")
_KINDS = {"AVRO": AVRO, "PROTOBUF": PROTOBUF}

#: returns the values of the wanted fields of a message; may raise anything if the bytes are invalid
Reader = Callable[[bytes], Sequence[Any]]
#: the values of a message, or the reason to reject it
Found = Sequence[Any] | str


def frame_messages(messages: Iterable[bytes]) -> bytes:
    """Join messages to a chunk.

    >>> unframe_messages(frame_messages([b"a", b"", b"bc"]))
    [b'a', b'', b'bc']
    """
    return b"".join(_LENGTH.pack(len(message)) + message for message in messages)


def unframe_messages(chunk: bytes) -> list[bytes]:
    """Split a chunk into messages."""
    found, place = [], 0
    while place < len(chunk):
        (length,) = _LENGTH.unpack_from(chunk, place)
        found.append(chunk[place + 4 : place + 4 + length])
        place += 4 + length
    return found


# --- schemas


def read_definition(encoding: str, file: Path) -> tuple[str, str]:
    """Read a schema file as text that can be sent to tasks, and the message in ``FILE:MESSAGE``, if one is named."""
    path, message = file, ""
    if not path.is_file() and ":" in str(file):
        name, _, message = str(file).rpartition(":")
        path = Path(name)
    if not path.is_file():
        raise BadArgument(
            f"--message-schema {file}: no such file.",
            hint="Give an .avsc, .proto or descriptor file.",
            code="no-such-file",
            found=file,
        )
    if encoding == AVRO:
        text = path.read_text(encoding="utf-8", errors="replace")
        list_avro_fields(text)
        return text, ""
    data = _compile_proto(path) if path.suffix == ".proto" else path.read_bytes()
    text = base64.b64encode(data).decode()
    list_protobuf_fields(text, message)
    return text, message


def _compile_proto(file: Path) -> bytes:
    """Compile a .proto file to descriptors with protoc."""
    protoc = shutil.which("protoc")
    if protoc is None:
        raise BadArgument(
            f"--message-schema {file}: a .proto file needs protoc, which is not installed.",
            hint="Install it, or give a file written elsewhere by protoc --include_imports --descriptor_set_out=FILE.",
            code="missing-software",
        )
    made = temporary.folder() / f"{file.stem}.desc"
    command = [protoc, "--include_imports", f"--descriptor_set_out={made}", f"-I{file.parent}", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BadArgument(
            f"--message-schema {file}: {done.stderr.strip().splitlines()[0]}",
            hint="Correct the file.",
            code="unreadable-file",
        )
    return made.read_bytes()


def fields(encoding: str, text: str, message: str) -> list[str]:
    """The fields of the messages that a schema describes."""
    return list_avro_fields(text) if encoding == AVRO else list_protobuf_fields(text, message)


def list_registered_fields(encoding: str, registry: Registry, topic: str) -> list[str]:
    """The fields of the newest schema of a topic; none if nothing is registered yet."""
    found = registry.latest(topic)
    if found is None:
        return []
    if _KINDS.get(found.kind) != encoding:
        raise BadArgument(
            f"{registry.url}: topic {topic} is encoded in {found.kind}, not {encoding}.",
            hint="Give that --format.",
            code="unknown-value",
        )
    return fields(encoding, found.text, "")


def list_avro_fields(text: str) -> list[str]:
    """The fields of an Avro record."""
    return [field["name"] for field in _parse_avro_schema(text)["fields"]]


@cache
def _parse_avro_schema(text: str) -> Any:
    from fastavro import parse_schema
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        parsed: Any = parse_schema(_drop_logical_types(json.loads(text)))
    except (ValueError, KeyError, TypeError, SchemaParseException, UnknownType) as error:
        raise BadArgument(
            f"--message-schema: not an Avro schema ({error}).", hint="Give an .avsc file.", code="unreadable-file"
        ) from error
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise BadArgument(
            "--message-schema: not the schema of a record.", hint="Its type must be record.", code="unreadable-file"
        )
    return parsed


def _drop_logical_types(schema: Any) -> Any:
    """Read numbers as numbers: --columns defines which of them are times, and their units."""
    if isinstance(schema, dict):
        return {key: _drop_logical_types(value) for key, value in schema.items() if key != "logicalType"}
    return [_drop_logical_types(part) for part in schema] if isinstance(schema, list) else schema


def list_protobuf_fields(text: str, message: str) -> list[str]:
    """The fields of a Protobuf message."""
    return [field.name for field in _find_message_class(text, message).DESCRIPTOR.fields]


@cache
def _find_message_class(text: str, message: str, path: tuple[int, ...] = (0,)) -> Any:
    """The class of a message: by name, or else by its position in the last file of a set."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError

    try:
        data = base64.b64decode(text, validate=True)
        files = _read_files(data, descriptor_pb2, DecodeError)
        pool = descriptor_pool.DescriptorPool()
        for file in [*_load_well_known(), *files]:
            pool.Add(file)
        if not message:
            declared = files[-1]
            found = declared.message_type[path[0]]
            names = [declared.package, found.name]
            for place in path[1:]:
                found = found.nested_type[place]
                names.append(found.name)
            message = ".".join(filter(None, names))
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(message))
    except (binascii.Error, DecodeError, TypeError, KeyError, IndexError) as error:
        what = f"no message {message!r}" if message else f"not Protobuf descriptors ({error})"
        raise BadArgument(
            f"--message-schema: {what}.",
            hint="Give a file written by protoc --include_imports --descriptor_set_out.",
            code="unreadable-file",
        ) from error


def _read_files(data: bytes, pb2: Any, error: type[Exception]) -> list[Any]:
    """The files of a descriptor set; a registry returns a single file."""
    try:
        files = list(pb2.FileDescriptorSet.FromString(data).file)
        if files and all(file.name and file.message_type for file in files[-1:]):
            return files
    except error:
        pass
    return [pb2.FileDescriptorProto.FromString(data)]


def _load_well_known() -> list[Any]:
    from google.protobuf import descriptor_pb2, timestamp_pb2, wrappers_pb2

    files = []
    for module in (timestamp_pb2, wrappers_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        files.append(file)
    return files


def list_text_fields(encoding: str, text: str, message: str) -> list[str]:
    """The fields that hold text."""
    if encoding == PROTOBUF:
        fields = _find_message_class(text, message).DESCRIPTOR.fields
        return [field.name for field in fields if field.type == field.TYPE_STRING and not _repeats(field)]
    return [field["name"] for field in _parse_avro_schema(text)["fields"] if "string" in _list_kinds(field["type"])]


def _repeats(field: Any) -> bool:
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED


def _list_kinds(type_: Any) -> list[Any]:
    """The types of an Avro field; a union has several."""
    several = type_ if isinstance(type_, list) else [type_]
    return [kind["type"] if isinstance(kind, dict) else kind for kind in several]


def read_container_schema(file: IO[bytes]) -> str:
    """The schema in an Avro file; empty if it is not an Avro file."""
    from fastavro import block_reader

    try:
        return json.dumps(block_reader(file).writer_schema)
    except Exception:  # whatever the reader raises for bytes that are not Avro
        return ""


# --- readers


def _make_avro_reader(text: str, wanted: Sequence[str]) -> Reader:
    from fastavro import schemaless_reader

    schema, stream, values = _parse_avro_schema(text), io.BytesIO, _make_getter(wanted, list_avro_fields(text))

    def read(message: bytes) -> Sequence[Any]:
        source = stream(message)
        found = schemaless_reader(source, schema, None)
        if source.tell() != len(message):
            raise ValueError("more than a record")
        return values(found)

    return read


def _make_getter(wanted: Sequence[str], known: Sequence[str]) -> Callable[[Any], Sequence[Any]]:
    """Return a function that gets the values of the wanted fields from a record."""
    if len(wanted) > 1 and set(wanted) <= set(known):
        return itemgetter(*wanted)
    return lambda found: [found.get(name) for name in wanted]


def _make_protobuf_reader(text: str, message: str, wanted: Sequence[str]) -> Reader:
    return _make_field_reader(_find_message_class(text, message), wanted)


def _make_field_reader(made: Any, wanted: Sequence[str]) -> Reader:
    known = made.DESCRIPTOR.fields_by_name
    if len(wanted) > 1 and all(name in known and not known[name].has_presence for name in wanted):
        values = attrgetter(*wanted)
        return lambda data: values(made.FromString(data))
    getters = [_make_field_getter(known[name]) if name in known else _read_absent for name in wanted]

    def read(data: bytes) -> Sequence[Any]:
        found = made.FromString(data)
        return [value(found) for value in getters]

    return read


def _make_field_getter(field: Any) -> Callable[[Any], Any]:
    """Return a function that gets a field from a message."""
    name, value = field.name, attrgetter(field.name)
    if not field.has_presence:
        return value
    if field.message_type is None:
        return lambda found: value(found) if found.HasField(name) else None
    return lambda found: _to_plain(value(found)) if found.HasField(name) else None


def _read_absent(_: Any) -> None:
    return None


def _to_plain(value: Any) -> Any:
    """Convert a timestamp to milliseconds since 1970, and unwrap a wrapped value."""
    if hasattr(value, "ToMilliseconds"):
        return value.ToMilliseconds()
    return value.value if hasattr(value, "DESCRIPTOR") and hasattr(value, "value") else value


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place
        if shift > 63:
            raise ValueError("not a number")


def _read_message_path(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """The path of the message type in its file, and the message; Confluent writes a count and zigzag indexes."""

    def number(place: int) -> tuple[int, int]:
        value, place = _read_varint(data, place)
        return (value >> 1) ^ -(value & 1), place

    count, place = number(0)
    path = []
    for _ in range(count):
        step, place = number(place)
        path.append(step)
    return tuple(path) or (0,), data[place:]


class Decoder:
    """Decodes the wanted fields of messages, by one schema or by those of a registry."""

    def __init__(
        self,
        encoding: str,
        wanted: Sequence[str],
        *,
        text: str = "",
        message: str = "",
        registry: Registry | None = None,
    ) -> None:
        self._encoding, self._wanted, self._registry = encoding, list(wanted), registry
        self._one = self._reader(text, message) if registry is None else None
        self._known: dict[tuple[int, tuple[int, ...]], Reader] = {}

    def _reader(self, text: str, message: str) -> Reader:
        if self._encoding == AVRO:
            return _make_avro_reader(text, self._wanted)
        return _make_protobuf_reader(text, message, self._wanted)

    def values(self, messages: Sequence[bytes]) -> list[Found]:
        """The values of each message, or the reason to reject it."""
        unknown: set[int] = set()
        read = self._one if self._one is not None else partial(self._fetch_schema, unknown=unknown)
        try:
            return list(map(read, messages))
        except Exception:  # whatever a decoder raises for invalid bytes: decode one by one to find the message
            return [self._read_value(read, message) for message in messages]

    def _read_value(self, read: Callable[[bytes], Found], message: bytes) -> Found:
        try:
            return read(message)
        except SlipstreamError:
            raise
        except Exception:
            return self._encoding

    def _fetch_schema(self, message: bytes, unknown: set[int]) -> Found:
        found = unwrap(message)
        if found is None:
            return self._encoding
        number, body = found
        path, body = _read_message_path(body) if self._encoding == PROTOBUF else ((0,), body)
        if (number, path) not in self._known:
            if number in unknown:
                return f"schema:{number}"
            assert self._registry is not None
            schema = self._registry.schema(number)
            if schema is None or _KINDS.get(schema.kind) != self._encoding:
                unknown.add(number)
                return f"schema:{number}"
            self._known[number, path] = self._make_reader(schema.text, path)
        return self._known[number, path](body)

    def _make_reader(self, text: str, path: tuple[int, ...]) -> Reader:
        if self._encoding == AVRO:
            return _make_avro_reader(text, self._wanted)
        return _make_field_reader(_find_message_class(text, "", path), self._wanted)


def read_container(chunk: bytes, wanted: Sequence[str]) -> Iterator[Found]:
    """Read the records of an Avro file; everything after a damaged block is lost with it."""
    from fastavro import block_reader, schemaless_reader

    try:
        blocks: Iterator[Any] = block_reader(io.BytesIO(chunk))
        for block in blocks:
            text = json.dumps(block.writer_schema)
            schema, values = _parse_avro_schema(text), _make_getter(wanted, list_avro_fields(text))
            for _ in range(block.num_records):
                yield values(schemaless_reader(block.bytes_, schema, None))
    except Exception:  # whatever the reader raises for bytes that are not Avro
        yield AVRO


def split_delimited(chunk: bytes) -> Iterator[bytes]:
    """Split a file of length-delimited Protobuf messages; a truncated one is returned as it is."""
    place = 0
    while place < len(chunk):
        try:
            length, start = _read_varint(chunk, place)
        except (IndexError, ValueError):
            length, start = len(chunk), place
        yield chunk[start : start + length]
        place = start + length
