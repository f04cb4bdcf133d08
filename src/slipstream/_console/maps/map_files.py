"""Files that are dropped on the map: GPX, GeoJSON, CSV and Parquet, read in memory and shown, never kept.

The readers are those of ``slipstream trajectories``. Rows that have no place or no time are counted and left out.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from slipstream._console.maps.map_layers import find_layer
from slipstream._console.maps.map_positions import Positions, add_speed, read_positions, read_trips_as_positions
from slipstream._console.maps.map_reading import MOST_POSITIONS
from slipstream._errors import BadArgument, BadInput
from slipstream._trajectories.reading.json_positions import geojson_rows
from slipstream._trajectories.reading.position_files import gpx_rows

#: bytes of the columns of a file once they are unpacked
_MOST_UNPACKED = 1 << 30


def read_dropped(name: str, content: bytes, crs: str = "") -> Positions:
    """Return the positions in a file; its name says what it is."""
    file = PurePosixPath(name.replace("\\", "/")).name or "file"
    read = _READERS.get(PurePosixPath(file).suffix.lower())
    if read is None:
        raise BadArgument(
            f"{file}: not a kind of file that the map can show.",
            hint=f"Drop a file whose name ends in {', '.join(_READERS)}.",
            code="wrong-file-type",
            expected=[*_READERS],
        )
    table = read(file, content)
    if table.num_rows > MOST_POSITIONS:
        raise _refuse_size(file, table.num_rows)
    return _place(file, table, crs)


def _refuse_size(file: str, rows: int) -> BadArgument:
    return BadArgument(
        f"{file} has {rows:,} rows; the map shows files of at most {MOST_POSITIONS:,} rows and 1 GB unpacked.",
        hint="Build trips from it, which the map shows in parts: slipstream trajectories build FILE --out DATA",
        code="too-large",
    )


def _place(file: str, table: pa.Table, crs: str) -> Positions:
    layer = find_layer(file, table.schema)
    if layer is None:
        raise BadArgument(
            f"{file}: no columns for the place were found; it has: {', '.join(table.column_names[:20])}.",
            hint="Call them lon and lat, or x and y.",
            code="unknown-column",
        )
    if layer.kind == "trips":
        found = read_trips_as_positions(table, layer, crs, most=MOST_POSITIONS)
    else:
        found = add_speed(read_positions(table, layer, crs))
    if not len(found.t):
        raise BadInput(
            f"{file}: none of its {table.num_rows:,} rows has a place and a time.",
            hint="A place is a longitude of -180 to 180 and a latitude of -90 to 90; a time is an instant.",
            code="empty-input",
        )
    return found


def _read_gpx(file: str, content: bytes) -> pa.Table:
    return _positions_table(gpx_rows(file, content), ("id", "time", "lon", "lat", "track", "ele"), numbers=("ele",))


def _read_geojson(file: str, content: bytes) -> pa.Table:
    return _positions_table(geojson_rows(file, content), ("id", "time", "lon", "lat", "file"))


def _positions_table(
    rows: Sequence[tuple[str | None, ...]], names: tuple[str, ...], numbers: tuple[str, ...] = ()
) -> pa.Table:
    """Return positions as a table; a file without any time has no such column, so that its places are shown."""
    columns = dict(zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True))
    table = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    if table["time"].null_count == table.num_rows:
        table = table.drop_columns("time")
    for name in ("lon", "lat", *numbers):
        table = table.set_column(table.column_names.index(name), name, _to_numbers(table[name]))
    return table


def _to_numbers(column: pa.ChunkedArray) -> pa.Array:
    def number(text: str | None) -> float | None:
        try:
            return float(text) if text is not None else None
        except ValueError:
            return None

    return pa.array([number(text) for text in column.to_pylist()], pa.float64())


def _read_csv(file: str, content: bytes) -> pa.Table:
    try:
        return pyarrow.csv.read_csv(io.BytesIO(content))
    except (pa.ArrowException, UnicodeDecodeError) as error:
        hint = "The first line has the names of the columns, and each line a value for each."
        raise _refuse(file, "CSV", error, hint) from error


def _read_parquet(file: str, content: bytes) -> pa.Table:
    try:
        opened = pq.ParquetFile(io.BytesIO(content))
        found = opened.metadata
        unpacked = sum(found.row_group(group).total_byte_size for group in range(found.num_row_groups))
        if found.num_rows > MOST_POSITIONS or unpacked > _MOST_UNPACKED:
            raise _refuse_size(file, found.num_rows)
        return opened.read()
    except (pa.ArrowException, OSError) as error:
        raise _refuse(file, "Parquet", error, "Drop a Parquet file with columns for the place.") from error


def _refuse(file: str, kind: str, error: Exception, hint: str) -> BadInput:
    return BadInput(
        f"{file}: not a {kind} file ({str(error).splitlines()[0][:200]}).", hint=hint, code="unreadable-file"
    )


_READERS: dict[str, Callable[[str, bytes], pa.Table]] = {
    ".gpx": _read_gpx,
    ".geojson": _read_geojson,
    ".json": _read_geojson,
    ".csv": _read_csv,
    ".parquet": _read_parquet,
}
