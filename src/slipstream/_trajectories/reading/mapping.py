"""Which columns of a table are a position, and how each is read; with Spark expressions, so that no row leaves the JVM.

A value that cannot be used is not an error of the table: its row gets a reason, and is a reject in the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from slipstream._errors import BadArgument
from slipstream._moving.exchange.trip_files import PLACES
from slipstream._moving.space.plane import Plane
from slipstream._moving.space.systems import WGS84, System
from slipstream._trajectories.cutting import trip_rules
from slipstream._trajectories.cutting.assembling import GIVEN, NUMBER, REASON, TIME, TRIP, X, Y
from slipstream._trajectories.cutting.travelling_values import Values, parse_values, read_value

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

#: units of times that are numbers, and how many make a second
UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
#: names that a column to keep cannot have
_TAKEN = {name.lower() for name in ("id", NUMBER, TRIP, REASON, TIME, X, Y, GIVEN)}
#: a zone or an offset at the end of a time as text
_ZONED = r"(?i)([zZ]|[+-]\d{1,2}(:?\d{2}){0,2}|[a-z]+/[a-z_/+-]+|\b(utc|gmt)\b.*)\s*$"


@dataclass(frozen=True)
class Mapping:
    """The columns of a table that are positions."""

    id: str = "id"
    time: str = "time"
    x: str = ""  # the longitude, or the coordinate to the east; found by its name unless it is given
    y: str = ""
    keep: tuple[str, ...] = ()
    values: Values = ()  # columns that become values over time
    crs: str = WGS84  # of the coordinates; empty for metres in a plane without a name
    time_unit: str = ""  # of times that are numbers
    time_format: str = ""  # of times that are text, as Spark's patterns
    time_zone: str = "UTC"  # of times without one

    def __post_init__(self) -> None:
        if self.time_unit not in ("", *UNITS):
            raise BadArgument(
                f"time_unit {self.time_unit!r} is unknown.",
                hint=f"Use {', '.join(UNITS)}.",
                code="unknown-value",
                found=self.time_unit,
                expected=[*UNITS],
            )
        _check_zone(self.time_zone)
        named = [*self.keep, *(name for name, _ in self.values)]
        if taken := [name for name in named if name.lower() in _TAKEN or named.count(name) > 1]:
            raise BadArgument(
                f"{taken[0]}: trips have a column of that name already.",
                hint="Rename it in the table, and name it once, in keep or in values.",
                code="duplicate-name",
                found=taken[0],
            )

    @property
    def system(self) -> System | None:
        """The reference system of the coordinates; None for metres in a plane without a name."""
        return System.parse(self.crs) if self.crs else None

    @property
    def in_degrees(self) -> bool:
        """Whether coordinates are longitudes and latitudes."""
        return self.system is not None and self.system.is_geographic

    @property
    def travelling(self) -> tuple[str, ...]:
        """The names of the columns that become values over time."""
        return tuple(name for name, _ in self.values)

    def find(self, columns: Sequence[str], where: str) -> Mapping:
        """Return the mapping with all columns named; refuse those that the table does not have."""
        found = self if self.x else self._guess(columns, where)
        names = (found.id, found.time, found.x, found.y, *found.keep, *found.travelling)
        if missing := [name for name in names if name not in columns]:
            raise BadArgument(
                f"{where}: no column {', '.join(map(repr, missing))}.",
                hint=f"It has: {', '.join(columns)}. Say which is which: id=, time=, lon=, lat=.",
                code="unknown-column",
                found=missing[0],
                expected=[*columns],
            )
        return found

    def _guess(self, columns: Sequence[str], where: str) -> Mapping:
        x, y = find_place(columns, where, PLACES[1:] if self.in_degrees else PLACES[:1])
        return replace(self, x=x, y=y)


def find_place(columns: Sequence[str], where: str, candidates: Sequence[tuple[str, str]] = PLACES) -> tuple[str, str]:
    """Return the columns that are the place, by their names.

    >>> find_place(["id", "lat", "lon"], "gps.csv")
    ('lon', 'lat')
    """
    pair = next((pair for pair in candidates if set(pair) <= set(columns)), None)
    if pair is None:
        raise BadArgument(
            f"{where}: no columns for the place were found.",
            hint=f"Give lon= and lat=, or x= and y= with crs=, of: {', '.join(columns)}.",
            code="unknown-column",
            expected=[*columns],
        )
    return pair


def make_mapping(
    *,
    id: str,
    time: str,
    lon: str,
    lat: str,
    x: str,
    y: str,
    crs: str | int | Plane | None,
    keep: Sequence[str],
    values: Sequence[str] | dict[str, str],
    unit: str,
    form: str,
    zone: str,
) -> Mapping:
    """Return which columns are a position; refuse names that exclude or require each other."""
    if bool(lon) != bool(lat) or bool(x) != bool(y) or (lon and x):
        raise BadArgument(
            "lon and lat, or x and y: give both of a pair, and only one pair.",
            hint='For example lon="longitude", lat="latitude".',
            code="conflicting-options",
        )
    if isinstance(keep, str):
        keep = [keep]
    system = System.parse(crs) if crs is not None else None if x else System.parse(WGS84)
    if lon and system is not None and not system.is_geographic:
        raise BadArgument(
            f"crs {system}: is not in degrees, but lon and lat are given.",
            hint="Give x= and y= for coordinates in that system.",
            code="conflicting-options",
        )
    name = system.name if system else ""
    return Mapping(id, time, lon or x, lat or y, tuple(keep), parse_values(values), name, unit, form, zone)


def _check_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        raise BadArgument(
            f"time_zone {name!r}: not a time zone.",
            hint="For example UTC or Europe/Berlin.",
            code="unknown-value",
            found=name,
        ) from error


def read_positions(frame: DataFrame, mapping: Mapping) -> DataFrame:
    """Return the positions of a table: id, time, x, y, columns to keep, values, and why a row cannot be used.

    A row that cannot be used has its original values, as text, in ``given``.
    """
    from pyspark.sql import functions as sf

    kinds = {field.name: field.dataType for field in frame.schema}
    raw = {name: _column(name) for name in (mapping.id, mapping.time, mapping.x, mapping.y)}
    id_ = _read_id(raw[mapping.id], kinds[mapping.id])
    time = _read_time(raw[mapping.time], kinds[mapping.time], mapping)
    x, y = (_read_number(raw[name], kinds[name]) for name in (mapping.x, mapping.y))
    texts = [_text(raw[name]) for name in (mapping.time, mapping.x, mapping.y)]
    columns = [id_.alias("id"), time.alias(TIME), x.alias(X), y.alias(Y), *map(_column, mapping.keep)]
    columns += [read_value(_column(name), name, kinds[name], kind).alias(name) for name, kind in mapping.values]
    given = sf.concat_ws(", ", *(sf.coalesce(text, sf.lit("")) for text in texts))
    reason = _reason(mapping)
    return (
        frame.select(*columns, *(text.alias(f"_{number}") for number, text in enumerate(texts)), given.alias(GIVEN))
        .withColumn(REASON, reason)
        .withColumn(GIVEN, sf.when(sf.col(REASON).isNotNull(), sf.col(GIVEN)))
        .drop("_0", "_1", "_2")
    )


def _column(name: str) -> Column:
    from pyspark.sql import functions as sf

    return sf.col("`" + name.replace("`", "``") + "`")


def _text(column: Column) -> Column:
    """A value as text; null if it is blank."""
    from pyspark.sql import functions as sf

    text = sf.trim(column.cast("string"))
    return sf.when(text != "", text)


def _read_id(column: Column, kind: DataType) -> Column:
    """An id keeps its type if it is a whole number, and is text otherwise."""
    whole = kind.simpleString() in ("tinyint", "smallint", "int", "bigint")
    return column if whole else _text(column)


def _read_number(column: Column, kind: DataType) -> Column:
    return _text(column).try_cast("double") if kind.simpleString() == "string" else column.cast("double")


def _read_time(column: Column, kind: DataType, mapping: Mapping) -> Column:
    """An instant; null if it cannot be read. Times without a zone are those of ``time_zone``."""

    name = kind.simpleString()
    if name == "timestamp":
        return column
    if name == "timestamp_ntz":
        return _in_zone(column, mapping.time_zone)
    if name == "string" and not mapping.time_unit:
        return _read_time_text(_text(column), mapping)
    if name in ("string", "int", "bigint", "float", "double") or name.startswith("decimal"):
        return _read_time_number(column, name, mapping)
    raise BadArgument(
        f"column {mapping.time!r}: a {name} is not a time.",
        hint="Use a timestamp, text in ISO 8601, or a number with time_unit=.",
        code="bad-type",
        found=name,
    )


def _read_time_number(column: Column, kind: str, mapping: Mapping) -> Column:
    from pyspark.sql import functions as sf

    if not mapping.time_unit:
        raise BadArgument(
            f"column {mapping.time!r}: the unit of its numbers is unknown.",
            hint='Give time_unit="s" for seconds since 1970, or "ms", "us", "ns".',
            code="missing-value",
        )
    # decimals: a double has no microseconds left beyond 2^53
    exact = (_text(column) if kind == "string" else column).try_cast("decimal(38,9)")
    micros = sf.floor(exact * sf.lit(1_000_000) / sf.lit(UNITS[mapping.time_unit]))
    in_range = sf.abs(micros) < sf.lit(250_000_000_000_000_000)
    return sf.timestamp_micros(sf.when(in_range, micros).cast("bigint"))


def _read_time_text(text: Column, mapping: Mapping) -> Column:
    from pyspark.sql import functions as sf

    if mapping.time_format:
        return _in_zone(sf.try_to_timestamp(text, sf.lit(mapping.time_format)).cast("timestamp_ntz"), mapping.time_zone)
    return sf.when(text.rlike(_ZONED) & text.contains(":"), text.try_cast("timestamp")).otherwise(
        _in_zone(text.try_cast("timestamp_ntz"), mapping.time_zone)
    )


def _in_zone(clock: Column, zone: str) -> Column:
    """The instant at which a clock in a zone shows a time; whatever the session's zone is."""
    from pyspark.sql import functions as sf

    midnight = sf.lit("1970-01-01").cast("timestamp_ntz")
    micros = sf.timestamp_diff("MICROSECOND", midnight, clock)
    return sf.to_utc_timestamp(sf.timestamp_micros(micros), zone)


def _reason(mapping: Mapping) -> Column:
    """Why a row cannot be used: the first reason that holds."""
    from pyspark.sql import functions as sf

    time, x, y = (sf.col(f"_{number}") for number in range(3))
    no_place, places = x.isNull() | y.isNull(), (sf.col(X), sf.col(Y))
    finite = reduce(lambda a, b: a & b, (sf.abs(place) < sf.lit(float("inf")) for place in places))
    checks = [
        (trip_rules.NO_ID, sf.col("id").isNull()),
        (trip_rules.NO_TIME, time.isNull()),
        (trip_rules.BAD_TIME, sf.col(TIME).isNull()),
        (trip_rules.NO_PLACE, no_place),
        (trip_rules.BAD_PLACE, sf.col(X).isNull() | sf.col(Y).isNull()),
        (trip_rules.NOT_FINITE, ~finite | sf.isnan(X) | sf.isnan(Y)),
    ]
    if mapping.in_degrees:
        on_globe = (sf.abs(sf.col(X)) <= 180) & (sf.abs(sf.col(Y)) <= 90)
        checks.append((trip_rules.OFF_GLOBE, ~on_globe))
    first, *others = checks
    reason = sf.when(first[1], first[0])
    for name, holds in others:
        reason = reason.when(holds, name)
    return reason
