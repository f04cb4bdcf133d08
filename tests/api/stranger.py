"""The public API as somebody uses it who has only read the documentation; checked by ``mypy --strict``, never run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import slipstream as ss
import slipstream.functions as sf
from slipstream import testing

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Odd(ss.Box):
    """Lets tuples with an odd ``id`` pass."""

    name = "odd"

    def outputs(self, tuples: dict[str, str]) -> dict[str, dict[str, str]]:
        return {"out": tuples}

    def step(self, state: Any, tuples: ss.Train) -> dict[str, ss.Train]:
        return {"out": tuples.take(tuples["id"] % 2 == 1)}


class Numbers(ss.Source):
    schema = {"id": "bigint"}  # noqa: RUF012

    def latest(self, start: int) -> int:
        return start + 1

    def read(self, start: int, end: int) -> dict[str, list[int]]:
        return {"id": list(range(start, end))}


class Printed(ss.Destination):
    def send(self, batch: int, rows: pa.Table) -> None:
        print(batch, rows.num_rows)


@ss.udf.scalar("double")
def to_kmh(mph: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return mph * 1.609


@ss.udf.window("bigint")
def span(windows: ss.udf.Windows) -> npt.NDArray[Any]:
    (speed,) = windows.columns
    return windows.reduce(np.maximum, speed) - windows.reduce(np.minimum, speed)


@ss.udf.atomic()
def spread(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = np.nanmax(values, axis=1) - np.nanmin(values, axis=1)
    return found


@ss.udf.toll(base_credit=50)
def flat(lav: npt.NDArray[np.int64], cars: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.where(cars > 0, np.full_like(lav, 10), 0)


def first_page(frame: DataFrame) -> None:
    """The program that the API was designed for, and the other places that it can read."""
    reports = ss.read("kafka://broker:9092/positions", columns={"id": "vin", "time": "ts"})
    tolled = reports.toll(rules="2004", lateness="2s")
    slow = reports.filter("speed < 20").window("time", size="1 minute", by="segment").agg(cars="count(*)")
    job = ss.Job("out").write(tolled).write(slow, name="slow").archive(reports).start()
    states: list[str] = [job.status().state, job.wait().status().state, job.stop().status().why]

    out = ss.open("out")
    rows: DataFrame = out["slow"].to_spark()
    speed: float = out.cuboid("car")[100].speed[0]
    far: ss.Trips = out.trips().where("travelled(Trip) > 1000").as_of(3)
    answers: list[ss.Stream] = [tolled.notifications, tolled.alerts, tolled.balances, tolled.expenditures]
    cuboids: list[ss.Published] = [tolled.cars, tolled.accounts, tolled.segments, tolled.accidents]
    others = [ss.read("runs/rush"), ss.read("tcp://127.0.0.1:7777"), ss.read("fleet.csv"), ss.from_dataframe(frame)]
    print(states, rows.count(), speed, len(far), len(answers), len(cuboids), [one.columns for one in others])


def program(spark: SparkSession) -> None:
    reports = ss.read("kafka://broker:9092/positions", columns={"id": "vin", "time": "ts"}, follow=True)
    tolled: ss.Tolled = reports.toll(rules=flat, lateness="2s")
    slow = reports.filter("speed < 20").window("time", size="1 minute", by="segment").agg(cars="count(*)")
    fast, rest = reports.split("speed > 90")
    kept = reports.keep("CREATE CUBOID driver (id BIGINT KEY, speed AST(6))")
    owners: ss.Table = ss.table("owners.parquet", {"vin": "bigint", "owner": "string"})
    owned = reports.join(owners, "left.id = right.vin", how="left").with_columns({"speed (km/h)": "to_kmh(speed)"})
    job = (
        ss.Job("out")
        .write(tolled)
        .write(slow, name="slow", to="console")
        .write(fast.union(rest).through(Odd()), name="odd", to=[Printed(), "text:odd.csv"])
        .write(kept.query("SELECT id, avg(speed) AS mean FROM driver"), name="means")
        .write(owned, name="owned")
        .archive(reports, gap="30 s")
    )
    network: ss.Network = job.network
    published: ss.Published = tolled.cars
    print(published.name, tolled.accounts.columns, kept.cuboid.open("out").newest())
    print(network.name, job.outputs)
    with job.start(spark, kafka={"security.protocol": "SSL"}) as running:
        status: ss.JobStatus = running.status()
        print(status.state, status.outputs["slow"], running.wait(10).stop())


def reading() -> None:
    out: ss.Results = ss.open("out")
    frame: DataFrame = out["slow"].to_spark()
    pandas: pd.DataFrame = out["slow"].as_of(3).to_pandas()
    speed: float = out.cuboid("car")[100].speed[0]
    cars: ss.Cuboid = out.as_of(3).cuboid("car")
    print(len(cars), cars.newest(3))
    trips: ss.Trips = out.as_of(datetime(2026, 1, 1)).trips().where("travelled(Trip) > 1000")
    far = trips.to_spark().select("id", sf.travelled("Trip").alias("metres"), sf.val(sf.final("Trip")))
    rides = ss.Trips.read("rides", plane=ss.Plane.utm_at(13.4, 52.5), format="gpx").where("travelled(Trip) > 10")
    ride: ss.MovingPoint = rides.to_points()["monday"]
    print(ride.to_wkt(), ss.MovingPoint.from_mfjson(ride.to_mfjson()).length, ride.starts.tolist())
    print(frame.count(), len(pandas), speed, far.count(), out.sql("SELECT count(*) FROM car"))


def tested() -> list[dict[str, Any]]:
    source = testing.MemorySource({"id": "bigint"}, [{"id": 1}, {"id": 2}])
    captured = testing.CapturingOutput()
    host = testing.MemoryHost(ss.Job("out").write(ss.read(source).through(Odd()), name="odd", to=captured))
    host.run()
    assert host.outputs["odd"] == captured.rows
    testing.check_source(Numbers(), most_batches=3)
    try:
        ss.read("nowhere.csv")
    except ss.SlipstreamError as error:
        print(error.message, error.hint)
    return captured.rows
