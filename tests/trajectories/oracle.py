"""The rules in plain Python: one mover, one instant and one position at a time."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from math import dist

#: id, microseconds since 1970, x, y
Row = tuple[str, int, float, float]
#: the positions of each trip, and its mover
Trips = list[tuple[str, list[tuple[int, float, float]]]]


def divide(rows: list[Row], gap: int, speed: float) -> tuple[Trips, Counter[tuple[Row, str]]]:
    """Return the trips, by mover and time, and how often each row is rejected for which reason."""
    trips: Trips = []
    rejects: Counter[tuple[Row, str]] = Counter()
    for mover in sorted({row[0] for row in rows}):
        mine = sorted(row for row in rows if row[0] == mover)
        found = _divide_mover(mine, gap, speed, rejects)
        trips += [(mover, [row[1:] for row in trip]) for trip in found]
    return trips, rejects


def _divide_mover(rows: list[Row], gap: int, speed: float, rejects: Counter[tuple[Row, str]]) -> list[list[Row]]:
    trips: list[list[Row]] = []
    suspect: Row | None = None

    def follows(row: Row, last: Row) -> bool:
        return row[1] - last[1] <= gap

    def reaches(row: Row, last: Row) -> bool:
        return dist(row[2:], last[2:]) <= speed * ((row[1] - last[1]) / 1e6)

    for _, group in groupby(rows, key=lambda row: row[1]):
        here = list(group)
        last = trips[-1][-1] if trips else None
        together = last is not None and follows(here[0], last)
        row = min(here, key=lambda one: dist(one[2:], last[2:])) if together and last else here[0]
        _reject_others(here, row, rejects)
        if together and last and reaches(row, last):
            trips[-1].append(row)
        elif suspect and follows(row, suspect) and reaches(row, suspect):
            if len(trips[-1]) == 1:
                rejects[trips.pop()[0], "jump"] += 1
            trips.append([suspect, row])
            suspect = None
        elif not together:
            trips.append([row])
        else:
            if suspect:
                rejects[suspect, "jump"] += 1
            suspect = row
            continue
        if suspect:
            rejects[suspect, "jump"] += 1
        suspect = None
    if suspect:
        rejects[suspect, "jump"] += 1
    return trips


def _reject_others(here: list[Row], kept: Row, rejects: Counter[tuple[Row, str]]) -> None:
    for row, times in Counter(here).items():
        others = times - 1
        if row != kept:
            rejects[row, "conflict"] += 1
        if others:
            rejects[row, "duplicate"] += others
