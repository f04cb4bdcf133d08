"""Read trips from the table of a job, or from a folder of Parquet files of any other origin.

OUT/outputs/trips/      the ended trips of a job: each once, from the commit of the batch that ended it;
                        an archive output of a network may have another name
OUT/manifest.json       marks trips in the plane of Linear City
OWN/trips/*.parquet     trips of another origin, with the same columns
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._errors import MALFORMED, BadInput, SlipstreamError
from slipstream._io import outputs
from slipstream._tools.strict_json import parse_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: the name of the table, and of the folder of trips of another origin
TRIPS, MANIFEST = "trips", "manifest.json"
#: the column with the moving point
TRIP = "Trip"
FORMAT, VERSION = "slipstream-archive", 1
#: the plane of Linear Road's expressways
LINEAR_CITY = "linear city"


def mark_linear_city(out: Path) -> None:
    """Write ``out/manifest.json``, which marks trips in the plane of Linear City."""
    out.mkdir(parents=True, exist_ok=True)
    body = {"format": FORMAT, "version": VERSION, "plane": LINEAR_CITY}
    (out / MANIFEST).write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")


def is_linear_city(out: Path) -> bool:
    """Return whether the trips of an archive are on Linear Road's expressways."""
    try:
        body = parse_json((out / MANIFEST).read_bytes())
        return (body["format"], body["plane"]) == (FORMAT, LINEAR_CITY)
    except (OSError, *MALFORMED):
        return False


def is_archive(out: Path) -> bool:
    """Return whether a folder has trips."""
    return bool(trip_outputs(out)) or any((out / TRIPS).glob("*.parquet"))


def trip_outputs(out: Path) -> list[str]:
    """Return the outputs of a job that have trips."""
    return [name for name in outputs.output_names(out) if TRIP in _read_columns(out, name)]


def _read_columns(out: Path, output: str) -> list[str]:
    """Return the columns of an output; none if it cannot be read."""
    try:
        return list(outputs.visible_files(out, output).schema.names)
    except (SlipstreamError, OSError, *MALFORMED):
        return []


def read_trips(out: Path, columns: Sequence[str], output: str = TRIPS) -> pa.Table:
    """Read columns of all trips in an archive, without Spark."""
    if _has_table(out, output):
        return outputs.read(out, output, columns)
    return pa.concat_tables([pq.read_table(file, columns=list(columns)) for file in _list_files(out)])


def open_archive(spark: SparkSession, out: Path, output: str = TRIPS) -> DataFrame:
    """Return the trips of an archive, with a moving point ``Trip`` each.

    Those of a toll or archive job also have vid, xway and dir; those of a network the column that identifies who moved.
    An ``output`` of a network may have another name than trips.
    """
    if _has_table(out, output):
        return outputs.to_frame(spark, out, output).drop(outputs.BATCH)
    return spark.read.parquet(*map(str, _list_files(out)))


def _has_table(out: Path, output: str = TRIPS) -> bool:
    return output in outputs.output_names(out)


def _list_files(out: Path) -> list[Path]:
    files = sorted((out / TRIPS).rglob("*.parquet"))
    if not files or (out / outputs.JOURNAL).exists():
        raise BadInput(
            f"{out} is not an archive, or Slipstream 0.1 wrote it.",
            hint="Create one with `slipstream archive INPUT --out OUT`.",
            code="wrong-file-type",
        )
    return files
