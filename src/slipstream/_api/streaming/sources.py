"""Where streams begin: files, folders, topics, sockets, runs, DataFrames, and sources of your own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq
from pyarrow import csv

from slipstream._api.streaming import type_names
from slipstream._api.streaming.reports import PLAIN, REPORT, RunSource
from slipstream._api.streaming.streams import Origin, Placement, Stored, Stream, Table
from slipstream._errors import BadArgument, BadInput
from slipstream._feeds.tuples import FIELDS
from slipstream._io.formats.encodings import CSV, JSON, PARQUET, TEXT, TRAIN, find_first_file, guess_encoding
from slipstream._io.named_feeds import KAFKA, TCP, Definition, Feed, make_feed
from slipstream._io.readers.user_feeds import UserFeed
from slipstream._io.readers.user_sources import Source
from slipstream._network.algebra import Schema
from slipstream._network.column_types import spark_schema
from slipstream._network.running.filling import is_run
from slipstream._network.running.recordings import read_table
from slipstream._network.tasks.frames import FrameFeed
from slipstream._spark.shipping import ship
from slipstream._tools.files.locations import local
from slipstream._tools.files.staging import staged_folder

if TYPE_CHECKING:
    from pandas import DataFrame as PandasFrame
    from pyspark.sql import DataFrame

#: bytes of a file that its types are guessed from
_SAMPLE = 1 << 20


def read(
    where: str | Path | Source,
    schema: Mapping[str, str] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    format: str = "",
    follow: bool = False,
    fields: Sequence[str] = (),
    message_schema: str | Path | None = None,
    schema_registry: str = "",
    name: str = "",
) -> Stream:
    """Read a stream of tuples. Nothing is read before a job starts.

    Parameters
    ----------
    where
        A file or a folder of files (CSV with a header, JSON lines, Parquet, Arrow, Avro, Protobuf, Linear Road's text),
        a run, ``kafka://HOST:PORT/TOPIC``, ``tcp://HOST:PORT``, or a :class:`slipstream.Source` of your own.
    schema
        The columns to read and their Spark types: bigint, double, string, boolean, or timestamp for times in ISO 8601,
        which become seconds since 1970. By default those of the file; a topic or a socket has the columns of
        :data:`slipstream.REPORT`.
    columns
        Which field is which column, where their names differ: ``{"id": "vin", "time": "ts:ms"}``. A time may be in
        ``s``, ``ms``, ``us`` or ``iso`` and becomes seconds since 1970.
    format
        csv, json, arrow, parquet, text, train, avro or protobuf. By default the file's name decides, otherwise json.
    follow
        Keep reading as a file grows, a folder fills, or messages arrive, until the job is stopped.
    fields
        The names of the fields, for CSV without a header.
    message_schema, schema_registry
        The schema of Avro or Protobuf messages: a file, or the address of a registry.
    name
        The name of the source in pictures and in the output ``rejects``.

    >>> import slipstream as ss
    >>> reports = ss.read("kafka://broker:9092/positions", columns={"id": "vin", "time": "ts"}, follow=True)
    >>> reports.columns
    ['id', 'time', 'speed', 'expressway', 'lane', 'direction', 'segment', 'position']
    """
    if isinstance(where, Source):
        return _open_source(where, name)
    place = local(where) if isinstance(where, str) else str(where)
    if is_run(place):
        return _open_run(place, columns or {}, name)
    format = format or guess_encoding(place)
    given, mapped = _find_columns(place, format, schema, columns or {})
    definition = Definition(Path(message_schema) if message_schema else None, schema_registry)

    def feed(folder: Path, settings: Mapping[str, str]) -> Feed:  # noqa: ARG001
        return make_feed(
            place,
            given,
            encoding=format,
            columns=mapped,
            fields=fields,
            follow=follow,
            settings=tuple(settings.items()),
            definition=definition,
        )

    return _stream(Origin(name or _name_of(place), given, place, feed))


def from_dataframe(
    frame: DataFrame | PandasFrame | pa.Table, *, columns: Mapping[str, str] | None = None, name: str = "tuples"
) -> Stream:
    """Read a DataFrame of Spark (static or streaming) or of pandas, or an Arrow table.

    ``columns`` maps columns of the stream to columns of the frame; by default all are taken under their own names.
    Timestamps become seconds since 1970. The tuples of a static frame are copied into the job's folder when it starts.

    >>> import pandas as pd
    >>> import slipstream as ss
    >>> ss.from_dataframe(pd.DataFrame({"vin": ["a", "b"], "speed": [50.0, 60.0]}), columns={"id": "vin"}).schema
    {'id': 'string', 'speed': 'double'}
    """
    if hasattr(frame, "sparkSession"):
        return _record_frame(frame, columns or {}, name)  # type: ignore[arg-type]
    table = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame, preserve_index=False)
    renamed = _map_columns(table.column_names, columns or {})
    table = pa.table({new: _decode_dictionary(new, table[old]) for new, old in renamed.items()})
    schema = {field.name: type_names.convert_arrow_type(field.name, field.type) for field in table.schema}
    return _stream(Origin(name, schema, name, partial(_record, table, name, schema), is_copied=True))


def table(
    where: str | Path | DataFrame | PandasFrame | pa.Table,
    schema: Mapping[str, str] | None = None,
    *,
    name: str = "",
) -> Table:
    """Return a stored table to join streams with: a CSV, JSON lines or Parquet file, or a static DataFrame.

    A job reads it when it starts, and again when it is resumed. ``name`` is its name in pictures, and for your own
    functions that look things up in it.

    >>> import pandas as pd
    >>> import slipstream as ss
    >>> owners = ss.table(pd.DataFrame({"plate": ["B 1"], "owner": ["Ann"]}), name="owners")
    >>> cars = ss.read("kafka://broker:9092/cars", {"plate": "string", "speed": "double"})
    >>> cars.join(owners, "left.plate = right.plate").columns
    ['plate', 'speed', 'right_plate', 'owner']
    """
    if isinstance(where, str | Path):
        path = Path(where)
        columns = (
            type_names.parse_schema(schema) if schema else _infer_schema(str(path), guess_encoding(str(path)), {})[0]
        )
        return Table(Stored(name or _name_of(str(path)), columns, lambda: read_table(path, columns)))
    if hasattr(where, "sparkSession"):
        return _read_static(where, name or "table")  # type: ignore[arg-type]
    rows = where if isinstance(where, pa.Table) else pa.Table.from_pandas(where, preserve_index=False)
    plain = pa.table({one: _decode_dictionary(one, rows[one]) for one in rows.column_names})
    columns = {field.name: type_names.convert_arrow_type(field.name, field.type) for field in plain.schema}
    return Table(Stored(name or "table", columns, lambda: plain))


def _read_static(frame: DataFrame, name: str) -> Table:
    if frame.isStreaming:
        raise BadArgument(
            "table: this DataFrame is a stream.", hint="Use from_dataframe, and join within a time.", code="bad-type"
        )
    typed, schema = _convert_types(frame, {})
    return Table(Stored(name, schema, lambda: typed))


def _stream(origin: Origin) -> Stream:
    return Stream(Placement(origin))


# --- sources of your own


def _open_source(source: Source, name: str) -> Stream:
    label = type(source).__name__
    if not getattr(source, "schema", None):
        raise BadArgument(
            f"source {label}: no schema.", hint='Declare one: schema = {"id": "bigint"}.', code="missing-value"
        )
    schema = type_names.parse_schema(source.schema)
    ship(type(source))
    feed = UserFeed(f"python:{label}", "arrow", own=source, types=schema)
    return _stream(Origin(name or _make_identifier(label.lower()), schema, label, lambda _, __: feed))


def _open_run(place: str, columns: Mapping[str, str], name: str) -> Stream:
    names = {field: PLAIN.get(field, field) for field in FIELDS}
    for column, field in columns.items():
        if field not in names:
            raise BadArgument(
                f"{place}: a run has no field {field!r}.",
                hint=f"It has: {', '.join(FIELDS)}.",
                code="unknown-column",
                found=field,
                expected=[*FIELDS],
            )
        names[field] = column
    source = RunSource(place, {column: field for field, column in names.items()})
    schema = type_names.parse_schema(source.schema)
    feed = UserFeed(str(Path(place).absolute()), "run", own=source, types=schema)
    return _stream(Origin(name or _name_of(place), schema, place, lambda _, __: feed))


# --- DataFrames


def _convert_types(frame: DataFrame, columns: Mapping[str, str]) -> tuple[DataFrame, Schema]:
    """A frame with the columns and types of a stream."""
    renamed = _map_columns(frame.columns, columns)
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema}
    # a timestamp as a number is seconds since 1970
    wanted = {new: "double" if kinds[old].startswith("timestamp") else kinds[old] for new, old in renamed.items()}
    schema = type_names.parse_schema(
        {n: "double" if kind.startswith("decimal") else kind for n, kind in wanted.items()}
    )
    typed = frame.selectExpr(
        *(f"cast({_quote(old)} as {spark_schema(schema)[new]}) as {_quote(new)}" for new, old in renamed.items())
    )
    return typed, schema


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _record_frame(frame: DataFrame, columns: Mapping[str, str], name: str) -> Stream:
    typed, schema = _convert_types(frame, columns)
    if frame.isStreaming:
        feed = FrameFeed(name, "dataframe", follow=True, frame=typed, types=schema)
        return _stream(Origin(name, schema, name, lambda _, __: feed, needs_session_of=frame))
    return _stream(Origin(name, schema, name, partial(_record, typed, name, schema), is_copied=True))


def _record(frame: Any, name: str, schema: Schema, folder: Path, settings: Mapping[str, str]) -> Feed:  # noqa: ARG001
    """A static frame as files of the job: a job that is resumed reads the same tuples."""
    place = folder / name
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with staged_folder(place) as new:
            if isinstance(frame, pa.Table):
                pq.write_table(frame, new / "part-0.parquet")
            else:
                frame.write.mode("append").parquet(str(new))
                for file in (*new.glob("_*"), *new.glob(".*")):
                    file.unlink()
    return make_feed(str(place.absolute()), schema, encoding=PARQUET)


def _map_columns(have: Sequence[str], columns: Mapping[str, str]) -> dict[str, str]:
    """The column of a frame behind each column of the stream."""
    if missing := [old for old in columns.values() if old not in have]:
        raise BadArgument(
            f"columns: no column {missing[0]!r}.",
            hint=f"The frame has: {', '.join(have)}.",
            code="unknown-column",
            found=missing[0],
            expected=[*have],
        )
    back = {old: new for new, old in columns.items()}
    return {back.get(old, old): old for old in have}


def _decode_dictionary(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of a frame in a type of networks."""
    if pa.types.is_timestamp(column.type):
        micros = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False).cast(pa.int64())
        return pc.divide(micros.cast(pa.float64()), 1e6)
    type_names.convert_arrow_type(name, column.type)
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


# --- files


def _find_columns(
    where: str, format: str, schema: Mapping[str, str] | None, columns: Mapping[str, str]
) -> tuple[Schema, dict[str, str]]:
    """Return the columns of a feed, their types, and the fields of those that have other names there."""
    if schema is not None:
        times = {name for name, type_ in schema.items() if str(type_).lower() == "timestamp"}
        iso = {name: f"{columns.get(name, name)}:iso" for name in times}
        return type_names.parse_schema({**schema, **dict.fromkeys(times, "double")}), {**columns, **iso}
    if format in (TEXT, TRAIN):
        fields = {PLAIN.get(field, field): field for field in FIELDS}
        return dict.fromkeys(fields, "integer"), {**fields, **columns}
    if where.startswith((KAFKA, TCP)):
        if unknown := [name for name in columns if name not in REPORT]:
            raise BadArgument(
                f"{where}: the type of column {unknown[0]!r} is unknown.",
                hint='Give a schema: schema={"id": "string", "time": "bigint"}.',
                code="bad-type",
            )
        return type_names.parse_schema(REPORT), dict(columns)
    return _infer_schema(where, format, columns)


def _infer_schema(where: str, format: str, columns: Mapping[str, str]) -> tuple[Schema, dict[str, str]]:
    """The columns that a file has; those that no column of a stream can hold are left out."""
    found = _read_schema(where, format)
    back = {place.partition(":")[0] if place not in found else place: name for name, place in columns.items()}
    schema, mapped = {}, dict(columns)
    for field, type_ in found.items():
        name = back.pop(field, field)
        if pa.types.is_timestamp(type_):
            schema[name] = "float"
            mapped[name] = mapped.get(name, field) if ":" in mapped.get(name, "") else f"{field}:iso"
        elif pa.types.is_null(type_):
            schema[name] = "text"
        elif not (pa.types.is_nested(type_) or pa.types.is_temporal(type_) or pa.types.is_binary(type_)):
            schema[name] = type_names.convert_arrow_type(name, type_)
    if back:
        missing = next(iter(back))
        raise BadArgument(
            f"columns: {where} has no field {missing!r}.",
            hint=f"It has: {', '.join(found)}.",
            code="unknown-column",
            found=missing,
            expected=[*found],
        )
    return schema, mapped


def _read_schema(where: str, format: str) -> dict[str, Any]:
    path = Path(where)
    if not path.exists():
        raise BadArgument(
            f"{where}: no such file or folder.", hint="If it will appear later, give a schema=.", code="no-such-file"
        )
    file = path / find_first_file(where) if path.is_dir() else path
    try:
        if format == PARQUET:
            schema = pq.read_schema(file)
        elif format == CSV:
            with csv.open_csv(file, csv.ReadOptions(block_size=_SAMPLE)) as reader:
                schema = reader.schema
        elif format == JSON:
            schema = pj.read_json(pa.BufferReader(_read_first_lines(file))).schema
        else:
            raise BadArgument(
                f"{where}: the columns of {format} are not known.", hint="Give a schema=.", code="bad-type"
            )
    except (pa.ArrowException, OSError) as error:
        raise BadInput(
            f"{file}: {str(error).splitlines()[0]}", hint="Give a schema=, or another format=.", code="unreadable-file"
        ) from error
    return {field.name: field.type for field in schema}


def _read_first_lines(file: Path) -> bytes:
    with file.open("rb") as lines:
        block = lines.read(_SAMPLE)
        return block if len(block) < _SAMPLE else block[: block.rfind(b"\n") + 1]


def _name_of(where: str) -> str:
    return _make_identifier(PurePath(where.rstrip("/")).stem)


def _make_identifier(text: str) -> str:
    name = re.sub(r"\W+", "_", text).strip("_") or "source"
    return f"source_{name}" if name[0].isdigit() else name
