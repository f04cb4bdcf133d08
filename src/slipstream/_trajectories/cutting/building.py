"""The Spark plan: positions are shuffled once by id, sorted within partitions, and become trips in Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from slipstream._errors import BadArgument, BadInput
from slipstream._moving import types
from slipstream._moving.columns import read
from slipstream._moving.space import plane as planes
from slipstream._moving.space.plane import Plane
from slipstream._moving.space.systems import CRS_KEY, System, require_metric
from slipstream._spark import session, workers
from slipstream._trajectories.cutting.assembling import GIVEN, NUMBER, REASON, TIME, TRIP, Assembler, X, Y, assemble
from slipstream._trajectories.cutting.travelling_values import kind_of
from slipstream._trajectories.cutting.trip_rules import REASONS, TripRules
from slipstream._trajectories.reading.mapping import Mapping, read_positions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: how many UTM zones to each side of the fullest one a plane reaches, and the share of positions that may lie beyond
_REACH, _BEYOND = 2, 0.1
#: trips that are looked at for degrees among metres
_SAMPLE = 200


@dataclass(frozen=True)
class Counts:
    """What became of the rows of a table: ``rows`` is ``vertices`` and all ``rejects`` together."""

    rows: int
    vertices: int
    trips: int
    movers: int
    rejects: dict[str, int] = field(default_factory=dict)  # by reason, without zeros

    @property
    def rejected(self) -> int:
        """The number of rejects."""
        return sum(self.rejects.values())


@dataclass(frozen=True)
class Built:
    """Trips and rejects of a table of positions, computed once and kept by Spark."""

    both: DataFrame
    keep: tuple[str, ...]  # columns beside the trip, values over time among them
    crs: str  # of the trips; empty for a plane without a name
    in_degrees: bool  # whether the positions were
    counts: Counts

    @property
    def trips(self) -> DataFrame:
        """A row per trip: id, number, columns to keep, Trip."""
        from pyspark.sql import functions as sf

        moving = sf.col(TRIP).alias(TRIP, metadata={CRS_KEY: self.crs} if self.crs else {})
        kept = (f"`{name}`" for name in self.keep)
        return self.both.where(f"{REASON} IS NULL").select("id", NUMBER, *kept, moving)

    @property
    def rejects(self) -> DataFrame:
        """A row per reject: id, time and place as far as they could be read, the original text, and the reason."""
        x, y = ("lon", "lat") if self.in_degrees else (X, Y)
        names = ["id", TIME, f"{X} AS {x}", f"{Y} AS {y}", GIVEN, REASON]
        return self.both.where(f"{REASON} IS NOT NULL").selectExpr(*names)

    def release(self) -> None:
        """Let Spark forget the result; it is computed again if it is used."""
        self.both.unpersist()


def build(
    frame: DataFrame, mapping: Mapping, rules: TripRules, *, to: str | int | Plane | System | None, units: str | None
) -> Built:
    """Make trips of a table of positions, and count what became of each row."""
    workers.use_this_python()
    positions = read_positions(frame, mapping)
    with session.task_errors():
        target = _choose_target(positions, mapping, to)
        both = _assemble(positions, mapping, rules, target).persist()
        try:
            counts = _count(both)
            if not mapping.in_degrees and units != "m":
                _refuse_degrees(both, mapping)
        except BaseException:
            both.unpersist()
            raise
    if not counts.vertices:
        both.unpersist()
        raise BadInput(
            f"No usable position in {counts.rows:,} rows{_list_reasons(counts)}.",
            hint="Check which columns are the id, the time and the place, and the unit of times.",
            code="empty-input",
        )
    return Built(both, (*mapping.keep, *mapping.travelling), target.name if target else "", mapping.in_degrees, counts)


def _list_reasons(counts: Counts) -> str:
    found = ", ".join(f"{reason} {count:,}" for reason, count in counts.rejects.items())
    return f": {found}" if found else ""


def _choose_target(positions: DataFrame, mapping: Mapping, to: str | int | Plane | System | None) -> System | None:
    """The system of the trips: as given; that of the positions if it is in metres; else the fullest UTM zone."""
    source = mapping.system
    if to is not None:
        if source is None:
            raise BadArgument(
                "to: coordinates without a reference system cannot be converted.",
                hint="Give crs=.",
                code="conflicting-options",
            )
        return require_metric(System.parse(to), "to")
    if source is None or source.is_metric:
        return source
    if not source.is_geographic:
        raise BadArgument(
            f"crs {source}: its coordinates are neither degrees nor metres.",
            hint='Give a system in metres to convert them to, for example to="EPSG:3035".',
            code="bad-coordinates",
        )
    return System.parse(_fullest_zone(positions))


def _fullest_zone(positions: DataFrame) -> Plane:
    """The UTM zone of most positions, which does not depend on their order; refuse data that no zone can hold."""
    from pyspark.sql import functions as sf

    zone = sf.least(sf.floor((sf.col(X) + 180) / 6), sf.lit(59)).cast("int") + 1
    good = positions.where(sf.col(REASON).isNull())
    found = good.groupBy(zone.alias("zone"), (sf.col(Y) < 0).alias("south")).count().collect()
    if not found:
        return Plane.utm(33)  # nothing will be projected
    best = min(found, key=lambda row: (-row["count"], row["zone"], row["south"]))
    total = sum(row["count"] for row in found)
    away = [(abs(row["zone"] - best["zone"]), row["count"]) for row in found]
    far = sum(count for zones, count in away if min(zones, 60 - zones) > _REACH)
    if far > _BEYOND * total:
        raise BadInput(
            f"Positions lie in {len({row['zone'] for row in found})} UTM zones; {far / total:.0%} are too far from the "
            f"fullest one, {best['zone']}.",
            hint='Give a system in metres for all of them, such as to="EPSG:3035" (Europe) or to="EPSG:5070" (USA).',
            code="bad-coordinates",
        )
    return Plane.utm(int(best["zone"]), south=bool(best["south"]))


def _assemble(positions: DataFrame, mapping: Mapping, rules: TripRules, target: System | None) -> DataFrame:
    from pyspark.sql import functions as sf

    # a row without an id belongs to nobody, and goes anywhere
    key = sf.coalesce(sf.hash("id"), sf.hash(TIME, X, Y, GIVEN))
    order = ["id", TIME, X, Y, *(f"`{name}`" for name in _sortable(positions, (*mapping.keep, *mapping.travelling)))]
    ordered = positions.repartition(key).sortWithinPartitions(*order)
    source = mapping.system.name if mapping.system else ""
    plain = target or System("")
    keep, values = mapping.keep, mapping.travelling

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return assemble(Assembler(rules, source, plain, keep, values), batches)

    return ordered.mapInArrow(run, _result_columns(positions, mapping))


def _sortable(frame: DataFrame, keep: tuple[str, ...]) -> list[str]:
    """Columns that decide between identical positions, so that the result does not depend on the order of rows."""
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema}
    return [name for name in keep if not kinds[name].startswith("map")]


def _result_columns(positions: DataFrame, mapping: Mapping) -> str:
    from pyspark.sql.pandas.types import to_arrow_type

    kinds = {field.name: field.dataType.simpleString() for field in positions.schema}
    kept = "".join(f"`{name}` {kinds[name]}, " for name in mapping.keep)
    travelling = {name: kind_of(to_arrow_type(positions.schema[name].dataType)) for name in mapping.travelling}
    kept += "".join(f"`{name}` {kind.sql}, " for name, kind in travelling.items())
    rest = f"{REASON} string, {TIME} timestamp, {X} double, {Y} double, {GIVEN} string"
    return f"id {kinds['id']}, {NUMBER} int, {kept}{TRIP} {types.MPOINT.sql}, {rest}"


def _count(both: DataFrame) -> Counts:
    from pyspark.sql import functions as sf

    totals = both.groupBy(REASON).agg(
        sf.count("*").alias("rows"),
        sf.sum(sf.size(f"{TRIP}.t")).alias("vertices"),
        sf.sum(sf.when(sf.col(NUMBER) == 1, 1).otherwise(0)).alias("movers"),
    )
    found = {row[REASON]: row for row in totals.collect()}
    trips = found.pop(None, None)
    rejects = {reason: int(found[reason]["rows"]) for reason in REASONS if reason in found}
    vertices = int(trips["vertices"]) if trips else 0
    return Counts(
        rows=vertices + sum(rejects.values()),
        vertices=vertices,
        trips=int(trips["rows"]) if trips else 0,
        movers=int(trips["movers"]) if trips else 0,
        rejects=rejects,
    )


def _refuse_degrees(both: DataFrame, mapping: Mapping) -> None:
    """Refuse degrees in columns of metres: they would give lengths a hundred thousand times too small."""
    some = both.where(f"{REASON} IS NULL").select(TRIP).limit(_SAMPLE).toArrow()[TRIP].combine_chunks()
    if not len(some):
        return
    m = read(some.chunk(0) if isinstance(some, pa.ChunkedArray) else some)
    import numpy as np

    group = np.repeat(np.arange(len(some)), np.diff(m.rows))
    hint = f'Give lon="{mapping.x}", lat="{mapping.y}" instead; if they are metres, units="m".'
    planes.refuse_degrees(
        "trajectories", m.x, m.y, planes.speeds(m.t, m.x, m.y, group), columns=f"{mapping.x} and {mapping.y}", hint=hint
    )
