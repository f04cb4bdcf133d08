"""BerlinMOD's queries in PyMEOS, as far as its operators go: a loop over trips that bounding boxes leave.

What counts against PyMEOS is its operators and the loop around them; boxes are compared by NumPy, in its favour.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pymeos
import shapely

from slipstream._berlinmod.dataset import Dataset
from slipstream._moving.columns import read
from slipstream._moving.kernels.motion import boxes
from slipstream._moving.moving_point import instant, micros


def sequence(t: list[int], x: list[float], y: list[float]) -> Any:
    """A moving point of PyMEOS."""
    rows = zip(t, x, y, strict=True)
    return pymeos.TGeomPointSeq("[" + ", ".join(f"POINT({px!r} {py!r})@{instant(at)}" for at, px, py in rows) + "]")


def span(period: dict[str, Any]) -> Any:
    return pymeos.TsTzSpan(f"[{period['begin'][0]}, {period['end'][0]}]")


class InPyMEOS:
    """The trips of a data set in PyMEOS, and the queries that it can answer."""

    def __init__(self, spark: Any, data: Dataset) -> None:
        pymeos.pymeos_initialize(timezone="UTC")
        table = data.table(spark, "dataMtrip").select("Licence", "Trip").toArrow().combine_chunks()
        m = read(table.column("Trip").combine_chunks())
        rows = range(len(m.rows) - 1)
        cuts = [slice(m.rows[r], m.rows[r + 1]) for r in rows]
        self.trips = [sequence(m.t[c].tolist(), m.x[c].tolist(), m.y[c].tolist()) for c in cuts]
        self.licence = np.array(table.column("Licence").to_pylist())
        self.x0, self.y0, self.x1, self.y1 = boxes(m)
        self.t0, self.t1 = m.t[m.rows[:-1]], m.t[m.rows[1:] - 1]
        names = ("Points", "Regions", "Instants", "Periods", "Licences")
        self.asked = {name: data.table(spark, f"Query{name}").orderBy("Id").toArrow().to_pylist() for name in names}
        cars = data.table(spark, "dataMcar").toArrow().to_pylist()
        self.trucks = {car["Licence"] for car in cars if car["Type"] == "truck"}

    def _here(self, x0: float, y0: float, x1: float, y1: float) -> Any:
        return (self.x0 <= x1) & (self.x1 >= x0) & (self.y0 <= y1) & (self.y1 >= y0)

    def _then(self, begin: int, end: int) -> Any:
        return (self.t0 <= end) & (self.t1 >= begin)

    def _during(self, period: dict[str, Any]) -> Any:
        return self._then(micros(period["begin"][0]), micros(period["end"][0]))

    def _first(self, name: str, count: int = 10) -> list[dict[str, Any]]:
        return self.asked[name][:count]

    def _near(self, i: int, others: Any, metres: float) -> Any:
        box = (self.x0[i] - metres, self.y0[i] - metres, self.x1[i] + metres, self.y1[i] + metres)
        return np.flatnonzero(others & self._here(*box) & self._then(self.t0[i], self.t1[i]))

    def _pairs(self, ours: Any, others: Any, metres: float) -> set[tuple[str, str]]:
        found = set()
        for i in np.flatnonzero(ours):
            for j in self._near(i, others & (self.licence != self.licence[i]), metres):
                pair = (self.licence[i], self.licence[j])
                if pair not in found and self.trips[i].is_ever_within_distance(self.trips[j], metres):
                    found.add(pair)
        return found

    def q3(self) -> int:
        ours = np.isin(self.licence, [row["Licence"] for row in self._first("Licences")])
        found = set()
        for row in self._first("Instants"):
            at = micros(row["Instant"])
            for i in np.flatnonzero(ours & self._then(at, at)):
                place = self.trips[i].value_at_timestamp(row["Instant"])
                found.add((self.licence[i], at, place.x, place.y))
        return len(found)

    def q4(self) -> int:
        found = set()
        for x, y in {(row["Pos"]["x"], row["Pos"]["y"]) for row in self.asked["Points"]}:
            place = shapely.Point(x, y)
            for i in np.flatnonzero(self._here(x, y, x, y)):
                if (x, y, self.licence[i]) not in found and self.trips[i].ever_equal(place):
                    found.add((x, y, self.licence[i]))
        return len(found)

    def q6(self) -> int:
        trucks = np.isin(self.licence, list(self.trucks))
        return len({tuple(sorted(pair)) for pair in self._pairs(trucks, trucks, 10.0)})

    def q9(self) -> int:
        longest = []
        for row in self.asked["Periods"]:
            far: dict[str, float] = defaultdict(float)
            for i in np.flatnonzero(self._during(row["Period"])):
                part = self.trips[i].at(span(row["Period"]))
                far[self.licence[i]] += part.length() if part is not None else 0.0
            longest.append(max(far.values(), default=0.0))
        return len(longest)

    def q10(self) -> int:
        ours = np.isin(self.licence, [row["Licence"] for row in self._first("Licences")])
        return len(self._pairs(ours, np.ones(len(ours), bool), 3.0))

    def q13(self) -> int:
        found = set()
        for region in self._first("Regions"):
            x, y = region["Region"]["x"], region["Region"]["y"]
            shape, here = shapely.Polygon(zip(x, y, strict=True)), self._here(min(x), min(y), max(x), max(y))
            for k, row in enumerate(self._first("Periods")):
                for i in np.flatnonzero(here & self._during(row["Period"])):
                    part = self.trips[i].at(span(row["Period"]))
                    if part is not None and part.ever_intersects(shape):
                        found.add((region["Id"], k, self.licence[i]))
        return len(found)

    def q14(self) -> int:
        found = set()
        for region in self._first("Regions"):
            x, y = region["Region"]["x"], region["Region"]["y"]
            shape, here = shapely.Polygon(zip(x, y, strict=True)), self._here(min(x), min(y), max(x), max(y))
            for row in self._first("Instants"):
                at = micros(row["Instant"])
                for i in np.flatnonzero(here & self._then(at, at)):
                    if shape.covers(self.trips[i].value_at_timestamp(row["Instant"])):
                        found.add((region["Id"], at, self.licence[i]))
        return len(found)

    def q15(self) -> int:
        found = set()
        for x, y in {(row["Pos"]["x"], row["Pos"]["y"]) for row in self._first("Points")}:
            for k, row in enumerate(self._first("Periods")):
                for i in np.flatnonzero(self._here(x, y, x, y) & self._during(row["Period"])):
                    part = self.trips[i].at(span(row["Period"]))
                    if part is not None and part.ever_equal(shapely.Point(x, y)):
                        found.add((x, y, k, self.licence[i]))
        return len(found)
