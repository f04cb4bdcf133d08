"""Times, memory and growth, printed with the machine; nothing here asserts a speed.

SLIPSTREAM_BERLINMOD_SCALES=0.05,0.2,1.0 pytest -m bench -s tests/berlinmod/test_speed.py

With SLIPSTREAM_BERLINMOD_DATA=FOLDER, data sets and their indexes are kept in FOLDER/SCALE and used again.
"""

from __future__ import annotations

import os
import shutil
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from berlinmod.in_mobilitydb import SRID, InMobilityDB, mobilitydb
from measure import machine, measured, processor_seconds
from slipstream._berlinmod import index, queries
from slipstream._berlinmod.dataset import Dataset
from slipstream._berlinmod.exchange.export import export
from slipstream._berlinmod.generator import GeneratorPlan, generate
from slipstream._berlinmod.streets import read_network
from slipstream._berlinmod.synthetic_city import synthetic_network
from slipstream._moving import sql_functions
from slipstream._moving.columns import read
from slipstream._moving.moving_point import MovingPoint, to_arrow

pytestmark = pytest.mark.bench
SCALES = [float(scale) for scale in os.environ.get("SLIPSTREAM_BERLINMOD_SCALES", "0.05").split(",")]
#: seconds after which no further OBA query is started at a scale factor
OBA_SECONDS = float(os.environ.get("SLIPSTREAM_BERLINMOD_OBA_SECONDS", "240"))
#: the largest scale factors that are also given to PyMEOS, which holds all trips in Python, and to MobilityDB
PYMEOS_MOST, MOBILITYDB_MOST = 0.05, float(os.environ.get("SLIPSTREAM_BERLINMOD_MOBILITYDB", "0.2"))
#: how often the queries run again
ROUNDS = int(os.environ.get("SLIPSTREAM_BERLINMOD_ROUNDS", "8"))
OPERATORS = {f.name: f for f in sql_functions.FUNCTIONS}


@dataclass
class Measured:
    """What one scale factor gave."""

    seconds: dict[tuple[str, int], float] = field(default_factory=dict)
    rows: dict[int, int] = field(default_factory=dict)
    candidates: dict[int, int] = field(default_factory=dict)


def timed(work):
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def candidates(spark, number):
    """How many candidates the index leaves to a TBA query, or None where it asks no index."""
    text = queries.query_text(number, "tba")
    if "K.once" in text:
        return spark.sql("SELECT count(*) FROM PiecesAtPoint WHERE once").first()[0]
    start = text.find("Candidates AS (")
    if start < 0:
        return None
    depth, place = 1, start + len("Candidates AS (")
    while depth:
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        place += 1
    return spark.sql(f"{text[:place]} SELECT count(*) FROM Candidates").first()[0]


def network():
    """BerlinMOD's own Berlin where it is at hand, else the synthetic city."""
    data = Path(os.environ.get("SLIPSTREAM_DATA", Path(__file__).parents[3] / "shared" / "data"))
    berlin = data / "berlinmod" / "streets.data"
    return ("Berlin", read_network(berlin)) if berlin.exists() else ("synthetic city", synthetic_network())


def run_all(spark, form, out, got, most=float("inf")):
    began = time.perf_counter()
    with measured() as taken:
        for number in queries.NUMBERS:
            if time.perf_counter() - began > most:
                print(f"{form} Q{number} and after: not run, {most:.0f} s are over")
                break
            answer = queries.run(spark, number, form, out)
            got.seconds[form, number] = answer.seconds
            got.rows.setdefault(number, answer.rows)
            assert answer.rows == got.rows[number], f"Q{number}: OBA and TBA differ"
            print(f"{form} Q{number:<2} {answer.seconds:8.2f} s {answer.rows:9,} rows", flush=True)
    total = sum(seconds for (which, _), seconds in got.seconds.items() if which == form)
    print(f"{form} total {total:.1f} s, peak memory of all processes {taken.gib:.1f} GiB", flush=True)


def prepared_data(spark, scale, streets, folder):
    """A data set with its index: one that was kept, or a new one."""
    kept = os.environ.get("SLIPSTREAM_BERLINMOD_DATA")
    place = Path(kept, str(scale)) if kept else folder / "data"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with measured() as taken:
            generate(spark, GeneratorPlan(scale), streets, place)
        print(f"\ngenerate {taken.seconds:.1f} s, {taken.gib:.1f} GiB", flush=True)
    data = Dataset.open(place)
    if not index.is_built(data):
        with measured() as taken:
            built = index.build(spark, data)
        print(f"index {taken.seconds:.1f} s, {taken.gib:.1f} GiB: {built}", flush=True)
    made = data.manifest
    print(f"\nscale factor {scale}: {made.vehicles:,} vehicles, {made.trips:,} trips, {made.units:,} units", flush=True)
    return data


def measure_scale(spark, scale, streets, folder):
    got = Measured()
    data = prepared_data(spark, scale, streets, folder)
    queries.prepare(spark, data)
    run_all(spark, "tba", folder / "answers", got)
    for number in queries.NUMBERS:
        if (count := candidates(spark, number)) is not None:
            got.candidates[number] = count
    run_all(spark, "oba", folder / "answers", got, OBA_SECONDS)
    if scale <= MOBILITYDB_MOST:
        beside_mobilitydb(spark, data, got, folder / "files")
    if scale <= PYMEOS_MOST:
        beside_pymeos(spark, data, got)
    return got


def beside_mobilitydb(spark, data, got, files):
    try:
        with mobilitydb() as server:
            export(spark, data, "mobilitydb", files, SRID)
            seconds, theirs = timed(lambda: InMobilityDB(server, files))
            print(f"{theirs.version()}: loaded and indexed in {seconds:.1f} s")
            total = 0.0
            for number in queries.NUMBERS:
                seconds, rows = timed(lambda number=number: theirs.ask(number))
                print_beside("MobilityDB", number, got, seconds, rows)
                total += seconds
            ours = sum(got.seconds["tba", number] for number in queries.NUMBERS)
            print(f"all slipstream {ours:8.1f} s   MobilityDB {total:8.1f} s   ratio {total / ours:6.1f}", flush=True)
            theirs.close()
    except pytest.skip.Exception as reason:  # the rest can still be measured
        print(f"beside MobilityDB: not run. {reason}", flush=True)


def print_beside(name, number, got, seconds, rows):
    ours = got.seconds["tba", number]
    print(
        f"Q{number:<2} slipstream {ours:8.2f} s {got.rows[number]:7,} rows   {name} {seconds:8.2f} s {rows:7,} rows"
        f"   ratio {seconds / ours:6.1f}",
        flush=True,
    )


def beside_pymeos(spark, data, got):
    pytest.importorskip("pymeos", reason="PyMEOS is not installed")
    from berlinmod.in_pymeos import InPyMEOS

    seconds, theirs = timed(lambda: InPyMEOS(spark, data))
    print(f"PyMEOS, one core, {len(theirs.trips):,} trips made in {seconds:.1f} s")
    for number in (3, 4, 6, 9, 10, 13, 14, 15):
        seconds, rows = timed(getattr(theirs, f"q{number}"))
        print_beside("PyMEOS", number, got, seconds, rows)


def print_growth(results):
    """Times over scale factors beside what they had to look at and to give."""
    print("\nTBA: seconds / candidates / rows at scale factors " + ", ".join(map(str, results)))
    for number in queries.NUMBERS:
        cells = [
            f"{got.seconds['tba', number]:8.2f} s {got.candidates.get(number, 0):10,} {got.rows[number]:8,}"
            for got in results.values()
        ]
        print(f"Q{number:<2} " + "  |  ".join(cells))


def warm_up(spark, folder):
    """Have the kernels compiled (once in an installation) and Spark's own code warm, as in a server that runs."""
    generate(spark, GeneratorPlan(0.0002), synthetic_network(), folder / "data")
    data = Dataset.open(folder / "data")
    queries.prepare(spark, data)
    for form in queries.REPRESENTATIONS:
        for number in queries.NUMBERS:
            queries.run(spark, number, form, folder / "answers")


def test_generate_index_and_all_queries(spark, tmp_path):
    name, streets = network()
    seconds, _ = timed(lambda: warm_up(spark, tmp_path))
    print(f"\n{machine()}; {name}; after a warm-up of {seconds:.0f} s on a handful of vehicles")
    results = {}
    for scale in SCALES:
        folder = tmp_path / str(scale)
        folder.mkdir()
        results[scale] = measure_scale(spark, scale, streets, folder)
        shutil.rmtree(folder)
    print_growth(results)


@pytest.mark.parametrize("form", queries.REPRESENTATIONS)
def test_queries_again_and_again(spark, tmp_path, form):
    """The queries of the first scale factor in rounds, as a server that runs them all day meets them."""
    name, streets = network()
    print(f"\n{machine()}; {name}; {form}")
    queries.prepare(spark, prepared_data(spark, SCALES[0], streets, tmp_path))
    taken, rows = {number: [] for number in queries.NUMBERS}, {}
    for round_ in range(ROUNDS):
        before = processor_seconds()
        for number in queries.NUMBERS:
            answer = queries.run(spark, number, form, tmp_path / "answers")
            taken[number].append(answer.seconds)
            rows[number] = answer.rows
        total = sum(seconds[-1] for seconds in taken.values())
        worked = processor_seconds() - before
        print(
            f"round {round_ + 1}: {total:.2f} s, {worked:.2f} s of processors, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    print("query: first round, median of the second half, fastest; rows")
    print(f"fastest of each together: {sum(map(min, taken.values())):.2f} s")
    for number, seconds in taken.items():
        median = statistics.median(seconds[ROUNDS // 2 :])
        print(f"Q{number:<2} {seconds[0]:7.2f} {median:7.2f} {min(seconds):7.2f} s {rows[number]:9,}")


def test_operators_beside_pymeos(spark, tmp_path):
    pymeos = pytest.importorskip("pymeos", reason="PyMEOS is not installed")
    import pymeos_cffi

    from berlinmod.in_pymeos import sequence

    pymeos.pymeos_initialize(timezone="UTC")
    generate(spark, GeneratorPlan(0.001), synthetic_network(), tmp_path / "data")
    column = Dataset.open(tmp_path / "data").table(spark, "dataMtrip").where("size(Trip.t) > 20").limit(400)
    trips = read(column.select("Trip").toArrow().column(0).combine_chunks())
    ours = [MovingPoint.from_column(trips, row) for row in range(len(trips.rows) - 1)]
    theirs = [sequence(m.t.tolist(), m.x.tolist(), m.y.tolist()) for m in ours]
    array, turned = to_arrow(ours), to_arrow(ours[1:] + ours[:1])
    pairs = list(zip(theirs, theirs[1:] + theirs[:1], strict=True))
    calls = {
        "travelled": (lambda: OPERATORS["travelled"](array), lambda: [m.length() for m in theirs]),
        "trajectory": (
            lambda: OPERATORS["trajectory"](array),
            lambda: [pymeos_cffi.tpoint_trajectory(m._inner, False) for m in theirs],
        ),
        "distance": (lambda: OPERATORS["distance"](array, turned), lambda: [a.distance(b) for a, b in pairs]),
    }
    print(f"\n{machine()}; {len(ours)} trips, {len(trips.t):,} vertices; one core each")
    for name, (mine, other) in calls.items():
        mine()  # compiled before it is timed
        fast, slow = timed(mine)[0], timed(other)[0]
        print(f"{name:12} slipstream {fast * 1e3:8.1f} ms   PyMEOS {slow * 1e3:8.1f} ms   ratio {slow / fast:6.1f}")
