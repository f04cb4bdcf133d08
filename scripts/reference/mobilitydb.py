"""MobilityDB's functions with ours beside them: what is called what, for readers who know the one."""

from __future__ import annotations

from typing import NamedTuple

from reference.tables import WRITTEN, table

#: the columns that the expressions use, and what each is
COLUMNS = {
    "Trip": "mpoint",
    "Other": "mpoint",
    "Place": "point",
    "Zone": "region",
    "Noon": "timestamp",
    "Early": "periods",
    "Late": "periods",
    "Box": "stbox",
    "Near": "stbox",
    "Speed": "tfloat",
    "Count": "tint",
    "Busy": "tbool",
    "Open": "tbool",
    "State": "ttext",
}


class Equivalent(NamedTuple):
    """A function of MobilityDB, and what does the same here."""

    theirs: str
    ours: str  # Spark SQL over ``COLUMNS``, or Python if it begins with ``ss.`` or ``sf.``
    note: str = ""


class Subject(NamedTuple):
    """Functions of one subject, as the chapters of MobilityDB's reference divide them."""

    title: str
    functions: tuple[Equivalent, ...]


_E = Equivalent
_UNION = "united(concat(arrays_zip(Early.begin, Early.end), arrays_zip(Late.begin, Late.end)))"
_SPANS = "arrays_zip(Early.begin, Early.end)"
_X = "named_struct('t', Trip.t, 'value', Trip.{}, 'starts', Trip.starts, 'interpolation', 'linear')"
_END = "element_at({}.end, -1)"
_OVERLAP = (
    "Box.xmin <= Near.xmax AND Near.xmin <= Box.xmax AND Box.ymin <= Near.ymax AND Near.ymin <= Box.ymax "
    "AND Box.tmin <= Near.tmax AND Near.tmin <= Box.tmax"
)
_INSIDE = (
    "{0}.xmin <= {1}.xmin AND {1}.xmax <= {0}.xmax AND {0}.ymin <= {1}.ymin AND {1}.ymax <= {0}.ymax "
    "AND {0}.tmin <= {1}.tmin AND {1}.tmax <= {0}.tmax"
)
_EDGES = "{0}(Box.xmin, Near.xmin), {0}(Box.ymin, Near.ymin), {1}(Box.xmax, Near.xmax), {1}(Box.ymax, Near.ymax)"
_TIMES = "{0}(Box.tmin, Near.tmin), {1}(Box.tmax, Near.tmax)"

SUBJECTS = (
    Subject(
        "Input and output",
        (
            _E("asText", "ss.MovingPoint.to_wkt"),
            _E("asMFJSON", "ss.MovingPoint.to_mfjson"),
            _E("tgeompointFromText", "ss.MovingPoint.from_wkt"),
            _E("tgeompointFromEWKT", "ss.MovingPoint.from_wkt", "the SRID is skipped; name a plane for degrees"),
            _E("tgeompointFromMFJSON", "ss.MovingPoint.from_mfjson"),
        ),
    ),
    Subject(
        "Constructors and casts",
        (
            _E("span", "periods(Noon, Noon)"),
            _E("spanset", f"united({_SPANS})"),
            _E("tfloatSeq", "tfloat(array(Noon), array(1.5D), 'linear')"),
            _E("tintSeq", "tint(array(Noon), array(1L), 'step')"),
            _E("tboolSeq", "tbool(array(Noon), array(true), 'step')"),
            _E("ttextSeq", "ttext(array(Noon), array('free'), 'step')"),
            _E("tgeompointSeqSet", "ss.MovingPoint.of"),
            _E("stboxX", "box(0, 0, 9, 9, NULL, NULL)"),
            _E("stboxT", "box(NULL, NULL, NULL, NULL, Noon, Noon)"),
            _E("stboxXT", "box(0, 0, 9, 9, Noon, Noon)"),
            _E("stbox(tgeompoint)", "extent(Trip)"),
            _E("tfloat(tint)", "to_tfloat(Count)"),
            _E("tint(tfloat)", "to_tint(Speed)", "step functions only"),
            _E("tint(tbool)", "to_tint(Busy)"),
            _E("geometry(tgeompoint)", "trajectory(Trip)"),
        ),
    ),
    Subject(
        "Time spans and sets of them",
        (
            _E("lower", "Early.begin[0]"),
            _E("upper", _END.format("Early")),
            _E("duration(tstzspanset)", "duration(Early)", "seconds"),
            _E("numSpans", "size(Early.begin)"),
            _E("spans", _SPANS),
            _E("startSpan", f"{_SPANS}[0]"),
            _E("endSpan", f"element_at({_SPANS}, -1)"),
            _E("spanN", f"element_at({_SPANS}, 1)"),
            _E("startTimestamp(tstzspanset)", "Early.begin[0]"),
            _E("endTimestamp(tstzspanset)", _END.format("Early")),
            _E("span(tstzspanset)", f"periods(Early.begin[0], {_END.format('Early')})"),
            _E("+ (union)", _UNION),
            _E("- (difference)", "periods_without(Early, Late)"),
            _E("* (intersection)", "common_periods(Early, Late)"),
            _E("&& (overlaps)", "NOT isempty(common_periods(Early, Late))"),
            _E("@> (contains)", "isempty(periods_without(Late, Early))"),
            _E("<@ (is contained in)", "isempty(periods_without(Early, Late))"),
            _E("<<# (before)", f"{_END.format('Early')} < Late.begin[0]"),
            _E("#>> (after)", f"Early.begin[0] > {_END.format('Late')}"),
            _E("&<# (not after)", f"{_END.format('Early')} <= {_END.format('Late')}"),
            _E("#&> (not before)", "Early.begin[0] >= Late.begin[0]"),
        ),
    ),
    Subject(
        "Boxes",
        (
            _E("hasX", "Box.xmin IS NOT NULL"),
            _E("hasT", "Box.tmin IS NOT NULL"),
            *(_E(name, f"Box.{name.lower()}") for name in ("Xmin", "Ymin", "Tmin", "Xmax", "Ymax", "Tmax")),
            _E("getSpace", "box(Box.xmin, Box.ymin, Box.xmax, Box.ymax, NULL, NULL)"),
            _E("expandSpace", "box(Box.xmin - 5, Box.ymin - 5, Box.xmax + 5, Box.ymax + 5, Box.tmin, Box.tmax)"),
            _E(
                "expandTime",
                "box(Box.xmin, Box.ymin, Box.xmax, Box.ymax, "
                "Box.tmin - INTERVAL '5' MINUTE, Box.tmax + INTERVAL '5' MINUTE)",
            ),
            _E(
                "+ (union of boxes)", f"box({_EDGES.format('least', 'greatest')}, {_TIMES.format('least', 'greatest')})"
            ),
            _E(
                "* (intersection of boxes)",
                f"box({_EDGES.format('greatest', 'least')}, {_TIMES.format('greatest', 'least')})",
            ),
            _E("&& (boxes overlap)", _OVERLAP),
            _E("@> (box contains)", _INSIDE.format("Box", "Near")),
            _E("<@ (box is contained in)", _INSIDE.format("Near", "Box")),
            _E("<< (left)", "Box.xmax < Near.xmin"),
            _E(">> (right)", "Box.xmin > Near.xmax"),
            _E("&< (not right)", "Box.xmax <= Near.xmax"),
            _E("&> (not left)", "Box.xmin >= Near.xmin"),
            _E("<<| (below)", "Box.ymax < Near.ymin"),
            _E("|>> (above)", "Box.ymin > Near.ymax"),
            _E("&<| (not above)", "Box.ymax <= Near.ymax"),
            _E("|&> (not below)", "Box.ymin >= Near.ymin"),
            _E("<<# (box before)", "Box.tmax < Near.tmin"),
            _E("#>> (box after)", "Box.tmin > Near.tmax"),
            _E("&<# (box not after)", "Box.tmax <= Near.tmax"),
            _E("#&> (box not before)", "Box.tmin >= Near.tmin"),
            _E("extent(stbox)", "sf.extent_all", "an aggregate, of moving points"),
        ),
    ),
    Subject(
        "Accessors",
        (
            _E("interp", "Speed.interpolation"),
            _E("getTime", "deftime(Trip)"),
            _E("getValues", "array_distinct(Speed.value)"),
            _E("valueSpan", "array(min_value(Speed), max_value(Speed))"),
            _E("timeSpan", "periods(Trip.t[0], element_at(Trip.t, -1))"),
            _E("startValue", "Speed.value[0]"),
            _E("endValue", "element_at(Speed.value, -1)"),
            _E("valueN", "element_at(Speed.value, 1)"),
            _E("minValue", "min_value(Speed)"),
            _E("maxValue", "max_value(Speed)"),
            _E("minInstant", "min_instant(Speed)"),
            _E("maxInstant", "max_instant(Speed)"),
            _E("valueAtTimestamp", "atinstant(Trip, Noon)", "`atinstant_tfloat` and so on for values over time"),
            _E("duration", "duration(Trip)", "seconds"),
            _E("numInstants", "size(Trip.t)"),
            _E("startInstant", "initial(Trip)"),
            _E("endInstant", "final(Trip)"),
            _E("instantN", "element_at(arrays_zip(Trip.t, Trip.x, Trip.y), 1)"),
            _E("instants", "arrays_zip(Trip.t, Trip.x, Trip.y)"),
            _E("numTimestamps", "size(array_distinct(Trip.t))"),
            _E("startTimestamp", "inst(initial(Trip))"),
            _E("endTimestamp", "inst(final(Trip))"),
            _E("timestampN", "element_at(Trip.t, 1)"),
            _E("timestamps", "array_distinct(Trip.t)"),
            _E("numSequences", "size(Trip.starts)"),
            _E("startSequence", "sequences(Trip)[0]"),
            _E("endSequence", "element_at(sequences(Trip), -1)"),
            _E("sequenceN", "element_at(sequences(Trip), 1)"),
            _E("sequences", "sequences(Trip)"),
            _E("integral", "integral(Speed)", "times seconds; MobilityDB: times microseconds"),
            _E("twAvg", "twavg(Speed)"),
        ),
    ),
    Subject(
        "Transformations and modifications",
        (
            _E("shiftTime", "shift(Trip, 60)", "seconds"),
            _E("stops", "atperiods(Trip, stops(Trip, 20, 300))"),
            _E("appendInstant", "append(Trip, initial(Other))"),
            _E("appendSequence", "merge(Trip, Other)"),
            _E("merge", "merge(Trip, Other)", "where both are defined, the first counts"),
            _E("insert", "merge(Trip, Other)", "inserts what the first does not define"),
            _E("update", "merge(Other, Trip)"),
            _E("deleteTime", "minusperiods(Trip, Early)", "leaves a gap"),
        ),
    ),
    Subject(
        "Restriction",
        (
            _E("atValues(tgeompoint)", "at(Trip, Place)"),
            _E("minusValues(tgeompoint)", "minus(Trip, Place)"),
            _E("atValues", "at_tfloat(Speed, 5)"),
            _E("minusValues", "minus_tfloat(Speed, 5)"),
            _E("atValues(floatspan)", "at_between(Speed, 3, 5)"),
            _E("minusValues(floatspan)", "minus_between(Speed, 3, 5)"),
            _E("atMin", "at_tfloat(Speed, min_value(Speed))"),
            _E("minusMin", "minus_tfloat(Speed, min_value(Speed))"),
            _E("atMax", "at_tfloat(Speed, max_value(Speed))"),
            _E("minusMax", "minus_tfloat(Speed, max_value(Speed))"),
            _E("atGeometry", "at(Trip, Zone)"),
            _E("minusGeometry", "minus(Trip, Zone)"),
            _E("atTime", "atperiods(Trip, Early)"),
            _E("minusTime", "minusperiods(Trip, Early)"),
            _E("atStbox", "atbox(Trip, Box)"),
            _E("minusStbox", "minusbox(Trip, Box)"),
            _E("atTbox", "at_between(atperiods_tfloat(Speed, Early), 3, 5)"),
        ),
    ),
    Subject(
        "Comparison",
        (
            _E("=", "Trip = Other"),
            _E("<>", "Trip <> Other"),
            *(
                _E(f"{sign}{name.capitalize()}", f"{whole}(t{name}(Speed, 5))")
                for name in ("eq", "ne", "lt", "le", "gt", "ge")
                for sign, whole in (("ever", "sometimes"), ("always", "always"))
            ),
            *(_E(f"t{name.capitalize()}", f"t{name}(Speed, 5)") for name in ("eq", "ne", "lt", "le", "gt", "ge")),
        ),
    ),
    Subject(
        "Numbers and truths",
        (
            _E("tAdd", "tadd(Speed, Speed)"),
            _E("tSub", "tsub(Speed, Speed)"),
            _E("tMult", "tmul(Speed, 2)", "by a number"),
            _E("tDiv", "tdiv(Speed, 2)", "by a number"),
            _E("degrees", "tmul(Speed, degrees(1))"),
            _E("radians", "tmul(Speed, radians(1))"),
            _E("derivative", "derivative(Speed)"),
            _E("& (and)", "tand(Busy, Open)"),
            _E("| (or)", "tor(Busy, Open)"),
            _E("~ (not)", "tnot(Busy)"),
            _E("whenTrue", "when_true(Busy)"),
        ),
    ),
    Subject(
        "Places and movement",
        (
            _E("trajectory", "trajectory(Trip)"),
            _E("getX", _X.format("x")),
            _E("getY", _X.format("y")),
            _E("length", "travelled(Trip)"),
            _E("cumulativeLength", "cumulative_length(Trip)"),
            _E("speed", "speed(Trip)"),
            _E("twCentroid", "twcentroid(Trip)"),
            _E("azimuth", "tmul(direction(Trip), radians(1))"),
            _E("round(tgeompoint)", "snap(Trip, 0.01)", "multiples of a number, not decimal places"),
        ),
    ),
    Subject(
        "Distances",
        (
            _E("nearestApproachDistance", "nearest_approach_distance(Trip, Other)"),
            _E("|=|", "nearest_approach_distance(Trip, Other)"),
            _E("nearestApproachInstant", "atinstant(Trip, nearest_approach_instant(Trip, Other))"),
            _E("shortestLine", "shortest_line(Trip, Other)"),
            _E(
                "tDistance",
                "distance(Trip, Other)",
                "exact between vertices; `to_tfloat` makes lines of it",
            ),
            _E("<->", "distance(Trip, Other)"),
        ),
    ),
    Subject(
        "Spatial relationships",
        (
            _E("eContains", "passes(Trip, Zone)", "regions have their borders"),
            _E("eIntersects", "passes(Trip, Zone)"),
            _E("aIntersects", "isempty(minus(Trip, Zone))"),
            _E("aContains", "isempty(minus(Trip, Zone))"),
            _E("eDisjoint", "NOT isempty(minus(Trip, Zone))"),
            _E("aDisjoint", "NOT passes(Trip, Zone)"),
            _E("eDwithin", "dwithin(Trip, Other, 30)"),
            _E("aDwithin", "always_dwithin(Trip, Other, 30)"),
            _E("tDwithin", "when_dwithin(Trip, Other, 30)", "periods"),
            _E("tContains", "deftime(at(Trip, Zone))", "periods"),
            _E("tIntersects", "deftime(at(Trip, Zone))", "periods"),
            _E("tDisjoint", "deftime(minus(Trip, Zone))", "periods"),
        ),
    ),
    Subject(
        "Analytics",
        (
            _E("douglasPeuckerSimplify", "simplify(Trip, 5)"),
            _E("douglasPeuckerSimplify(syncDist)", "simplify_in_time(Trip, 5)"),
            _E("tSample", "resample(Trip, 60)", "begins at each sequence's begin, and keeps its end"),
            _E("hausdorffDistance", "hausdorff(Trip, Other)"),
            _E("frechetDistance", "frechet(Trip, Other)"),
            _E("dynamicTimeWarp", "dtw(Trip, Other)"),
            _E("timeSplit", "split_by_time(Trip, 3600)"),
            _E("spaceSplit", "split_by_space(Trip, 500)"),
            _E("spaceBoxes", "tiles(Trip, 500)", "visits to the tiles of a grid, with their times"),
            _E("timeBucket", "timestamp_micros(unix_micros(Noon) DIV 3600000000 * 3600000000)"),
            _E("tCount", "sf.tcount"),
            _E("extent", "sf.extent_all"),
        ),
    ),
)


def page() -> str:
    """The page."""
    total = sum(len(subject.functions) for subject in SUBJECTS)
    columns = ", ".join(f"`{name}` ({kind})" for name, kind in COLUMNS.items())
    return "\n".join(
        (
            "# MobilityDB's functions\n\n" + WRITTEN,
            f"{total} functions of MobilityDB and what does the same here, for those who know MobilityDB. "
            "Its names are those of the reference in [its manual](https://mobilitydb.github.io/MobilityDB/master/). "
            "The tests check that every expression can be planned, and run some of them beside PyMEOS.\n",
            f"Expressions are Spark SQL over these columns: {columns}. Those that begin with `ss.` or `sf.` are "
            "Python: `import slipstream as ss`, `import slipstream.functions as sf`.\n",
            "MobilityDB has bounds that are open; here time is a whole number of microseconds, so what lasts *until* "
            "an instant ends one microsecond before it. Distances are metres, durations seconds.\n",
            *(part for subject in SUBJECTS for part in _section(subject)),
        )
    )


def _section(subject: Subject) -> tuple[str, str]:
    rows = [(_code(one.theirs), _code(one.ours), one.note) for one in subject.functions]
    return f"## {subject.title}\n", table(("MobilityDB", "here", ""), rows)


def _code(text: str) -> str:
    return f"`{text}`"
