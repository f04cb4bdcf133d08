"""The window functions of linear_road.yaml: what SQL's aggregates do not say in one word.

slipstream network check examples/networks/linear_road.yaml --functions examples/networks/linear_road.py
"""

from __future__ import annotations

from itertools import pairwise
from math import floor

from slipstream.network import WindowFunction, register

Sums = dict[tuple[int, int], tuple[int, int]]
State = tuple[float, Sums]


def add_speed(state: State, minute: int, vid: int | None, spd: int | None) -> State:
    """Each vehicle's sum and count of speeds in each minute."""
    _, sums = state
    if vid is not None and spd is not None:
        total, count = sums.get((minute, vid), (0, 0))
        sums[minute, vid] = total + spd, count + 1
    return state


def lav(state: State) -> int:
    """Mean of the minutes' means of the vehicles' means over the first five minutes of the window; -1 for none."""
    start, sums = state
    minutes: dict[int, list[float]] = {}
    for (minute, _), (total, count) in sums.items():
        if minute < start + 5:
            minutes.setdefault(minute, []).append(total / count)
    means = [sum(speeds) / len(speeds) for speeds in minutes.values()]
    # a mean that is whole must not fall below itself
    return floor(sum(means) / len(means) + 1e-9) if means else -1


def add_car(state: tuple[float, set[int]], minute: int, vid: int | None) -> tuple[float, set[int]]:
    """The vehicles of the fifth minute."""
    start, vids = state
    if vid is not None and minute == start + 4:
        vids.add(vid)
    return state


def add_accident(
    state: tuple[float, int | None], minute: int, seg: int, accident: int | None
) -> tuple[float, int | None]:
    """The accident of the fifth minute that is nearest to the segment."""
    start, nearest = state
    if accident is not None and minute == start + 4 and (nearest is None or abs(accident - seg) < abs(nearest - seg)):
        return start, accident
    return state


def standing(places: list[tuple[int, ...]]) -> bool:
    """Whether reports 30 seconds apart all came from one place."""
    times = [place[0] for place in places]
    return len({place[1:] for place in places}) == 1 and all(
        later - earlier == 30 for earlier, later in pairwise(times)
    )


register(WindowFunction("lav", lambda at: (at, {}), add_speed, lav, "integer"))
register(WindowFunction("cars", lambda at: (at, set()), add_car, lambda state: len(state[1]), "integer"))
register(WindowFunction("nearest", lambda at: (at, None), add_accident, lambda state: state[1], "integer"))
register(WindowFunction("standing", lambda _: [], lambda s, *place: [*s, place], standing, "boolean"))
