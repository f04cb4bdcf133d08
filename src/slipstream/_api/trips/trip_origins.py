"""Where the rows of :class:`slipstream.Trips` are: in a job's archive, in memory, in Spark, or in a folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from slipstream._api.streaming.committed import batch_at, own_columns, quote_columns
from slipstream._errors import BadArgument
from slipstream._io import outputs
from slipstream._io.outputs import BATCH
from slipstream._moving.space.systems import CRS_KEY
from slipstream._trajectories.cutting.building import Built
from slipstream._trajectories.data import REJECTS, Data

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: the column of moving points in a table of trips
TRIP = "Trip"


class TripRows(Protocol):
    """Rows of trips, wherever they are."""

    @property
    def crs(self) -> str:
        """The reference system, empty if it has no name."""

    def as_of(self, moment: int | datetime) -> TripRows:
        """Return the trips at an earlier moment."""

    def to_spark(self, spark: SparkSession) -> DataFrame:
        """Return all trips."""

    def rejects(self, spark: SparkSession) -> DataFrame:
        """Return what is in no trip."""

    def facts(self) -> dict[str, Any]:
        """Return what is known about how they were made."""

    def some(self, rows: int) -> pa.Table:
        """Return at most ``rows`` trips."""

    def __len__(self) -> int: ...


@dataclass(frozen=True)
class Archived:
    """The trips that a job has archived, up to a batch."""

    folder: Path
    name: str
    until: int | None = None
    crs: str = ""

    def __str__(self) -> str:
        return f"{self.name} of {self.folder}"

    def as_of(self, moment: int | datetime) -> Archived:
        return replace(self, until=batch_at(self.folder, moment))

    def to_spark(self, spark: SparkSession) -> DataFrame:
        return self._read(spark, self.name)

    def rejects(self, spark: SparkSession) -> DataFrame:
        name = f"{self.name}_rejects"
        return self._read(spark, name if name in outputs.output_names(self.folder) else outputs.REJECTS)

    def _read(self, spark: SparkSession, name: str) -> DataFrame:
        rows = outputs.to_frame(spark, self.folder, name, until=self.until)
        return rows.select(*quote_columns(own_columns(rows.columns)))

    def facts(self) -> dict[str, Any]:
        return {"trips": len(self)}

    def some(self, rows: int) -> pa.Table:
        return outputs.read_newest(self.folder, self.name, rows, until=self.until)

    def __len__(self) -> int:
        return int(outputs.read(self.folder, self.name, [BATCH], until=self.until).num_rows)


@dataclass(frozen=True)
class Recorded:
    """Trips that were read from files."""

    where: str
    table: pa.Table
    crs: str = ""

    def __str__(self) -> str:
        return self.where

    def as_of(self, moment: int | datetime) -> Recorded:  # noqa: ARG002
        raise _refuse_past(self.where)

    def to_spark(self, spark: SparkSession) -> DataFrame:
        return name_system(spark.createDataFrame(self.table), self.crs)

    def rejects(self, spark: SparkSession) -> DataFrame:  # noqa: ARG002
        raise BadArgument(
            f"{self.where}: trips in files have no rejects.",
            hint="ss.trajectories keeps what it rejects; Trips.read refuses a file with an invalid position.",
            code="unknown-name",
        )

    def facts(self) -> dict[str, Any]:
        return {"trips": len(self)}

    def some(self, rows: int) -> pa.Table:
        return self.table.slice(0, rows)

    def __len__(self) -> int:
        return int(self.table.num_rows)


@dataclass(frozen=True)
class Computed:
    """Trips that were built of positions and are kept by Spark."""

    where: str
    built: Built

    def __str__(self) -> str:
        return self.where

    @property
    def crs(self) -> str:
        return self.built.crs

    def as_of(self, moment: int | datetime) -> Computed:  # noqa: ARG002
        raise _refuse_past(self.where)

    def to_spark(self, spark: SparkSession) -> DataFrame:  # noqa: ARG002
        return self.built.trips

    def rejects(self, spark: SparkSession) -> DataFrame:  # noqa: ARG002
        return self.built.rejects

    def facts(self) -> dict[str, Any]:
        return count_facts(self.built.counts)

    def some(self, rows: int) -> pa.Table:
        return self.built.trips.limit(rows).toArrow()

    def __len__(self) -> int:
        return self.built.counts.trips


@dataclass(frozen=True)
class StoredTrips:
    """Trips in a folder that ``slipstream trajectories build`` or ``Trips.write`` wrote."""

    data: Data

    def __str__(self) -> str:
        return str(self.data.folder)

    @property
    def crs(self) -> str:
        return self.data.crs

    def as_of(self, moment: int | datetime) -> StoredTrips:  # noqa: ARG002
        raise _refuse_past(str(self))

    def to_spark(self, spark: SparkSession) -> DataFrame:
        return self.data.to_spark(spark)

    def rejects(self, spark: SparkSession) -> DataFrame:
        return self.data.to_spark(spark, REJECTS)

    def facts(self) -> dict[str, Any]:
        return count_facts(self.data.counts)

    def some(self, rows: int) -> pa.Table:
        return self.data.read_some(rows)

    def __len__(self) -> int:
        return self.data.counts.trips


def count_facts(counts: Any) -> dict[str, Any]:
    """Return counts as a flat dictionary: rows, vertices, trips, movers, and rejects by reason."""
    rejects = {f"rejects: {reason}": count for reason, count in counts.rejects.items()}
    facts = {name: getattr(counts, name) for name in ("rows", "vertices", "rejected", "trips", "movers")}
    return facts | rejects


def name_system(rows: DataFrame, crs: str) -> DataFrame:
    """Return trips whose column says which reference system it has."""
    from pyspark.sql import functions as sf

    return rows.withColumn(TRIP, sf.col(TRIP).alias(TRIP, metadata={CRS_KEY: crs})) if crs else rows


def _refuse_past(where: str) -> BadArgument:
    return BadArgument(
        f"{where}: trips in files have no earlier versions.", hint="Use as_of on the trips of a job.", code="not-kept"
    )
