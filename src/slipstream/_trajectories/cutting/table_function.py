"""``trajectories`` as a table function of Spark SQL.

    SELECT id, number, Trip
    FROM trajectories(TABLE(SELECT vin AS id, ts AS time, lon, lat FROM gps) PARTITION BY id,
                      to => 'EPSG:32633', gap => '5 minutes', max_speed => '200 km/h')
    WHERE reason IS NULL

Spark gives the function all rows of one id after another, so it knows neither the other ids nor the extent of the data:
the system of the trips has to be named. The rows of an id may be in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slipstream._errors import BadArgument
from slipstream._moving import types
from slipstream._moving.analysing import drop_function
from slipstream._moving.space.systems import WGS84, System, require_metric
from slipstream._spark import workers
from slipstream._trajectories.cutting import trip_rules
from slipstream._trajectories.cutting.assembling import GIVEN, REASON, TIME, Assembler, X, Y, assemble
from slipstream._trajectories.cutting.trip_rules import TripRules
from slipstream._trajectories.reading.mapping import find_place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "trajectories"
#: the columns of the result: trips have no reason, rejects no Trip
RETURNS = f"id string, number int, Trip {types.MPOINT.sql}, reason string, time timestamp, x double, y double"
_COLUMNS = ["id", "number", "Trip", "reason", "time", "x", "y"]


class Trajectories:
    """Collects the positions of one id, then makes its trips."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []
        self._assembler: Assembler | None = None

    def eval(
        self,
        positions: pa.RecordBatch,
        to: pa.Array,
        gap: pa.Array = None,
        max_speed: pa.Array = None,
    ) -> Iterator[pa.Table]:
        """Take positions of the id; ``to``, ``gap`` and ``max_speed`` are constants."""
        if self._assembler is None:
            self._assembler = _make_assembler(positions, _constant(to), _constant(gap), _constant(max_speed))
        self._batches.append(_read(positions))
        yield from ()

    def terminate(self) -> Iterator[pa.Table]:
        """Return the trips and rejects of the id."""
        if self._assembler is None:
            return
        whole = pa.Table.from_batches(self._batches).combine_chunks()
        order = np.lexsort([whole[name].to_numpy() for name in (Y, X, TIME)])
        ordered = whole.take(pa.array(order))
        for batch in assemble(self._assembler, ordered.to_batches()):
            yield pa.Table.from_batches([batch]).select(_COLUMNS)


def _constant(given: Any) -> Any:
    return given[0].as_py() if given is not None and len(given) else None


def _make_assembler(positions: pa.RecordBatch, to: str | None, gap: str | None, speed: str | float | None) -> Assembler:
    target = require_metric(System.parse(to or ""), "to")
    x, _ = find_place(positions.schema.names, NAME)
    return Assembler(TripRules.parse(gap or "5 minutes", speed), target.name if x == X else WGS84, target)


def _read(positions: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of a position, with the reason why a row cannot be used."""
    names = positions.schema.names
    if missing := [name for name in ("id", "time") if name not in names]:
        raise BadArgument(
            f"{NAME}: no column {missing[0]!r}.",
            hint="Name the columns of the table: SELECT vin AS id, ts AS time, lon, lat.",
            code="unknown-column",
            expected=["id", "time", "lon", "lat"],
        )
    if not pa.types.is_timestamp(positions["time"].type):
        raise BadArgument(
            f"{NAME}: time is {positions['time'].type}.", hint="Cast it to TIMESTAMP in the table.", code="bad-type"
        )
    first, second = find_place(names, NAME)
    x, y = (positions[name].cast(pa.float64()) for name in (first, second))
    id_, time = positions["id"].cast(pa.string()), positions["time"].cast(types.INSTANT)
    reason = _reason(id_, time, x, y, in_degrees=first != X)
    columns = {"id": id_, TIME: time, X: x, Y: y, REASON: reason, GIVEN: pa.nulls(len(id_), pa.string())}
    return pa.RecordBatch.from_pydict(columns)


def _reason(id_: pa.Array, time: pa.Array, x: pa.Array, y: pa.Array, *, in_degrees: bool) -> pa.Array:
    """Why rows cannot be used, as ``mapping`` finds it in Spark; null where they can."""
    finite = pc.fill_null(pc.and_(pc.is_finite(x), pc.is_finite(y)), False)
    checks = [
        (trip_rules.NO_ID, pc.is_null(id_)),
        (trip_rules.NO_TIME, pc.is_null(time)),
        (trip_rules.NO_PLACE, pc.or_(pc.is_null(x), pc.is_null(y))),
        (trip_rules.NOT_FINITE, pc.invert(finite)),
    ]
    if in_degrees:
        off = pc.or_(pc.greater(pc.abs(x), 180.0), pc.greater(pc.abs(y), 90.0))
        checks.append((trip_rules.OFF_GLOBE, pc.fill_null(off, False)))
    conditions = pa.StructArray.from_arrays([one for _, one in checks], names=[name for name, _ in checks])
    return pc.case_when(conditions, *(pa.scalar(name) for name, _ in checks))


def register(spark: SparkSession) -> None:
    """Register the table function with a session."""
    from pyspark.sql.functions import arrow_udtf

    workers.use_this_python()
    function: Any = arrow_udtf(Trajectories, returnType=RETURNS)
    drop_function(spark, NAME)
    spark.udtf.register(NAME, function)
