"""Decoding the bytes of a feed to columns: which fields become which columns, and why a line is rejected.

A chunk is decoded as a whole. Only if something in it does not fit is it decoded line by line, so that a bad line
costs that line and not the feed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq
from pyarrow import csv

from slipstream._errors import BadArgument
from slipstream._feeds.tuples import FIELDS
from slipstream._io.formats.encodings import ARROW, AVRO, CSV, ENCODINGS, JSON, PARQUET, PROTOBUF, TEXT, TRAIN
from slipstream._io.formats.pseudonyms import Pseudonyms

if TYPE_CHECKING:
    from slipstream._io.formats.messages import Decoder
    from slipstream._io.formats.registry import Registry

#: the Arrow type of each type of column
TYPES = {"integer": pa.int64(), "float": pa.float64(), "text": pa.string(), "boolean": pa.bool_()}

#: the Python types that the values of a message may have, by the type of their column
_KINDS: dict[str, set[type]] = {
    "integer": {int, type(None)},
    "float": {int, float, type(None)},
    "text": {str, int, type(None)},
    "boolean": {bool, type(None)},
}

#: units of a time field, and how many of them make a second; ISO 8601 is text
UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000}
ISO = "iso"

#: why a line was rejected, and the line
REJECTS = pa.schema([("reason", pa.string()), ("line", pa.string())])

_NUMBER = {
    "integer": r"^[ \t]*-?[0-9]{1,19}[ \t]*$",
    "float": r"^[ \t]*[-+]?([0-9]*\.?[0-9]+([eE][-+]?[0-9]+)?|[0-9]+\.|inf|nan|NaN)[ \t]*$",
}
_TRUE, _FALSE = ["1", "true", "True", "TRUE"], ["0", "false", "False", "FALSE"]
_NULLS = ["", "NULL", "null", "NaN", "nan", "N/A", "NA", "n/a", "#N/A"]

Reject = tuple[str, str]


class Decoded(NamedTuple):
    """The tuples of a chunk, in order, and the rejected lines, each with its reason."""

    tuples: pa.Table
    rejects: pa.Table


class FieldRef(NamedTuple):
    """The field of a feed that a column is read from, and the unit if it is a time."""

    field: str
    unit: str = ""

    @classmethod
    def parse(cls, text: str) -> FieldRef:
        """Parse ``FIELD`` or ``FIELD:UNIT``.

        >>> FieldRef.parse("ts:ms")
        FieldRef(field='ts', unit='ms')
        >>> FieldRef.parse("urn:vin")
        FieldRef(field='urn:vin', unit='')
        """
        name, _, unit = text.rpartition(":")
        return cls(name, unit) if name and unit in (*UNITS, ISO) else cls(text)


@dataclass(frozen=True)
class Decoding:
    """How a feed is encoded, and which of its fields are the columns of a source; sent to tasks as JSON."""

    encoding: str
    schema: Mapping[str, str]  # the types of the columns
    columns: Mapping[str, str] = field(default_factory=dict)  # the field of a column, if its name differs
    fields: Sequence[str] = ()  # the names of CSV's fields, in order; the column names by default
    optional: Sequence[str] = ()  # columns that a table need not have: they are null then
    definition: str = ""  # the schema of Avro or Protobuf messages
    message: str = ""  # one of the messages that a Protobuf schema declares
    registry: str = ""  # the schema registry, instead of a definition
    access: tuple[tuple[str, str], ...] = ()  # settings for the registry, which may include passwords
    framed: bool = False  # whether a chunk consists of messages of a topic
    pseudonyms: Pseudonyms | None = None  # of the ids in it

    def __post_init__(self) -> None:
        if self.encoding not in ENCODINGS:
            raise BadArgument(
                f"--format {self.encoding}: unknown.",
                hint=f"Use one of: {', '.join(ENCODINGS)}.",
                code="unknown-value",
                found=self.encoding,
                expected=[*ENCODINGS],
            )
        for name in self.columns:
            if name not in self.schema:
                raise BadArgument(
                    f"--columns {name}={self.columns[name]}: no column {name!r}.",
                    hint=f"Columns: {', '.join(self.schema)}.",
                    code="unknown-column",
                    found=name,
                    expected=[*self.schema],
                )
        known = FIELDS if self.encoding in (TEXT, TRAIN) else self.names if self.encoding == CSV else None
        for name, place in self.places.items():
            if place.unit and self.schema[name] not in ("integer", "float"):
                raise BadArgument(
                    f"--columns {name}={self.columns[name]}: {name} is {self.schema[name]}, but a time is a number.",
                    code="bad-type",
                )
            if known is not None and place.field not in known:
                raise BadArgument(
                    f"column {name!r}: no field {place.field!r}.",
                    hint=f"The fields are {', '.join(known)}. Map one of them: --columns {name}=FIELD.",
                    code="unknown-column",
                    found=place.field,
                    expected=[*known],
                )

    @property
    def places(self) -> dict[str, FieldRef]:
        """The field of each column."""
        return {
            name: FieldRef.parse(self.columns[name]) if name in self.columns else FieldRef(name) for name in self.schema
        }

    @property
    def names(self) -> list[str]:
        """The fields of a line of CSV."""
        return list(self.fields or (place.field for place in self.places.values()))

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Decoding:
        """Convert from JSON."""
        access = tuple((str(key), str(value)) for key, value in body.get("access", ()))
        hidden = body.get("pseudonyms")
        pseudonyms = Pseudonyms(**{**hidden, "columns": tuple(hidden["columns"])}) if hidden else None
        return cls(**{**body, "access": access, "pseudonyms": pseudonyms})

    def without_secrets(self) -> Decoding:
        """A copy that may be stored."""
        return replace(self, access=(), pseudonyms=self.pseudonyms and replace(self.pseudonyms, key=""))

    def decode(self, chunk: bytes) -> Decoded:
        """Decode complete lines, Arrow streams or trains.

        >>> found = Decoding("csv", {"id": "text", "speed": "integer"}).decode(b"a,50\\nb,fast\\n")
        >>> found.tuples.to_pylist(), found.rejects.to_pylist()
        ([{'id': 'a', 'speed': 50}], [{'reason': 'integer:speed', 'line': 'b,fast'}])
        """
        if not chunk:  # a notice about the feed has no bytes
            return Decoded(self._schema.empty_table(), _make_rejects([]))
        raw, rejects = _READERS[self.encoding](self, chunk)
        found = self._map_columns(raw, rejects)
        if self.pseudonyms is None:
            return found
        reasons = found.rejects["reason"].to_pylist()
        return Decoded(self.pseudonyms.apply(found.tuples), _make_rejects([(reason, "") for reason in reasons]))

    @property
    def _schema(self) -> pa.Schema:
        return pa.schema([(name, TYPES[type_]) for name, type_ in self.schema.items()])

    def _map_columns(self, raw: pa.Table, rejects: list[Reject]) -> Decoded:
        """Rename the columns and convert times to seconds; reject invalid times."""
        columns, fits = {}, np.ones(raw.num_rows, np.bool_)
        for name, place in self.places.items():
            columns[name], good = _to_seconds(raw[place.field], place.unit, TYPES[self.schema[name]])
            if not good.all():
                lines = raw.filter(pa.array(~good & fits)).to_pylist()
                rejects += [(f"time:{place.field}", json.dumps(line)) for line in lines]
                fits &= good
        tuples = pa.table(columns, self._schema)
        return Decoded(tuples if fits.all() else tuples.filter(pa.array(fits)), _make_rejects(rejects))

    def raw_types(self) -> dict[str, str]:
        """The type as which each field is read."""
        return {
            place.field: "text" if place.unit == ISO else "float" if place.unit == "s" else self.schema[name]
            for name, place in self.places.items()
        }


def _make_rejects(rejects: list[Reject]) -> pa.Table:
    return pa.table([[reason for reason, _ in rejects], [line for _, line in rejects]], schema=REJECTS)


def _to_seconds(
    column: pa.ChunkedArray, unit: str, type_: pa.DataType
) -> tuple[pa.ChunkedArray, npt.NDArray[np.bool_]]:
    """Convert times to seconds since 1970; also returns which values are valid."""
    whole = np.ones(len(column), np.bool_)
    if not unit:
        return column.cast(type_), whole
    if unit == ISO:
        import pandas as pd

        moments = pd.to_datetime(column.to_pandas(), utc=True, format="ISO8601", errors="coerce")
        good = np.asarray(moments.notna() | column.is_null().to_pandas())
        seconds = (moments - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(seconds=1)
        numbers = pa.chunked_array([pa.array(seconds, from_pandas=True)])
    else:
        good, numbers = whole, pc.divide(column.cast(pa.float64()), float(UNITS[unit]))
    return (pc.floor(numbers) if pa.types.is_integer(type_) else numbers).cast(type_), good


# --- the encodings


def _read_csv(how: Decoding, chunk: bytes) -> tuple[pa.Table, list[Reject]]:
    types = how.raw_types()
    wanted = {name: TYPES[type_] for name, type_ in types.items()}
    try:
        return _parse_csv(chunk, how.names, wanted), []
    except pa.ArrowInvalid:
        return _decode_csv_lines(how, chunk, types)


def _parse_csv(chunk: bytes, names: list[str], types: dict[str, pa.DataType], **parsing: Any) -> pa.Table:
    if not chunk.strip():
        return pa.schema(list(types.items())).empty_table()
    return csv.read_csv(
        pa.BufferReader(chunk),
        read_options=csv.ReadOptions(column_names=names, block_size=max(len(chunk), 1 << 20)),
        parse_options=csv.ParseOptions(**parsing),
        convert_options=csv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=_NULLS,
            true_values=_TRUE,
            false_values=_FALSE,
            strings_can_be_null=True,
        ),
    )


def _decode_csv_lines(how: Decoding, chunk: bytes, types: dict[str, str]) -> tuple[pa.Table, list[Reject]]:
    """Decode the lines that fit and reject the others: all fields are read as text first."""
    rejects: list[Reject] = []

    def reject(row: csv.InvalidRow) -> str:
        rejects.append(("fields", row.text))
        return "skip"

    chunk = _reject_non_utf8(chunk, rejects)
    text = _parse_csv(chunk, how.names, dict.fromkeys(how.names, pa.string()), invalid_row_handler=reject)
    fits = np.ones(text.num_rows, np.bool_)
    for name, type_ in types.items():
        bad = ~_can_convert(text[name], type_) & fits
        if bad.any():
            rows = text.filter(pa.array(bad)).to_pylist()
            rejects += [(f"{type_}:{name}", ",".join(str(row[n] or "") for n in how.names)) for row in rows]
            fits &= ~bad
    kept = text.filter(pa.array(fits))
    return pa.table({name: _cast(kept[name], type_) for name, type_ in types.items()}), rejects


def _reject_non_utf8(chunk: bytes, rejects: list[Reject]) -> bytes:
    """Drop and reject the lines of a chunk that are not UTF-8."""
    try:
        chunk.decode()
        return chunk
    except UnicodeDecodeError:
        kept = []
        for line in chunk.splitlines():
            try:
                line.decode()
                kept.append(line)
            except UnicodeDecodeError:
                rejects.append(("utf-8", line.decode(errors="replace")))
        return b"\n".join(kept)


def _can_convert(column: pa.ChunkedArray, type_: str) -> npt.NDArray[np.bool_]:
    """Which values of a text column can be converted to a type."""
    if type_ == "text":
        return np.ones(len(column), np.bool_)
    if type_ == "boolean":
        good = pc.is_in(column, value_set=pa.array([*_TRUE, *_FALSE]))
    else:
        good = pc.match_substring_regex(column, _NUMBER[type_])
    found = np.asarray(pc.or_(pc.fill_null(good, False), column.is_null()))
    if type_ == "integer":
        # nineteen digits may exceed 64 bits
        long = np.asarray(pc.fill_null(pc.greater(pc.utf8_length(column), 18), False)) & found
        for row in np.flatnonzero(long):
            found[row] = -(2**63) < int(column[int(row)].as_py()) < 2**63
    return found


def _cast(column: pa.ChunkedArray, type_: str) -> pa.ChunkedArray:
    if type_ == "boolean":
        return pc.if_else(column.is_null(), pa.scalar(None, pa.bool_()), pc.is_in(column, value_set=pa.array(_TRUE)))
    return column if type_ == "text" else pc.utf8_trim_whitespace(column).cast(TYPES[type_])


def _read_json(how: Decoding, chunk: bytes) -> tuple[pa.Table, list[Reject]]:
    types = how.raw_types()
    schema = pa.schema([(name, TYPES[type_]) for name, type_ in types.items()])
    if not chunk.strip():
        return schema.empty_table(), []
    reading = pj.ReadOptions(block_size=max(len(chunk) + 1, 1 << 20))
    parsing = pj.ParseOptions(explicit_schema=_find_written_schema(chunk, types), unexpected_field_behavior="ignore")
    try:
        return pj.read_json(pa.BufferReader(chunk), parse_options=parsing, read_options=reading).cast(schema), []
    except pa.ArrowInvalid:
        return _decode_json_lines(chunk, types, schema)


def _find_written_schema(chunk: bytes, types: dict[str, str]) -> pa.Schema:
    """The types of the fields in the first line: a text column may be written as a number."""
    first = _decode_json_row(chunk.lstrip().partition(b"\n")[0], dict.fromkeys(types, "any"))
    numbers = {name for name, value in first.items() if type(value) is int} if isinstance(first, dict) else set()
    return pa.schema(
        [(name, TYPES["integer" if type_ == "text" and name in numbers else type_]) for name, type_ in types.items()]
    )


def _decode_json_lines(chunk: bytes, types: dict[str, str], schema: pa.Schema) -> tuple[pa.Table, list[Reject]]:
    rows, rejects = [], []
    for line in chunk.splitlines():
        if not line.strip():
            continue
        found = _decode_json_row(line, types)
        if isinstance(found, str):
            rejects.append((found, line.decode(errors="replace")))
        else:
            rows.append(found)
    return pa.Table.from_pylist(rows, schema), rejects


def _decode_json_row(line: bytes, types: dict[str, str]) -> dict[str, Any] | str:
    """The values of a line, or the reason for rejecting it."""
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return "json"
    if not isinstance(body, dict):
        return "json"
    if misfit := _find_misfit({name: body.get(name) for name in types}, types):
        return misfit
    return {name: _format_text(body.get(name)) if type_ == "text" else body.get(name) for name, type_ in types.items()}


def _format_text(value: Any) -> str | None:
    return value if value is None else str(value)


def _fits(value: Any, type_: str) -> bool:
    """Whether a JSON value fits a type; null fits every type, and an integer also fits text, as ids may be either."""
    if value is None or type_ == "any":
        return True
    if type_ == "text":
        return isinstance(value, str | int) and not isinstance(value, bool)
    if type_ == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return type_ == "float" or (isinstance(value, int) and -(2**63) < value < 2**63)


def _read_tables(how: Decoding, chunk: bytes) -> tuple[pa.Table, list[Reject]]:
    """Read concatenated Arrow streams or a Parquet file; a table that does not fit is rejected as a whole."""
    schema = pa.schema([(name, TYPES[type_]) for name, type_ in how.raw_types().items()])
    parts, rejects = [schema.empty_table()], []
    optional = {how.places[name].field for name in how.optional if name in how.schema}
    for stream in _read_streams(chunk) if how.encoding == ARROW else _read_parquet(chunk):
        if isinstance(stream, str):
            rejects.append((how.encoding, stream))
            continue
        absent = [name for name in schema.names if name not in stream.column_names]
        try:
            if missing := [name for name in absent if name not in optional]:
                raise KeyError(missing[0])
            columns = [pa.nulls(stream.num_rows) if name in absent else stream[name] for name in schema.names]
            parts.append(pa.table(columns, schema.names).cast(schema))
        except (pa.ArrowException, KeyError) as error:
            rejects.append((how.encoding, f"{stream.num_rows} tuples: {str(error).splitlines()[0]}"))
    return pa.concat_tables(parts), rejects


def _read_streams(chunk: bytes) -> Iterator[pa.Table | str]:
    """The tables of concatenated Arrow streams, up to the first that cannot be read."""
    source = pa.BufferReader(chunk)
    while source.tell() < len(chunk):
        try:
            yield pa.ipc.open_stream(source).read_all()
        except (pa.ArrowException, OSError) as error:
            yield str(error).splitlines()[0]
            return


def _read_parquet(chunk: bytes) -> Iterator[pa.Table | str]:
    try:
        yield pq.read_table(pa.BufferReader(chunk))
    except (pa.ArrowException, OSError) as error:
        yield str(error).splitlines()[0]


def _read_tuples(how: Decoding, chunk: bytes) -> tuple[pa.Table, list[Reject]]:
    """Read Linear Road's own lines and trains."""
    from slipstream._feeds.parse import PARSERS

    parsed = PARSERS[how.encoding]([chunk])
    wanted = dict.fromkeys(place.field for place in how.places.values())
    table = pa.table({name: parsed.tuples[name] for name in wanted})
    return table, [(reason, line.decode(errors="replace")) for line, reason in parsed.rejects]


def _read_messages(how: Decoding, chunk: bytes) -> tuple[pa.Table, list[Reject]]:
    """Read Avro or Protobuf messages of a topic or a file.

    The libraries decode one message at a time; types are then checked column by column.
    """
    types = how.raw_types()
    messages, found = _split_messages(how, chunk, list(types))
    rejected = str in set(map(type, found))
    if not rejected and (table := _to_table(found, types)) is not None:
        return table, []
    rows, rejects = _decode_messages(messages, found, types)
    table = _to_table(rows, types)
    assert table is not None
    return table, rejects


def _to_table(rows: Sequence[Any], types: Mapping[str, str]) -> pa.Table | None:
    """Convert rows of values to typed columns; None if a value does not fit."""
    columns = list(zip(*rows, strict=True)) or [()] * len(types)
    for values, type_ in zip(columns, types.values(), strict=True):
        if not set(map(type, values)) <= _KINDS[type_]:
            return None
    try:
        return pa.table(
            {
                name: pa.array(map(_format_text, values) if type_ == "text" else values, TYPES[type_])
                for (name, type_), values in zip(types.items(), columns, strict=True)
            }
        )
    except (pa.ArrowInvalid, OverflowError):  # an integer that exceeds 64 bits
        return None


def _decode_messages(
    messages: Sequence[bytes], found: Sequence[Sequence[Any] | str], types: Mapping[str, str]
) -> tuple[list[Sequence[Any]], list[Reject]]:
    """Split messages into rows whose values fit their types and rejects; records of a file have no bytes."""
    rows: list[Sequence[Any]] = []
    rejects: list[Reject] = []
    for place, row in enumerate(found):
        values = {} if isinstance(row, str) else dict(zip(types, row, strict=True))
        reason = row if isinstance(row, str) else _find_misfit(values, types)
        if reason:
            shown = messages[place][:40].hex() if messages else json.dumps(values, default=str)
            rejects.append((reason, shown))
        else:
            rows.append(row)
    return rows, rejects


def _split_messages(how: Decoding, chunk: bytes, wanted: list[str]) -> tuple[list[bytes], list[Sequence[Any] | str]]:
    """All messages, and for each the wanted fields or the reason to reject it; records of a file have no bytes."""
    from slipstream._io.formats import messages
    from slipstream._io.formats.registry import Registry

    if how.encoding == AVRO and not how.framed:
        return [], list(messages.read_container(chunk, wanted))
    registry = Registry(how.registry, how.access) if how.registry else None
    decoder = _make_decoder(how.encoding, tuple(wanted), how.definition, how.message, registry)
    given = messages.unframe_messages(chunk) if how.framed else list(messages.split_delimited(chunk))
    return given, decoder.values(given)


@cache
def _make_decoder(
    encoding: str, wanted: tuple[str, ...], text: str, message: str, registry: Registry | None
) -> Decoder:
    from slipstream._io.formats.messages import Decoder

    return Decoder(encoding, wanted, text=text, message=message, registry=registry)


def _find_misfit(values: Mapping[str, Any], types: Mapping[str, str]) -> str:
    """The reason why values do not fit their types; empty if they do."""
    return next((f"{type_}:{name}" for name, type_ in types.items() if not _fits(values[name], type_)), "")


_READERS = {
    AVRO: _read_messages,
    PROTOBUF: _read_messages,
    CSV: _read_csv,
    JSON: _read_json,
    ARROW: _read_tables,
    PARQUET: _read_tables,
    TEXT: _read_tuples,
    TRAIN: _read_tuples,
}


_PAIR = re.compile(r"(?:(?P<source>\w+)\.)?(?P<column>\w+)=(?P<field>.+)")


def parse_columns(
    texts: Sequence[str], source: str, schema: Mapping[str, str], *, strict: bool = False
) -> dict[str, str]:
    """Parse ``--columns`` for a source: comma-separated ``column=field`` pairs; ``source.column`` names a source.

    If there is only one source, ``strict`` refuses columns that it does not have.

    >>> parse_columns(["id=vin,time=ts:ms"], "cars", {"id": "text", "time": "integer"})
    {'id': 'vin', 'time': 'ts:ms'}
    >>> parse_columns(["cars.id=vin,bikes.id=no"], "bikes", {"id": "text"})
    {'id': 'no'}
    """
    found = {}
    for pair in (pair.strip() for text in texts for pair in text.split(",")):
        match = _PAIR.fullmatch(pair)
        if not match:
            raise BadArgument(
                f"--columns {pair}: not a pair.",
                hint="Write COLUMN=FIELD, as in id=vin,time=ts:ms.",
                code="malformed-value",
                found=pair,
            )
        if match["source"] == source or (match["source"] is None and match["column"] in schema):
            found[match["column"]] = match["field"]
        elif strict:
            raise BadArgument(
                f"--columns {pair}: no such column.",
                hint=f"Columns: {', '.join(schema)}.",
                code="unknown-column",
                found=match["column"],
                expected=[*schema],
            )
    return found
