"""The folder in which trajectories rest, for Slipstream and for any reader of Parquet.

    DATA/trajectories.json   what is in it: the reference system, counts, and how it was built
    DATA/trips/*.parquet     a row per trip: id, number, columns that were kept, and the moving point Trip
    DATA/rejects/*.parquet   a row per rejected position, with the reason

The reference system is also in the metadata of the column ``Trip``, in every file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._archive.trip_tables import TRIPS
from slipstream._errors import MALFORMED, BadInput
from slipstream._moving.space.systems import CRS_KEY, System
from slipstream._spark import session
from slipstream._tools.files.staging import staged_folder
from slipstream._tools.strict_json import parse_json
from slipstream._trajectories.cutting.assembling import TRIP
from slipstream._trajectories.cutting.building import Built, Counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MANIFEST, REJECTS = "trajectories.json", "rejects"
FORMAT, VERSION = "slipstream-trajectories", 1

#: microseconds in files, which every reader understands and which have statistics
_WRITING = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}


@dataclass(frozen=True)
class Data:
    """Trajectories in a folder."""

    folder: Path
    crs: str  # empty for a plane without a name
    counts: Counts
    options: Mapping[str, Any] = field(default_factory=dict)  # how they were built

    @classmethod
    def is_at(cls, folder: Path) -> bool:
        """Whether a folder has trajectories."""
        return (folder / MANIFEST).is_file()

    @classmethod
    def open(cls, folder: Path) -> Data:
        """Open a folder; refuse one that has no trajectories or those of another version."""
        try:
            body = parse_json((folder / MANIFEST).read_bytes())
            known = body["format"] == FORMAT
            version = int(body["version"])
            found = cls(folder, str(body["crs"]), Counts(**body["counts"]), body["options"])
        except (OSError, *MALFORMED) as error:
            raise BadInput(
                f"{folder}: has no trajectories.",
                hint="Build some with `slipstream trajectories build INPUT --out DATA`.",
                code="wrong-file-type",
            ) from error
        if not known or version != VERSION:
            raise BadInput(
                f"{folder / MANIFEST}: version {version} of the format.",
                hint=f"This program reads version {VERSION}; build it again.",
                code="wrong-version",
                found=version,
                expected=VERSION,
            )
        return found

    @property
    def system(self) -> System | None:
        """The reference system; None for a plane without a name."""
        return System.parse(self.crs) if self.crs else None

    @property
    def files(self) -> list[Path]:
        """The files of trips."""
        return sorted((self.folder / TRIPS).glob("*.parquet"))

    def to_spark(self, spark: SparkSession, table: str = TRIPS) -> DataFrame:
        """Return the trips, or the rejects, as a DataFrame."""
        from pyspark.sql import functions as sf

        place = self.folder / table
        if not any(place.glob("*.parquet")):
            raise BadInput(f"{place}: its files are missing.", hint="Build the data again.", code="damaged-file")
        rows = spark.read.parquet(str(place.absolute()))
        if table != TRIPS:
            return rows
        # files that were rewritten by other programs have lost the metadata
        return rows.withColumn(TRIP, sf.col(TRIP).alias(TRIP, metadata={CRS_KEY: self.crs} if self.crs else {}))

    def read_batches(self, rows: int = 1 << 10) -> Iterator[pa.RecordBatch]:
        """Read the trips in batches, without Spark."""
        for file in self.files:
            with pq.ParquetFile(file) as opened:
                yield from opened.iter_batches(rows)

    def read_some(self, rows: int) -> pa.Table:
        """Read the first trips, without Spark."""
        taken: list[pa.RecordBatch] = []
        for batch in self.read_batches(min(rows, 1 << 10) or 1):
            taken.append(batch.slice(0, rows - sum(map(len, taken))))
            if sum(map(len, taken)) >= rows:
                break
        schema = pq.read_schema(self.files[0]) if self.files else pa.schema([])
        return pa.Table.from_batches(taken, schema.remove_metadata())


def write(built: Built, out: Path, options: Mapping[str, Any], *, label: str = "--out ") -> Data:
    """Write trips and rejects into a folder that appears when it is complete."""
    spark = built.both.sparkSession
    with staged_folder(out, label=label) as stage, session.with_settings(spark, _WRITING), session.task_errors():
        for name, rows in ((TRIPS, built.trips), (REJECTS, built.rejects)):
            rows.write.parquet(str(stage / name))
            for file in (*(stage / name).glob("_*"), *(stage / name).glob(".*")):
                file.unlink()
        body = {"format": FORMAT, "version": VERSION, "crs": built.crs, "counts": asdict(built.counts)}
        text = json.dumps({**body, "options": dict(options)}, indent=2)
        (stage / MANIFEST).write_text(text + "\n", encoding="utf-8")
    return Data.open(out)
