"""Trips by the book: every accepted report in turn. Imports no part of the package."""

from __future__ import annotations

from collections.abc import Iterable

from oracles.linear_road import Tuple, sift

Trip = tuple[tuple[int, int, int], tuple[tuple[int, int, int], ...]]  # vid, xway, dir; (time, pos, lane) of each report


def trips_of(lines: Iterable[str | bytes], *, lateness: int = 60) -> list[Trip]:
    """The trips of all accepted reports of a feed of Linear Road lines."""
    accepted, _ = sift(lines, lateness)
    return trips(report for report in accepted if report.type == 0)


def trips(reports: Iterable[Tuple]) -> list[Trip]:
    """The trips of position reports."""
    done: list[list[Tuple]] = []
    current: dict[tuple[int, int], list[Tuple]] = {}
    for report in sorted(reports, key=lambda report: report.time):
        trip = current.get((report.vid, report.xway))
        if trip is None or not goes_on(trip[-1], report):
            trip = current[report.vid, report.xway] = []
            done.append(trip)
        trip.append(report)
    return sorted(plain(trip) for trip in done)


def goes_on(before: Tuple, after: Tuple) -> bool:
    """Whether two consecutive reports of a vehicle on an expressway are of one trip."""
    entered_again = before.lane == 4 and after.lane != 4
    return after.time <= before.time + 30 and after.dir == before.dir and not entered_again


def plain(trip: list[Tuple]) -> Trip:
    head = trip[0]
    return (head.vid, head.xway, head.dir), tuple((report.time, report.pos, report.lane) for report in trip)


Point = tuple[float, float, float]  # time, x, y


def cut(
    points: Iterable[tuple[str, float, float, float]], gap: float, lateness: float
) -> tuple[list[tuple[str, list[Point]]], list[tuple[int, str]]]:
    """Points in the order of arrival as trips, those with a silence between them apart; and which are refused, why."""
    done: list[tuple[str, list[Point]]] = []
    current: dict[str, list[Point]] = {}
    refused, newest = [], float("-inf")
    for number, (who, time, x, y) in enumerate(points):
        newest = max(newest, time)
        trip = current.get(who)
        if newest - time > lateness:
            refused.append((number, "late"))
        elif trip and time <= trip[-1][0]:
            refused.append((number, "order"))
        else:
            if trip is None or time - trip[-1][0] > gap:
                trip = current[who] = []
                done.append((who, trip))
            trip.append((time, x, y))
    return sorted(done), refused
