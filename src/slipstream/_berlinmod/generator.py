"""BerlinMOD's generator on Spark: vehicles, their days, their trips, and the query samples.

Everything random about a vehicle is a function of (seed, vehicle), so the data do not depend on how Spark partitions
the vehicles. One shortest-path tree from home serves all trips from home, and those to it where no street is one-way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._berlinmod import drive
from slipstream._berlinmod.dataset import (
    MCAR,
    SAMPLE,
    SCAR,
    SCAR_SQL,
    DatasetManifest,
    finish,
    trips_from_histories,
    write_histories,
)
from slipstream._errors import BadArgument
from slipstream._moving import register, types
from slipstream._moving.columns import MPoints, Periods, Points, write
from slipstream._moving.kernels.places import polygons
from slipstream._moving.moving_point import micros
from slipstream._roads import paths
from slipstream._roads.street_network import StreetNetwork
from slipstream._tools.files.staging import staged_folder
from slipstream._tools.numba_tools import Floats, Ints, Longs, mix

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2007, 5, 28, tzinfo=UTC)
MODELS = (
    *("Mercedes-Benz", "Volkswagen", "Maybach", "Porsche", "Opel", "BMW"),
    *("Audi", "Acabion", "Borgward", "Wartburg", "Sachsenring", "Multicar"),
)
HOUR = 3_600_000_000
DAY = 24 * HOUR
NEIGHBOURHOOD = 3000.0
#: how many vehicles' histories go to Spark in one record batch
HISTORIES_PER_BATCH = 8


@dataclass(frozen=True)
class GeneratorPlan:
    """What to generate."""

    scale: float = 0.05
    seed: int = 0
    disturb: bool = False
    #: chances of one and of two destinations of an additional trip; 50/25/25 in the paper, 80/10/10 in its script
    one: float = 0.5
    two: float = 0.25

    def __post_init__(self) -> None:
        if not 0.0 < self.scale <= 100.0:
            raise BadArgument(
                f"--scale {self.scale} is not in (0, 100].",
                hint="Scale 1.0 is 2,000 vehicles for 28 days.",
                code="out-of-range",
                found=self.scale,
            )

    @property
    def vehicles(self) -> int:
        """round(2000 sqrt(scale)), at least one."""
        return max(1, round(2000 * math.sqrt(self.scale)))

    @property
    def days(self) -> int:
        """round(28 sqrt(scale)), at least one."""
        return max(1, round(28 * math.sqrt(self.scale)))


class Weights(NamedTuple):
    """Cumulative probabilities of every node to be a home and to be a workplace."""

    home: Floats
    work: Floats


def uniform_weights(network: StreetNetwork) -> Weights:
    """Return equal probabilities for all nodes."""
    steps = np.arange(1, network.nodes + 1) / network.nodes
    return Weights(steps, steps)


def cumulate_by_region(network: StreetNetwork, regions: list[tuple[float, list[list[tuple[float, float]]]]]) -> Floats:
    """Return cumulative probabilities from weighted regions; the first region that contains a node counts (6.3)."""
    import shapely

    places = shapely.points(network.x, network.y)
    taken = np.zeros(network.nodes, dtype=bool)
    chance = np.zeros(network.nodes)
    for weight, rings in regions:
        shape = shapely.union_all([shapely.Polygon(ring).buffer(0) for ring in rings])
        inside = shapely.covers(shape, places) & ~taken
        if inside.any():
            chance[inside] = weight / inside.sum()
        taken |= inside
    if not taken.any():
        raise BadArgument(
            "--regions: no node lies in any region.",
            hint="Regions and network must be of the same city.",
            code="empty-input",
        )
    return np.cumsum(chance / chance.sum())


def paper_regions() -> list[tuple[float, list[list[tuple[float, float]]]]]:
    """Return the six regions of appendix B, for homes; workplaces use the probabilities in reverse."""

    def circle(x: float, y: float, r: float, n: int) -> list[tuple[float, float]]:
        turn = [2 * np.pi * k / n for k in range(n)]
        return [(x + r * float(np.cos(a)), y + r * float(np.sin(a))) for a in turn]

    def box(x0: float, x1: float, y0: float, y1: float) -> list[tuple[float, float]]:
        return [(x0, y0), (x1, y0), (x1, y1), (x0, y1)]

    rings = [
        circle(9450, 11700, 5000, 50),
        box(-4500, 4000, 950, 8000),
        box(-2300, 7500, 7700, 16000),
        circle(7600, 5000, 5000, 30),
        box(8700, 30000, -3000, 21000),
        box(-20000, 36000, -9000, 32000),
    ]
    return [(chance, [ring]) for chance, ring in zip((0.4, 0.2, 0.15, 0.1, 0.08, 0.07), rings, strict=True)]


def region_weights(network: StreetNetwork) -> Weights:
    """Return the probabilities by the paper's regions."""
    regions = paper_regions()
    turned = [(weight, ring) for (weight, _), (_, ring) in zip(reversed(regions), regions, strict=True)]
    return Weights(cumulate_by_region(network, regions), cumulate_by_region(network, turned))


def _seed_state(*words: int) -> Longs:
    """Return a random state that depends only on ``words``."""
    key = np.uint64(0)
    with np.errstate(over="ignore"):
        for word in words:
            key = np.uint64(mix(key ^ np.uint64(word)))
    return np.array([key], dtype=np.uint64).view(np.int64)


def make_licence(vehicle: int, state: Longs) -> str:
    """Return a unique licence plate for vehicle 1 to 26,999 (the script's LicenceFun)."""
    if vehicle < 1000:
        first, second = (chr(65 + int(drive.draw(state) * count)) for count in (26, 25))
        return f"B-{first}{second} {vehicle}"
    thousands, rest = divmod(vehicle, 1000)
    if rest:
        return f"B-{chr(64 + thousands)}Z {rest}"
    return f"B-{chr(65 + thousands)} {1 + int(drive.draw(state) * 998)}"


class GeneratedVehicle:
    """One vehicle: its home, work and neighbourhood; generates its history."""

    def __init__(self, network: StreetNetwork, weights: Weights, plan: GeneratorPlan, number: int) -> None:
        self.network, self.plan, self.number = network, plan, number
        self.state = _seed_state(plan.seed, number)
        self.home = self._draw_node(weights.home)
        self.work = self._draw_node(weights.work)
        self.licence = make_licence(number, self.state)
        self.model = MODELS[int(drive.draw(self.state) * len(MODELS))]
        self.type = "passenger" if self._chance(0.9) else "bus" if self._chance(0.5) else "truck"
        near = np.hypot(network.x - network.x[self.home], network.y - network.y[self.home]) <= NEIGHBOURHOOD
        self.near = np.flatnonzero(near)
        self._tree: Ints | None = None
        self._paths: dict[tuple[int, int], Ints] = {}

    def _chance(self, p: float) -> bool:
        return drive.draw(self.state) < p

    def _draw_node(self, cumulative: Floats) -> int:
        return min(int(np.searchsorted(cumulative, drive.draw(self.state), side="right")), len(cumulative) - 1)

    def _path(self, start: int, goal: int) -> Ints:
        """Return the edges from start to goal, cached: the way to work is driven every day."""
        if (start, goal) not in self._paths:
            self._paths[start, goal] = self._search(start, goal)
        return self._paths[start, goal]

    def _search(self, start: int, goal: int) -> Ints:
        """Find the edges from start to goal; one tree serves all paths from and to home."""
        network = self.network
        if self.home in (start, goal) and (start == self.home or network.is_symmetric):
            if self._tree is None:
                self._tree = paths.find_shortest_tree(network.first, network.target, network.cost, self.home, -1)[1]
            out = paths.trace_path(network.source, self._tree, goal if start == self.home else start)
            return out if start == self.home else self._reverse(out)
        tree = paths.find_shortest_tree(network.first, network.target, network.cost, start, goal)[1]
        return paths.trace_path(network.source, tree, goal)

    def _reverse(self, path: Ints) -> Ints:
        """Return the way back: for each edge, the cheapest edge in the other direction."""
        network, out = self.network, []
        for edge in path[::-1].tolist():
            a, b = int(network.source[edge]), int(network.target[edge])
            back = range(network.first[b], network.first[b + 1])
            out.append(min((e for e in back if network.target[e] == a), key=lambda e: float(network.cost[e])))
        return np.array(out, dtype=np.int32)

    def _trip(self, start: int, goal: int, when: int) -> list[tuple[Longs, Floats, Floats]]:
        """Return the drive from start to goal; none if they are equal."""
        if start == goal:
            return []
        n = self.network
        return [drive.drive(self._path(start, goal), n.shape, n.shape_x, n.shape_y, n.vmax, when, self.state)]

    def _additional(self, block: int) -> list[tuple[Longs, Floats, Floats]]:
        """Generate an additional trip (algorithm 2)."""
        u = drive.draw(self.state)
        stops = 1 if u < self.plan.one else 2 if u < self.plan.one + self.plan.two else 3
        when = block + int(drive.draw(self.state) * 2 * HOUR)
        here, trips = self.home, []
        for leg in range(stops + 1):
            goal = self.home if leg == stops else self._draw_destination()
            drives = self._trip(here, goal, when)
            trips += drives
            when = int(drives[-1][0][-1]) if drives else when
            pause = np.clip(1.4 * drive.draw_normal(self.state), -6.0, 6.0)
            when += int((pause + 6.0) / 12.0 * 2 * HOUR)
            here = goal
        return trips

    def _draw_destination(self) -> int:
        if self._chance(0.8):
            return int(self.near[int(drive.draw(self.state) * len(self.near))])
        return int(drive.draw(self.state) * self.network.nodes)

    def _draw_shift(self) -> int:
        """Draw a Gaussian bounded to two hours either way."""
        return int(np.clip(drive.draw_normal(self.state), -2.0, 2.0) * HOUR)

    def _day(self, day: int) -> list[tuple[Longs, Floats, Floats]]:
        """Generate the trips of a day (0 is a Monday); none if the last one ends after six the next morning."""
        dawn = micros(START) + day * DAY
        self.state = _seed_state(self.plan.seed, self.number, 1 + day)
        trips: list[tuple[Longs, Floats, Floats]] = []
        blocks = [9, 19]
        if day % 7 < 5:
            trips += self._trip(self.home, self.work, dawn + 8 * HOUR + self._draw_shift())
            trips += self._trip(self.work, self.home, dawn + 16 * HOUR + self._draw_shift())
            blocks = [20]
        for block in blocks:
            if self._chance(0.4):
                trips += self._additional(dawn + block * HOUR)
        ends = [trip[0][-1] for trip in trips]
        orderly = all(b[0][0] > a[0][-1] for a, b in pairwise(trips))
        return trips if trips and orderly and ends[-1] < dawn + DAY + 6 * HOUR else []

    def history(self) -> tuple[Longs, Floats, Floats]:
        """Generate all its movement, from a day before the observation to a day after, standing between trips."""
        x0, y0 = self.network.x[[self.home]], self.network.y[[self.home]]
        begin, end = micros(START) - DAY, micros(START) + (self.plan.days + 1) * DAY
        parts = [(np.array([begin]), x0, y0)]
        for day in range(self.plan.days):
            parts += self._day(day)
        parts.append((np.array([end]), x0, y0))
        t, x, y = (np.concatenate([part[i] for part in parts]) for i in range(3))
        if self.plan.disturb:
            x, y = drive.disturb(x, y, _seed_state(self.plan.seed, self.number, 1 << 32), 100.0, 1.0)
        return t, x, y


def _histories(vehicles: list[GeneratedVehicle]) -> pa.RecordBatch:
    made = [vehicle.history() for vehicle in vehicles]
    rows = np.concatenate(([0], np.cumsum([len(t) for t, _, _ in made]))).astype(np.int32)
    t, x, y = (np.concatenate([history[i] for history in made]) for i in range(3))
    parts = np.arange(len(made) + 1, dtype=np.int32)
    trip = write(MPoints(rows, t, x, y, parts, np.zeros(len(made), np.int32)), types.MPOINT)
    plain = [[v.number for v in vehicles], [v.licence for v in vehicles]]
    plain += [[v.model for v in vehicles], [v.type for v in vehicles]]
    return pa.RecordBatch.from_arrays([*map(pa.array, plain), trip], schema=SCAR)


def _samples(network: StreetNetwork, licences: list[str], plan: GeneratorPlan) -> dict[str, pa.Table]:
    """Draw the query samples: places of nodes, n-gons around nodes, instants, periods, licences."""
    state, n = _seed_state(plan.seed, 1 << 40), SAMPLE
    u = np.array([[drive.draw(state) for _ in range(8)] for _ in range(n)])
    ids = pa.array(range(1, n + 1), pa.int32())
    spot, centre = (u[:, :2].T * network.nodes).astype(int)
    length = np.array([abs(drive.draw_normal(state)) for _ in range(n)])
    first = micros(START) + (u[:, 4] * plan.days * DAY).astype(np.int64)
    second = micros(START) + (u[:, 5] * plan.days * DAY).astype(np.int64)
    end = second + (length * DAY).astype(np.int64)
    rows = np.arange(n + 1, dtype=np.int32)
    middle = Points(network.x[centre], network.y[centre])
    regions = polygons(middle, np.floor(3 + u[:, 2] * 997), 3 + (u[:, 3] * 97).astype(np.int64))
    who = [licences[int(v * len(licences))] for v in u[:, 6]]
    return {
        "QueryPoints": pa.table({"Id": ids, "Pos": write(Points(network.x[spot], network.y[spot]), types.POINT)}),
        "QueryRegions": pa.table({"Id": ids, "Region": write(regions, types.REGION)}),
        "QueryInstants": pa.table({"Id": ids, "Instant": write(first, types.INSTANT_TYPE)}),
        "QueryPeriods": pa.table({"Id": ids, "Period": write(Periods(rows, second, end), types.PERIODS)}),
        "QueryLicences": pa.table({"Id": ids, "Licence": pa.array(who)}),
    }


def write_samples(folder: Path, samples: dict[str, pa.Table]) -> None:
    """Write each sample as a table with one file."""
    for name, table in samples.items():
        (folder / name).mkdir()
        pq.write_table(table, folder / name / "part-0.parquet")


def generate(
    spark: SparkSession,
    plan: GeneratorPlan,
    network: StreetNetwork,
    out: Path,
    weights: Weights | None = None,
    partitions: int | None = None,
) -> DatasetManifest:
    """Generate a data set at ``out``; the number of partitions only affects the speed."""
    chances = weights or uniform_weights(network)

    def histories(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch.column(0).to_pylist()
            for i in range(0, len(numbers), HISTORIES_PER_BATCH):
                yield _histories(
                    [
                        GeneratedVehicle(network, chances, plan, number)
                        for number in numbers[i : i + HISTORIES_PER_BATCH]
                    ]
                )

    register(spark)
    with staged_folder(out) as stage:
        parts = partitions or max(2, min(plan.vehicles, 4 * spark.sparkContext.defaultParallelism))
        vehicles = spark.range(1, plan.vehicles + 1, numPartitions=parts)
        write_histories(vehicles.mapInArrow(histories, SCAR_SQL), stage)
        stored = spark.read.parquet(str(stage / "dataScar"))
        trips_from_histories(stored).write.parquet(str(stage / "dataMtrip"))
        cars = stored.select("Moid", "Licence", "Model", "Type").toArrow().sort_by("Moid").cast(MCAR)
        write_samples(stage, {"dataMcar": cars, **_samples(network, cars["Licence"].to_pylist(), plan)})
        network.save(stage / "network.npz")
        return finish(spark, stage, "slipstream generate", {**asdict(plan), "days": plan.days})
