"""A BerlinMOD data set: a self-describing folder of Parquet tables.

DATA/manifest.json   its origin and size
DATA/network.npz     the streets, if known
DATA/dataScar        OBA: one row per vehicle with its whole history
DATA/dataMcar        TBA: the vehicles
DATA/dataMtrip       TBA: their trips, including pauses
DATA/Query*          the samples that the queries use
DATA/index           the index built by ``slipstream berlinmod index``
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._berlinmod import resident
from slipstream._berlinmod.layout import SAMPLES, check_data_set
from slipstream._errors import MALFORMED, BadInput
from slipstream._moving import register, types
from slipstream._moving.columns import MPoints, freeze, read, write
from slipstream._moving.kernels.motion import concatenate, split_at_pauses
from slipstream._roads.street_network import StreetNetwork
from slipstream._tools.strict_json import decode_as, parse_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "slipstream-berlinmod"
VERSION = 1
SAMPLE = 100
#: a pause longer than this ends a trip: five minutes, in microseconds
PAUSE = 300_000_000
#: a trip's number is its vehicle's number times this, plus its number within the vehicle
TRIPS = 1_000_000

_VEHICLE = [("Moid", pa.int64()), ("Licence", pa.string()), ("Model", pa.string()), ("Type", pa.string())]
SCAR = pa.schema([*_VEHICLE, ("Trip", types.MPOINT.arrow)])
MCAR = pa.schema(_VEHICLE)
SCAR_SQL = f"Moid long, Licence string, Model string, Type string, Trip {types.MPOINT.sql}"
MTRIP_SQL = f"Moid long, Licence string, TripId long, Trip {types.MPOINT.sql}"
MTRIP = pa.schema([*_VEHICLE[:2], ("TripId", pa.int64()), ("Trip", types.MPOINT.arrow)])


@dataclass(frozen=True)
class DatasetManifest:
    """The contents of ``manifest.json``."""

    source: str  # a description of what created it
    vehicles: int
    trips: int
    units: int  # pieces of linear movement
    begin: str
    end: str
    parameters: dict[str, Any] = field(default_factory=dict)  # of the generator
    nodes: int = 0  # of the street network, if known
    edges: int = 0
    metres: float = 0.0  # of its streets
    srid: int = 0  # the EPSG code of its plane, 0 if it has none


def write_manifest(folder: Path, manifest: DatasetManifest) -> None:
    """Write ``manifest.json``."""
    body = {"format": FORMAT, "version": VERSION, **asdict(manifest)}
    (folder / "manifest.json").write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")


class Dataset:
    """An existing data set; ``create_views(spark)`` registers its tables with a session."""

    def __init__(self, path: Path, manifest: DatasetManifest) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def open(cls, path: Path) -> Dataset:
        """Open the data set at ``path``; does not require all tables, as some uses need only some of them."""
        check_data_set(path, ())
        try:
            body = parse_json((path / "manifest.json").read_bytes())
            made_by = f"{body.pop('format')} {body.pop('version')}"
            if made_by != f"{FORMAT} {VERSION}":
                raise ValueError(f"its format is {made_by}, but this version reads {FORMAT} {VERSION}")
            return cls(path, decode_as(DatasetManifest, body))
        except (OSError, *MALFORMED) as error:
            raise BadInput(
                f"{path}: not a BerlinMOD data set ({error}).",
                hint="Create one with `slipstream berlinmod generate` or `load`.",
                code="wrong-file-type",
            ) from error

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        """Return one of its tables."""
        return spark.read.parquet(str(self.path / name))

    def network(self) -> StreetNetwork | None:
        """Return the streets, if the data set has them."""
        file = self.path / "network.npz"
        return StreetNetwork.load(file) if file.exists() else None

    def create_views(self, spark: SparkSession) -> None:
        """Register tables and operators; ``Query...1`` and ``2`` are the first and second ten rows of a sample."""
        register(spark)
        for name in ("dataScar", "dataMtrip"):
            resident.create_view(spark, self.path / name, name, self.manifest.units)
        resident.small_table(spark, self.path / "dataMcar", self.manifest.units).createOrReplaceTempView("dataMcar")
        for name in SAMPLES:
            sample = resident.small_table(spark, self.path / name, self.manifest.units)
            sample.where(f"Id BETWEEN 1 AND {SAMPLE}").createOrReplaceTempView(name)
            sample.where("Id BETWEEN 1 AND 10").createOrReplaceTempView(f"{name}1")
            sample.where("Id BETWEEN 11 AND 20").createOrReplaceTempView(f"{name}2")


def _split_histories(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        trips, split = split_at_pauses(read(batch.column("Trip")), PAUSE)
        counts = np.diff(trips)
        rows = np.repeat(np.arange(batch.num_rows), counts)
        number = np.arange(len(rows)) - np.repeat(trips[:-1], counts) + 1
        moid = batch.column("Moid").to_numpy()[rows]
        licence = batch.column("Licence").take(pa.array(rows))
        columns = [pa.array(moid), licence, pa.array(moid * TRIPS + number), write(split, types.MPOINT)]
        yield pa.RecordBatch.from_arrays(columns, schema=MTRIP)


def trips_from_histories(histories: DataFrame) -> DataFrame:
    """Split OBA's histories into TBA's trips."""
    wanted = histories.select("Moid", "Licence", "Trip")
    return wanted.mapInArrow(_split_histories, MTRIP_SQL)


def _join_trips(table: pa.Table) -> pa.Table:
    trip: MPoints = read(table.column("Trip").combine_chunks())
    groups = freeze(np.array([0, table.num_rows], dtype=np.int32))
    joined = concatenate(trip, groups)
    columns = [table.column(name).slice(0, 1).combine_chunks() for name in ("Moid", "Licence", "Model", "Type")]
    return pa.Table.from_arrays([*columns, write(joined, types.MPOINT)], schema=SCAR)


def histories_from_trips(trips: DataFrame, vehicles: DataFrame) -> DataFrame:
    """Join TBA's trips into OBA's histories: one moving point per vehicle."""
    wanted = trips.select("Moid", "Trip").join(vehicles.select("Moid", "Licence", "Model", "Type"), "Moid")
    return wanted.groupBy("Moid").applyInArrow(_join_trips, SCAR_SQL)


def write_histories(histories: DataFrame, stage: Path) -> None:
    """Write OBA's table in small row groups: from a large one, Spark would read up to 4,096 histories at once."""
    options = {"parquet.block.size": str(8 << 20), "parquet.page.size.row.check.min": "4"}
    histories.write.options(**options).parquet(str(stage / "dataScar"))


def finish(spark: SparkSession, stage: Path, source: str, parameters: dict[str, Any], srid: int = 0) -> DatasetManifest:
    """Count what was written, and write and return the manifest; ``srid`` defaults to the network's."""
    row = (
        spark.sql(
            f"""SELECT count(*) AS vehicles, sum(size(Trip.t) - size(Trip.starts)) AS units,
                   min(Trip.t[0]) AS first, max(Trip.t[size(Trip.t) - 1]) AS last
            FROM parquet.`{stage / "dataScar"}`"""
        )
        .toArrow()
        .to_pylist()[0]
    )
    trips = sum(pq.read_metadata(file).num_rows for file in sorted((stage / "dataMtrip").glob("*.parquet")))
    register(spark)
    # a vehicle that is not on a trip does not move
    driven = spark.sql(f"SELECT sum(travelled(Trip)) AS m FROM parquet.`{stage / 'dataMtrip'}`")
    metres = driven.toArrow()["m"][0].as_py()
    network = StreetNetwork.load(stage / "network.npz") if (stage / "network.npz").exists() else None
    manifest = DatasetManifest(
        source=source,
        vehicles=row["vehicles"],
        trips=trips,
        units=row["units"] or 0,
        begin=row["first"].isoformat() if row["first"] else "",
        end=row["last"].isoformat() if row["last"] else "",
        parameters=parameters,
        nodes=network.nodes if network else 0,
        edges=network.edges if network else 0,
        metres=metres or 0.0,
        srid=srid or (network.srid if network else 0),
    )
    write_manifest(stage, manifest)
    return manifest
