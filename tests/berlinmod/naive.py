"""The 17 answers by brute force: every vehicle against every parameter, NumPy and Shapely, no index, no kernel."""

from __future__ import annotations

from itertools import product

import numpy as np
import shapely

REACH = 1e-6


class Car:
    """One vehicle's whole history."""

    def __init__(self, row):
        self.licence, self.model, self.type = row["Licence"], row["Model"], row["Type"]
        trip = row["Trip"]
        assert trip["starts"] == [0]
        self.t = np.array([t.timestamp() for t in trip["t"]])
        self.p = np.c_[trip["x"], trip["y"]]
        self.path = shapely.LineString(self.p)

    def at(self, t):
        return np.array([np.interp(t, self.t, self.p[:, 0]), np.interp(t, self.t, self.p[:, 1])]).T

    def during(self, b, e):
        """Times and places within a period; nothing outside the observation."""
        b, e = max(b, self.t[0]), min(e, self.t[-1])
        if b > e:
            return None
        times = np.unique(np.r_[b, self.t[(self.t > b) & (self.t < e)], e])
        return times, self.at(times)

    def first_at(self, point):
        """The first time at a point, or nothing."""
        a, d = self.p[:-1], np.diff(self.p, axis=0)
        size = (d**2).sum(1)
        s = np.where(size > 0, ((point - a) * d).sum(1) / np.where(size > 0, size, 1), 0.0).clip(0, 1)
        gap = np.hypot(*(a + s[:, None] * d - point).T)
        hits = np.flatnonzero(gap <= REACH)
        return self.t[hits[0]] + s[hits[0]] * (self.t[hits[0] + 1] - self.t[hits[0]]) if len(hits) else None


def metres(car, b, e):
    part = car.during(b, e)
    return 0.0 if part is None else float(np.hypot(*np.diff(part[1], axis=0).T).sum())


def near_slices(one, other, limit):
    """(begin, end) of the slices of time in which two cars come within ``limit``."""
    times = np.unique(np.r_[one.t, other.t])
    times = times[(times >= max(one.t[0], other.t[0])) & (times <= min(one.t[-1], other.t[-1]))]
    r = one.at(times) - other.at(times)
    d = np.diff(r, axis=0)
    size = (d**2).sum(1)
    s = np.where(size > 0, -(r[:-1] * d).sum(1) / np.where(size > 0, size, 1), 0.0).clip(0, 1)
    gap = np.hypot(*(r[:-1] + s[:, None] * d).T)
    hit = np.flatnonzero(gap <= limit)
    return [(times[i], times[i + 1], times[i] + s[i] * (times[i + 1] - times[i])) for i in hit]


def polygon(region):
    return shapely.Polygon(np.c_[region["x"], region["y"]])


def visits(car, shape, b, e):
    """Whether a car is in a region during a period."""
    part = car.during(b, e)
    if part is None:
        return False
    places = part[1]
    line = shapely.Point(places[0]) if len(np.unique(places, axis=0)) == 1 else shapely.LineString(places)
    return shape.distance(line) <= 1e-9


class Naive:
    """All queries over cars and samples; each gives a set of tuples of plain values."""

    def __init__(self, cars, samples):
        self.cars = {car.licence: car for car in cars}
        self.points = {r["Id"]: (r["Pos"]["x"], r["Pos"]["y"]) for r in samples["QueryPoints"]}
        self.regions = {r["Id"]: polygon(r["Region"]) for r in samples["QueryRegions"]}
        self.instants = {r["Id"]: r["Instant"].timestamp() for r in samples["QueryInstants"]}
        self.periods = {
            r["Id"]: (r["Period"]["begin"][0].timestamp(), r["Period"]["end"][0].timestamp())
            for r in samples["QueryPeriods"]
        }
        self.licences = {r["Id"]: r["Licence"] for r in samples["QueryLicences"]}

    def ten(self, sample, second=False):
        low = 10 if second else 0
        return {value for number, value in getattr(self, sample).items() if low < number <= low + 10}

    def q1(self):
        return {(name, self.cars[name].model) for name in self.licences.values()}

    def q2(self):
        return {(sum(car.type == "passenger" for car in self.cars.values()),)}

    def q3(self):
        pairs = product(self.ten("licences"), self.ten("instants"))
        return {(name, t, *self.cars[name].at(t).tolist()) for name, t in pairs}

    def q4(self):
        pairs = product(set(self.points.values()), self.cars.values())
        return {(*p, car.licence) for p, car in pairs if car.first_at(np.array(p)) is not None}

    def q5(self):
        pairs = product(self.ten("licences"), self.ten("licences", second=True))
        return {(a, b, self.cars[a].path.distance(self.cars[b].path)) for a, b in pairs if a != b}

    def q6(self):
        trucks = [car for car in self.cars.values() if car.type == "truck"]
        pairs = [(a, b) for a in trucks for b in trucks if a.licence < b.licence]
        return {(a.licence, b.licence) for a, b in pairs if near_slices(a, b, 10.0)}

    def q7(self):
        out = set()
        for point in set(self.points.values()):
            cars = [car for car in self.cars.values() if car.type == "passenger"]
            first = {car.licence: car.first_at(np.array(point)) for car in cars}
            first = {name: t for name, t in first.items() if t is not None}
            out |= {(*point, name) for name, t in first.items() if t <= min(first.values()) + 5e-7}
        return out

    def q8(self):
        pairs = product(self.ten("licences"), self.ten("periods"))
        return {(name, *p, metres(self.cars[name], *p)) for name, p in pairs if self.cars[name].during(*p) is not None}

    def q9(self):
        return {(*p, max(metres(car, *p) for car in self.cars.values())) for p in self.periods.values()}

    def q10(self):
        pairs = product(self.ten("licences"), self.cars)
        return {(a, b) for a, b in pairs if a != b and near_slices(self.cars[a], self.cars[b], 3.0)}

    def q11(self):
        found = set()
        for point, t, car in product(self.ten("points"), self.ten("instants"), self.cars.values()):
            if np.hypot(*(car.at(t) - np.array(point))) <= REACH:
                found.add((car.licence, *point, t))
        return found

    def q12(self):
        found = self.q11()
        return {(*a[1:], a[0], b[0]) for a in found for b in found if a[1:] == b[1:] and a[0] < b[0]}

    def q13(self):
        regions = {i: shape for i, shape in self.regions.items() if i <= 10}
        combinations = product(regions, self.ten("periods"), self.cars.values())
        return {(i, *p, car.licence) for i, p, car in combinations if visits(car, regions[i], *p)}

    def q14(self):
        regions = {i: shape for i, shape in self.regions.items() if i <= 10}
        combinations = product(regions, self.ten("instants"), self.cars.values())
        return {
            (i, t, car.licence) for i, t, car in combinations if regions[i].distance(shapely.Point(car.at(t))) <= 1e-9
        }

    def q15(self):
        out = set()
        for point, period, car in product(self.ten("points"), self.ten("periods"), self.cars.values()):
            part = car.during(*period)
            if part is None:
                continue
            places = part[1]
            line = shapely.Point(places[0]) if len(np.unique(places, axis=0)) == 1 else shapely.LineString(places)
            if line.distance(shapely.Point(point)) <= REACH:
                out.add((*point, *period, car.licence))
        return out

    def q16(self):
        out, visited = set(), self.q13()
        for i, b, e, name in visited:
            for other in self.ten("licences", second=True):
                if name in self.ten("licences") and name < other and (i, b, e, other) in visited:
                    one, two = self.cars[name], self.cars[other]
                    met = [
                        t
                        for t0, t1, t in near_slices(one, two, REACH)
                        for t in {np.clip(t, b, e), np.clip(t0, b, e), np.clip(t1, b, e)}
                        if t0 <= t <= t1
                        and np.hypot(*(one.at(t) - two.at(t))) <= 2e-5
                        and self.regions[i].distance(shapely.Point(one.at(t))) <= 1e-6
                    ]
                    if not met:
                        out.add((i, b, e, name, other))
        return out

    def q17(self):
        hits = {}
        for x, y, name in self.q4():
            hits.setdefault((x, y), set()).add(name)
        most = max((len(names) for names in hits.values()), default=0)
        return {point for point, names in hits.items() if len(names) == most}
