"""A network that cannot work is refused before it runs, with the box, the column and the way out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slipstream._errors import BadInput
from slipstream._network import TUP, Builder, NetworkStream, Order, ScalarFunction, register
from slipstream._network.algebra import Arc, Filter, Network, NetworkOutput, NetworkSource, Node
from slipstream._network.schemas import check

ORDER = Order("time")


def network(build: Callable[[NetworkStream, NetworkStream, NetworkStream], NetworkStream]) -> Network:
    net = Builder("n")
    cars = net.source("cars", time="integer", speed="float", plate="text")
    taxis = net.source("taxis", time="integer", place="text")
    firms = net.table("firms", plate="text", firm="text")
    build(cars, taxis, firms).to("out")
    return net.build()


MISTAKES: list[tuple[Callable[[NetworkStream, NetworkStream, NetworkStream], NetworkStream], str, str]] = [
    (lambda c, t, f: c.filter("sped > 3"), "box filter_1 (filter): 'sped > 3': column 'sped'", "'speed'"),
    (lambda c, t, f: c.filter("speed + 1"), "is double, not a condition", "such as speed > 90"),
    (lambda c, t, f: c.filter("speed >"), "is not an SQL expression", ""),
    (lambda c, t, f: c.filter("select 1"), "is a statement", "expression"),
    (lambda c, t, f: c.map({"x": "null"}), "is of type void", "bigint"),
    (lambda c, t, f: c.map({"x": "speed = true"}), "box map_1 (map): Spark rejects 'speed = true'", "MISMATCH"),
    (lambda c, t, f: c.map({"x": "flor(speed)"}), "(map): 'flor(speed)': the function 'flor' may not be", "'floor'"),
    (lambda c, t, f: c.filter("sum(speed) > 3"), "the function 'sum' may not be used", "Use an aggregate box"),
    (lambda c, t, f: c.union(t), "box union_1 (union): taxis has time bigint, place string", "map"),
    (lambda c, t, f: c.bsort(Order("plate")), "order column 'plate' is string", "number"),
    (lambda c, t, f: c.bsort(Order("time", -1)), "slack -1", "0 or more"),
    (lambda c, t, f: c.bsort(Order(TUP)), "in the order of Tup#", "column"),
    (lambda c, t, f: c.aggregate({"n": "count(*)"}, Order("time", 0, ("plat",)), size=1), "column 'plat'", "'plate'"),
    (lambda c, t, f: c.aggregate({"n": "mode(speed)"}, ORDER, size=1), "window function 'mode'", "count"),
    (lambda c, t, f: c.aggregate({"n": "avg(plate)"}, ORDER, size=1), "'avg(plate)': the argument is string", "bigint"),
    (lambda c, t, f: c.aggregate({"n": "1 + 1"}, ORDER, size=1), "not a window function call", "avg"),
    (lambda c, t, f: c.aggregate({"time": "count(*)"}, ORDER, size=1), "column 'time' already exists", "Rename"),
    (lambda c, t, f: c.aggregate({"n": "count(*)"}, ORDER, size=0), "must be above 0", "Fix"),
    (lambda c, t, f: c.aggregate({"n": "count(*)"}, ORDER, size=1.5), "is not an integer", "integers"),
    (lambda c, t, f: c.join(t, "time > 1", size=1, left=ORDER, right=ORDER), "'time' is ambiguous", "left.time"),
    (lambda c, t, f: c.join(t, "left.time = right.tim", size=1, left=ORDER, right=ORDER), "column 'tim'", "'time'"),
    (lambda c, t, f: c.join(t, "left.time = right.time"), "needs size, left and right", "order"),
    (lambda c, t, f: c.join(f, "left.plate = right.plate", size=1), "a stored table has no window", "Remove"),
    (
        lambda c, t, f: c.join(t, "1 = 1", size=1, left=Order("time", 0, ("plate",)), right=ORDER),
        "could never discard a tuple",
        "group_by",
    ),
    (lambda c, t, f: f.filter("true"), "firms is a stored table", "joined"),
    (lambda c, t, f: c.filter("true")[2], "filter_1 has no output 2", "0 to 1"),
    (
        lambda c, t, f: c.resample(t, {"n": "count(*)"}, size=1, left=Order("time", 0, ("plate",)), right=ORDER),
        "left order cannot have group_by",
        "column",
    ),
    (lambda c, t, f: c.latest(t, "plat"), "box latest_1 (latest): column 'plat'", "'plate'"),
    (lambda c, t, f: c.latest(t.map({"time": "place"}), "time"), "bigint on the left and string on the right", "map"),
    (lambda c, t, f: c.latest(f, "plate"), "firms is a stored table", "joined"),
    (lambda c, t, f: c.running({"m": "stddev(speed)"}), "would have to keep all of them", "avg"),
    (lambda c, t, f: c.running({"m": "max(plate)"}), "column m: it is string", "number"),
    (lambda c, t, f: c.running({"speed": "max(speed)"}), "column 'speed' already exists", "Rename"),
    (lambda c, t, f: c.running({"n": "count(*)"}, "plat"), "group_by column 'plat'", "'plate'"),
    (
        lambda c, t, f: c.join(t, "left.time = right.time", size=1, left=ORDER, right=ORDER, outer=True),
        "outer requires a stored table",
        "latest",
    ),
    (
        lambda c, t, f: c.aggregate({"n": "count(*)"}, Order("speed"), size=1, clock=t),
        "the clock's column 'speed' does not exist",
        "time",
    ),
    (
        lambda c, t, f: c.aggregate({"n": "count(*)"}, Order(TUP), size=1, clock=t),
        "a clock cannot be used with Tup# or a timeout",
        "Remove",
    ),
    (
        lambda c, t, f: c.aggregate({"n": "count(*)"}, Order("speed"), size=1, clock=t.map({"speed": "time"})),
        "'speed' is double in the input and bigint in the clock",
        "map",
    ),
    (lambda c, t, f: c.map({"x": "fare_of(time)"}), "fare_of reads the stored table 'fares'", "firms"),
]
register(ScalarFunction("fare_of", lambda time, fares: time, "integer", tables=("fares",)))


@pytest.mark.parametrize(("build", "complaint", "hint"), MISTAKES, ids=[m[1][:30] for m in MISTAKES])
def test_a_mistake_is_refused(spark, build: Callable[..., NetworkStream], complaint: str, hint: str) -> None:
    with pytest.raises(BadInput) as error:
        check(network(build), spark)
    assert complaint in error.value.message
    assert hint in error.value.hint


def test_a_loop_is_refused_with_its_boxes() -> None:
    nodes = tuple(Node(a, Filter(("true",)), (Arc(b),)) for a, b in (("p", "q"), ("q", "r"), ("r", "p")))
    looped = Network("n", (NetworkSource("s", {"a": "integer"}),), nodes, (NetworkOutput("o", Arc("p")),))
    with pytest.raises(BadInput, match=r"boxes in a loop: .*p.*"):
        check(looped, None)


def test_schemas_are_inferred_through_every_box(spark) -> None:
    checked = check(
        network(
            lambda c, t, f: (
                c.join(f, "left.plate = right.plate", name="owned")
                .map({"time": "time", "fast": "speed > 50", "firm": "firm"}, name="shown")
                .aggregate(
                    {"n": "count(*)", "rushed": "bool_or(fast)"}, Order("time", 1, ("firm",)), size=60, name="minutes"
                )
            )
        ),
        spark,
    )
    assert checked.schemas[Arc("owned")] == {
        "time": "integer", "speed": "float", "plate": "text", "right_plate": "text", "firm": "text"
    }  # fmt: skip
    assert checked.schemas[Arc("minutes")] == {"firm": "text", "time": "integer", "n": "integer", "rushed": "boolean"}
    assert checked.warnings == ["taxis: its output is not used"]
