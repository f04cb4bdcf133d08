"""Tables of positions from files: CSV, Parquet and Delta as they are; other formats as columns.

GPX, KML, GeoLife, GTFS-realtime, GeoJSON and MF-JSON become the columns ``id, time, lon, lat`` and some that can be
kept. Files are checked here, without Spark; ``read_frame`` has Spark's tasks read them.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._errors import MALFORMED, BadArgument, BadInput
from slipstream._tools.extras import require
from slipstream._trajectories.reading.json_positions import geojson_rows, mfjson_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CSV, PARQUET, DELTA, GPX, KML, GEOLIFE, GTFS = "csv", "parquet", "delta", "gpx", "kml", "geolife", "gtfs"
GEOJSON, MFJSON = "geojson", "mfjson"
FORMATS = (CSV, PARQUET, DELTA, GPX, KML, GEOLIFE, GTFS, GEOJSON, MFJSON)
_SUFFIXES = {
    ".csv": CSV,
    ".csv.gz": CSV,
    ".parquet": PARQUET,
    ".gpx": GPX,
    ".kml": KML,
    ".plt": GEOLIFE,
    ".pb": GTFS,
    ".geojson": GEOJSON,
    ".mfjson": MFJSON,
}
_DELTA_LOG = "_delta_log"

#: the columns of layouts that have no names of their own
_LAYOUTS = {
    GPX: ("id", "time", "lon", "lat", "name", "elevation"),
    **dict.fromkeys((KML, GEOJSON, MFJSON), ("id", "time", "lon", "lat", "file")),
    GEOLIFE: ("id", "time", "lon", "lat", "altitude_feet", "file"),
    GTFS: ("id", "time", "lon", "lat", "route", "trip", "speed", "bearing"),
}
#: the lines that begin every file of GeoLife
_GEOLIFE_HEADER = r"^(Geolife trajectory|WGS 84|Altitude is in Feet|Reserved 3|0,2,\d+,.*|\d+)\s*$"
#: features of Delta tables under which files alone do not tell which rows there are
_DELTA_FEATURES = {"deletionVectors", "columnMapping", "v2Checkpoint"}


@dataclass(frozen=True)
class Input:
    """A file or folder of positions, and how it is written."""

    where: Path
    format: str
    columns: tuple[str, ...]
    version: int | str | None = None  # of a Delta table: a number or an instant

    @classmethod
    def find(cls, where: str | Path, format: str = "", version: int | datetime | str | None = None) -> Input:
        """Return what there is to read; refuse what is not there, or of no known kind."""
        place = Path(where)
        if not place.exists():
            raise BadArgument(
                f"{where}: no such file or folder.",
                hint="Give a file of positions or a folder of them.",
                code="no-such-file",
            )
        if format not in ("", *FORMATS):
            raise BadArgument(
                f"format {format!r} is unknown.",
                hint=f"Use {', '.join(FORMATS)}.",
                code="unknown-value",
                found=format,
                expected=[*FORMATS],
            )
        found = format or _guess(place)
        if version is not None and found != DELTA:
            raise BadArgument(
                f"{where}: only Delta tables have versions.", hint="Leave out as_of.", code="conflicting-options"
            )
        moment = version.isoformat() if isinstance(version, datetime) else version
        return cls(place, found, _read_columns(place, found, moment), moment)


def _guess(place: Path) -> str:
    if (place / _DELTA_LOG).is_dir():
        return DELTA
    files = [place] if place.is_file() else _files(place)
    kinds = {kind for file in files if (kind := _kind(file))}
    if len(kinds) != 1:
        found = "files of several kinds" if kinds else "no file of positions"
        raise BadArgument(
            f"{place}: {found}.",
            hint=f"Their names end in {', '.join(_SUFFIXES)}; format= chooses one kind.",
            code="wrong-file-type" if kinds else "empty-input",
        )
    return kinds.pop()


def _kind(file: Path) -> str:
    name = file.name.lower()
    return next((kind for suffix, kind in _SUFFIXES.items() if name.endswith(suffix)), "")


def _files(place: Path) -> list[Path]:
    """All files below a folder, but hidden ones."""
    return sorted(path for path in place.rglob("*") if path.is_file() and not path.name.startswith(("_", ".")))


def _matching(place: Path, format: str) -> list[Path]:
    if place.is_file():
        return [place]
    found = [file for file in _files(place) if _kind(file) == format]
    if not found:
        raise BadArgument(f"{place}: no file of positions.", hint=f"Expected {format} files.", code="empty-input")
    return found


def _read_columns(place: Path, format: str, version: int | str | None) -> tuple[str, ...]:
    """The names of the columns, without Spark."""
    if format in _LAYOUTS:
        return _LAYOUTS[format]
    if format == DELTA:
        return tuple(field.name for field in _delta(place, version).schema().fields)
    first, *others = _matching(place, format)
    read = _csv_header if format == CSV else _parquet_columns
    columns = read(first)
    for other in others if format == CSV else ():
        if (differing := read(other)) != columns:
            raise BadInput(
                f"{other}, line 1: other columns than {first.name}: {', '.join(differing)}.",
                hint="Read files with different columns one at a time.",
                code="unknown-column",
                found=[*differing],
                expected=[*columns],
            )
    return columns


def _csv_header(file: Path) -> tuple[str, ...]:
    try:
        with (
            gzip.open(file, "rt", encoding="utf-8-sig")
            if file.suffix == ".gz"
            else file.open(encoding="utf-8-sig", newline="") as lines
        ):
            header = next(csv.reader(lines), [])
    except (OSError, UnicodeDecodeError, EOFError, csv.Error) as error:
        raise BadInput(
            f"{file}: cannot be read ({error}).", hint="Use a CSV file in UTF-8.", code="unreadable-file"
        ) from error
    if not any(header):
        raise BadInput(f"{file}: empty.", hint="Its first line names the columns.", code="empty-input")
    if twice := sorted({name for name in header if header.count(name) > 1}):
        raise BadInput(f"{file}, line 1: column {twice[0]!r} twice.", hint="Rename one of them.", code="duplicate-name")
    return tuple(header)


def _parquet_columns(file: Path) -> tuple[str, ...]:
    try:
        return tuple(pq.read_schema(file).names)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(
            f"{file}: {str(error).splitlines()[0]}", hint="Use a Parquet file.", code="unreadable-file"
        ) from error


def _delta(place: Path, version: int | str | None) -> Any:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(str(place))
        if version is not None:
            table.load_as_version(int(version) if str(version).isdigit() else _find_instant(table, str(version)))
    except (DeltaError, *MALFORMED, OSError) as error:
        raise BadInput(
            f"{place}: {str(error).splitlines()[0]}",
            hint="Give a version number or an instant that the table still has.",
            code="not-kept" if version is not None else "damaged-file",
        ) from error
    if features := sorted(_DELTA_FEATURES & set(table.protocol().reader_features or ())):
        raise BadInput(
            f"{place}: a Delta table with {', '.join(features)}, which cannot be read here.",
            hint="Rewrite it without, or pass it as a DataFrame of a session with Delta Lake.",
            code="wrong-version",
        )
    return table


def _find_instant(table: Any, text: str) -> datetime:
    """Return an instant at which a Delta table has a version; the library would take the first one for any earlier."""
    from datetime import UTC

    found = datetime.fromisoformat(text)
    instant = found if found.tzinfo else found.replace(tzinfo=UTC)
    first = min((entry["timestamp"] for entry in table.history() if "timestamp" in entry), default=0)
    if instant.timestamp() * 1000 < first:
        raise ValueError(f"its first version is of {datetime.fromtimestamp(first / 1000, UTC).isoformat()}")
    return instant


def read_frame(spark: SparkSession, source: Input) -> DataFrame:
    """Return the positions of files as a table."""
    readers: dict[str, Callable[[SparkSession, Input], DataFrame]] = {
        CSV: _read_csv,
        PARQUET: _read_parquet,
        DELTA: _read_delta,
        GPX: _read_gpx,
        KML: _read_kml,
        GEOLIFE: _read_geolife,
        GTFS: _read_gtfs,
        GEOJSON: _read_geojson,
        MFJSON: _read_mfjson,
    }
    return readers[source.format](spark, source)


def _paths(source: Input) -> list[str]:
    """The files as URIs, as Spark takes characters such as ``*`` in a path for a pattern."""
    return [_escape(file) for file in _matching(source.where, source.format)]


def _escape(file: Path) -> str:
    text = str(file.absolute())
    return "".join(f"\\{letter}" if letter in "*?[]{}\\" else letter for letter in text)


def _read_csv(spark: SparkSession, source: Input) -> DataFrame:
    # all columns are text: what cannot be read as a number becomes a reject, not a null
    schema = ", ".join("`" + name.replace("`", "``") + "` string" for name in source.columns)
    reader = spark.read.schema(schema).option("header", True).option("enforceSchema", True)
    return reader.option("quote", '"').option("escape", '"').csv(_paths(source))


def _read_parquet(spark: SparkSession, source: Input) -> DataFrame:
    files = _matching(source.where, PARQUET)
    schema = pq.read_schema(files[0])
    if any(pa.types.is_timestamp(one.type) and one.type.unit == "ns" for one in schema):
        return _read_nanoseconds(spark, files, schema)
    return spark.read.parquet(*map(_escape, files))


def _read_nanoseconds(spark: SparkSession, files: list[Path], schema: pa.Schema) -> DataFrame:
    """Files with nanoseconds, as pandas writes them: Spark refuses them, so that Arrow reads them in its tasks."""
    from pyspark.sql.pandas.types import from_arrow_schema

    plain = pa.schema([pa.field(one.name, _microseconds(one.type)) for one in schema])

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path in batch["path"].to_pylist():
                with pq.ParquetFile(path) as file:
                    for rows in file.iter_batches():
                        columns = [rows[name].cast(plain.field(name).type, safe=False) for name in plain.names]
                        yield pa.RecordBatch.from_arrays(columns, schema=plain)

    paths = spark.createDataFrame(pa.table({"path": [str(file.absolute()) for file in files]}))
    spread = paths.repartition(min(len(files), spark.sparkContext.defaultParallelism * 4))
    return spread.mapInArrow(run, from_arrow_schema(plain, prefer_timestamp_ntz=True))


def _microseconds(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return pa.timestamp("us", tz=kind.tz) if pa.types.is_timestamp(kind) else kind


def _read_delta(spark: SparkSession, source: Input) -> DataFrame:
    table = _delta(source.where, source.version)
    files = table.file_uris()
    if not files:
        raise BadInput(f"{source.where}: the table is empty.", hint="Choose another version.", code="empty-input")
    return spark.read.option("basePath", str(source.where.absolute())).parquet(*files)


def _read_geolife(spark: SparkSession, source: Input) -> DataFrame:
    from pyspark.sql import functions as sf

    lines = spark.read.text(_paths(source)).select("value", sf.col("_metadata.file_path").alias("path"))
    part = sf.split("value", ",")
    whole = sf.size(part) == 7
    fields = [sf.when(whole, sf.trim(sf.get(part, sf.lit(n)))) for n in range(7)]
    return lines.where(~sf.col("value").rlike(_GEOLIFE_HEADER) & (sf.trim("value") != "")).select(
        sf.regexp_extract("path", r"([^/]+)/[^/]+/[^/]+$", 1).alias("id"),
        # a line that is not one of theirs is an unreadable time, with its text
        sf.when(whole, sf.concat_ws(" ", fields[5], fields[6])).otherwise(sf.col("value")).alias("time"),
        fields[1].alias("lon"),
        fields[0].alias("lat"),
        fields[3].alias("altitude_feet"),
        sf.regexp_extract("path", r"([^/]+)$", 1).alias("file"),
    )


def _read_gpx(spark: SparkSession, source: Input) -> DataFrame:
    schema = "id string, time string, lon string, lat string, name string, elevation string"
    return _read_whole_files(spark, source, schema, gpx_rows)


#: what files say as text, and their name
_TEXTS = "id string, time string, lon string, lat string, file string"


def _read_kml(spark: SparkSession, source: Input) -> DataFrame:
    return _read_whole_files(spark, source, _TEXTS, kml_rows)


def _read_geojson(spark: SparkSession, source: Input) -> DataFrame:
    return _read_whole_files(spark, source, _TEXTS, lambda path, content: geojson_rows(_name(path), content))


def _read_mfjson(spark: SparkSession, source: Input) -> DataFrame:
    return _read_whole_files(spark, source, _TEXTS, lambda path, content: mfjson_rows(_name(path), content))


def _read_gtfs(spark: SparkSession, source: Input) -> DataFrame:
    gtfs_messages()
    schema = "id string, time string, lon double, lat double, route string, trip string, speed double, bearing double"
    return _read_whole_files(spark, source, schema, gtfs_rows)


def _read_whole_files(
    spark: SparkSession, source: Input, schema: str, parse: Callable[[str, bytes], list[tuple[Any, ...]]]
) -> DataFrame:
    """Files that are parsed as a whole, in Spark's tasks."""
    names = [part.split()[0] for part in schema.split(", ")]
    kinds = {"string": pa.string(), "double": pa.float64()}
    columns = pa.schema([(part.split()[0], kinds[part.split()[1]]) for part in schema.split(", ")])

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for path, content in zip(batch["path"].to_pylist(), batch["content"].to_pylist(), strict=True):
                rows = parse(path, content)
                arrays = list(zip(*rows, strict=True)) or [()] * len(names)
                yield pa.RecordBatch.from_arrays(
                    [pa.array(array, one.type) for array, one in zip(arrays, columns, strict=True)], schema=columns
                )

    files = spark.read.format("binaryFile").load(_paths(source))
    return files.select("path", "content").mapInArrow(run, schema)


def _parse_xml(path: str, content: bytes, what: str) -> Any:
    from defusedxml import ElementTree
    from defusedxml.common import DefusedXmlException

    try:
        return ElementTree.fromstring(content)
    except (ElementTree.ParseError, DefusedXmlException, *MALFORMED) as error:
        raise BadInput(f"{_name(path)}: {error}.", hint=f"Use a {what} file.", code="unreadable-file") from error


def gpx_rows(path: str, content: bytes) -> list[tuple[Any, ...]]:
    """Return the track points of a GPX file; a track is called as its file, its name is a column."""
    id_ = Path(_name(path)).stem
    return [
        (id_, point.findtext("{*}time"), point.get("lon"), point.get("lat"), name, point.findtext("{*}ele"))
        for track in _parse_xml(path, content, "GPX").iterfind("{*}trk")
        for name in (track.findtext("{*}name"),)
        for point in track.iterfind("{*}trkseg/{*}trkpt")
    ]


def kml_rows(path: str, content: bytes) -> list[tuple[Any, ...]]:
    """Return the positions of the tracks in a KML file, called as their placemarks."""
    stem = Path(_name(path)).stem
    return [
        (place.findtext("{*}name") or stem, when.text, *[*(coordinate.text or "").split(), "", ""][:2], stem)
        for place in _parse_xml(path, content, "KML").iterfind(".//{*}Placemark")
        for track in place.iterfind(".//{*}Track")
        for when, coordinate in zip(track.iterfind("{*}when"), track.iterfind("{*}coord"), strict=False)
    ]


def _name(path: str) -> str:
    from urllib.parse import unquote

    return unquote(path.removeprefix("file:"))


def gtfs_messages() -> Any:
    """Return the messages of GTFS-realtime; they are optional."""
    require("gtfs", "GTFS-realtime")
    from google.transit import gtfs_realtime_pb2

    return gtfs_realtime_pb2


def gtfs_rows(path: str, content: bytes) -> list[tuple[Any, ...]]:
    """Return the vehicle positions of a feed; a vehicle without a time of its own has that of the feed."""
    from google.protobuf.message import DecodeError

    feed = gtfs_messages().FeedMessage()
    try:
        feed.ParseFromString(content)
    except DecodeError as error:
        raise BadInput(
            f"{_name(path)}: not a GTFS-realtime feed ({error}).",
            hint="Give files of VehiclePositions.",
            code="unreadable-file",
        ) from error
    rows = []
    for entity in feed.entity:
        if not entity.HasField("vehicle"):
            continue
        one = entity.vehicle
        seconds = one.timestamp or feed.header.timestamp
        place = one.position if one.HasField("position") else None
        rows.append(
            (
                one.vehicle.id or entity.id,
                _write_time(seconds) if seconds else None,
                place.longitude if place else None,
                place.latitude if place else None,
                one.trip.route_id or None,
                one.trip.trip_id or None,
                place.speed if place and place.HasField("speed") else None,
                place.bearing if place and place.HasField("bearing") else None,
            )
        )
    return rows


def _write_time(seconds: int) -> str:
    """Return seconds since 1970 as text; a number that is no year's, such as milliseconds, stays as it is."""
    from datetime import UTC

    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return str(seconds)
