"""Response times, printed with the machine; nothing here asserts a speed."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

import pytest

from slipstream.berlinmod import index, queries
from slipstream.berlinmod.city import synthetic
from slipstream.berlinmod.dataset import Dataset
from slipstream.berlinmod.generator import Plan, generate
from slipstream.moving import functions
from slipstream.moving.columns import read
from slipstream.moving.value import MovingPoint, instant, to_arrow

pytestmark = pytest.mark.bench
SCALES = [float(scale) for scale in os.environ.get("SLIPSTREAM_BERLINMOD_SCALES", "0.05").split(",")]
OPERATORS = {f.name: f for f in functions.FUNCTIONS}


def timed(work):
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


@pytest.mark.parametrize("scale", SCALES)
def test_generate_index_and_all_queries(spark, tmp_path, scale):
    print(f"\n{platform.platform()}, {os.cpu_count()} cores, scale factor {scale}")
    seconds, made = timed(lambda: generate(spark, Plan(scale), synthetic(), tmp_path / "data"))
    print(f"generate {seconds:.1f} s: {made.vehicles:,} vehicles, {made.trips:,} trips, {made.units:,} units")
    data = Dataset.open(tmp_path / "data")
    seconds, built = timed(lambda: index.build(spark, data))
    print(f"index {seconds:.1f} s: {built}")
    queries.prepare(spark, data)
    for form in ("tba", "oba"):
        answers = [queries.run(spark, number, form, tmp_path / "answers") for number in queries.NUMBERS]
        for answer in answers:
            print(f"{form} Q{answer.query:<2} {answer.seconds:8.2f} s {answer.rows:8,} rows")
        print(f"{form} total {sum(answer.seconds for answer in answers):.1f} s")


def test_operators_beside_pymeos(spark, tmp_path):
    pymeos = pytest.importorskip("pymeos", reason="PyMEOS is not installed")
    pymeos.pymeos_initialize(timezone="UTC")
    generate(spark, Plan(0.001), synthetic(), tmp_path / "data")
    column = Dataset.open(Path(tmp_path / "data")).table(spark, "dataMtrip").where("size(Trip.t) > 20").limit(400)
    trips = read(column.select("Trip").toArrow().column(0).combine_chunks())
    ours = [MovingPoint.from_column(trips, row) for row in range(len(trips.rows) - 1)]
    texts = [
        "[" + ", ".join(f"POINT({x} {y})@{instant(t)}" for t, x, y in zip(m.t.tolist(), m.x, m.y, strict=True)) + "]"
        for m in ours
    ]
    theirs = [pymeos.TGeomPointSeq(text) for text in texts]
    array, turned = to_arrow(ours), to_arrow(ours[1:] + ours[:1])
    pairs = list(zip(theirs, theirs[1:] + theirs[:1], strict=True))
    calls = {
        "travelled": (lambda: OPERATORS["travelled"](array), lambda: [m.length() for m in theirs]),
        "trajectory": (lambda: OPERATORS["trajectory"](array), lambda: [m.trajectory() for m in theirs]),
        "distance": (lambda: OPERATORS["distance"](array, turned), lambda: [a.distance(b) for a, b in pairs]),
    }
    print(f"\n{platform.platform()}, {len(ours)} trips, {len(trips.t):,} vertices; one core each")
    for name, (mine, other) in calls.items():
        mine()  # compiled before it is timed
        fast, slow = timed(mine)[0], timed(other)[0]
        print(f"{name:12} slipstream {fast * 1e3:8.1f} ms   PyMEOS {slow * 1e3:8.1f} ms   ratio {slow / fast:6.1f}")
