"""Driving kernels: the trip along a path (the paper's algorithm 1).

Random numbers come from a state of one 64-bit word that each day starts from its own key, so a trip does not depend on
where or in which order it is computed.
"""

from __future__ import annotations

import numpy as np

from slipstream._tools.numba_tools import Bools, Floats, Ints, Longs, compiled, mix

STEP = 5.0
BEND = 50.0
ACCELERATION = 12.0
MEAN_STOP = 15.0
SAMPLE = 2_000_000

#: table 1: the chance of a stop from a street class (row) into another; side, main, freeway
STOP = np.array([[0.33, 0.66, 1.0], [0.33, 0.5, 0.66], [0.1, 0.33, 0.05]])


@compiled
def draw(state: Longs) -> float:
    """Draw the next uniform number in [0, 1)."""
    state[0] = np.int64(mix(np.uint64(state[0])))
    return float(np.uint64(state[0]) >> np.uint64(11)) * 2.0**-53


@compiled
def draw_normal(state: Longs) -> float:
    """Draw the next standard normal number (Box and Muller)."""
    u = 1.0 - draw(state)
    return float(np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * draw(state)))


@compiled
def street_class(vmax: float) -> int:
    """Return 0 for a side street, 1 for a main road, 2 for a freeway."""
    if vmax >= 60.0:
        return 2
    return 1 if vmax >= 40.0 else 0


@compiled
def _enclosed_angle(ax: float, ay: float, bx: float, by: float) -> float:
    """Return the angle enclosed by two consecutive segments, in degrees: 180 is straight on."""
    size = np.hypot(ax, ay) * np.hypot(bx, by)
    if size == 0.0:
        return 180.0
    turn = np.arccos(min(1.0, max(-1.0, (ax * bx + ay * by) / size)))
    return float(180.0 - np.degrees(turn))


@compiled
def _path_segments(
    path: Ints, shape: Ints, shape_x: Floats, shape_y: Floats, vmax: Floats
) -> tuple[Floats, Floats, Floats, Bools]:
    """Return the path as one polyline: its vertices, the limit of each segment (m/s), which segments end an edge."""
    room = 1
    for edge in path:
        room += shape[edge + 1] - shape[edge] - 1
    x, y, limit, ends = np.empty(room), np.empty(room), np.empty(room), np.zeros(room, np.bool_)
    at = 0
    for k in range(len(path)):
        edge = path[k]
        for i in range(shape[edge] + (1 if k else 0), shape[edge + 1]):
            x[at], y[at] = shape_x[i], shape_y[i]
            if at:
                limit[at - 1] = vmax[edge] / 3.6
            at += 1
        ends[at - 2] = True
    return x[:at], y[:at], limit[: at - 1], ends[: at - 1]


@compiled
def _draw_stop(state: Longs) -> float:
    return float(-MEAN_STOP * np.log(1.0 - draw(state)))


@compiled
def _next_speed(state: Longs, speed: float, top: float, left: float, bend: float) -> tuple[float, float]:
    """Return the speed for the next five metres, and how long to stop before them."""
    if left <= BEND:
        return min(bend, np.sqrt(speed * speed + 2.0 * ACCELERATION * STEP)), 0.0
    if speed < top:
        return min(top, np.sqrt(speed * speed + 2.0 * ACCELERATION * STEP)), 0.0
    if draw(state) * top * 3.6 < 1.0:
        if draw(state) < 0.9:
            heads = 0
            for _ in range(20):
                heads += 1 if draw(state) < 0.5 else 0
            return speed * heads / 20.0, 0.0
        return 0.0, _draw_stop(state)
    return speed, 0.0


@compiled
def _emit(t: Longs, x: Floats, y: Floats, n: int, now: int, px: float, py: float, merge: bool) -> int:
    """Add a sample; one that continues the motion of the previous unit replaces its end."""
    if n and t[n - 1] >= now:
        return n
    if merge and n >= 2 and now - t[n - 1] == SAMPLE:
        still = x[n - 1] == px and y[n - 1] == py and x[n - 2] == px and y[n - 2] == py
        even = px - x[n - 1] == x[n - 1] - x[n - 2] and py - y[n - 1] == y[n - 1] - y[n - 2]
        if still or (even and t[n - 1] - t[n - 2] == SAMPLE):
            n -= 1
    t[n], x[n], y[n] = now, px, py
    return n + 1


@compiled
def drive(
    path: Ints,
    shape: Ints,
    shape_x: Floats,
    shape_y: Floats,
    vmax: Floats,
    start: int,
    state: Longs,
) -> tuple[Longs, Floats, Floats]:
    """Simulate a trip along ``path`` from ``start`` (microseconds): algorithm 1.

    Sampled every 2 s and at each change of direction. A trip straight through a node stays on the path up to
    rounding, because samples lie on the street's own segment.
    """
    px, py, limit, ends = _path_segments(path, shape, shape_x, shape_y, vmax)
    total = 0.0
    for i in range(len(limit)):
        total += np.hypot(px[i + 1] - px[i], py[i + 1] - py[i])
    room = int(total) + 40 * len(limit) + 64
    t, x, y = np.empty(room, np.int64), np.empty(room), np.empty(room)
    t[0], x[0], y[0], n = start, px[0], py[0], 1
    clock, sample, speed, straight = float(start), start + SAMPLE, 0.0, 1
    for i in range(len(limit)):
        dx, dy = px[i + 1] - px[i], py[i + 1] - py[i]
        size = np.hypot(dx, dy)
        last = i + 1 == len(limit)
        angle = 180.0 if last else _enclosed_angle(dx, dy, px[i + 2] - px[i + 1], py[i + 2] - py[i + 1])
        bend, gone = limit[i] * max(angle, 10.0) / 180.0, 0.0
        while gone < size:
            before = speed
            speed, wait = _next_speed(state, speed, limit[i], size - gone, bend)
            if wait > 0.0:
                clock += wait * 1e6
                while sample <= clock and n + 2 < room:
                    f = gone / size
                    n = _emit(t, x, y, n, sample, px[i] + f * dx, py[i] + f * dy, straight > 1)
                    straight += 1
                    sample += SAMPLE
                before = 0.0
            step = min(STEP, size - gone)
            pace = max(0.5 * (before + speed), 1.0)
            took = step / pace * 1e6
            while sample < clock + took and n + 2 < room:
                f = (gone + step * (sample - clock) / took) / size
                n = _emit(t, x, y, n, sample, px[i] + f * dx, py[i] + f * dy, straight > 1)
                straight += 1
                sample += SAMPLE
            clock += took
            gone += step
        if not last:
            ex, ey = px[i + 2] - px[i + 1], py[i + 2] - py[i + 1]
            if dx * ey - dy * ex != 0.0 or dx * ex + dy * ey <= 0.0:
                n = _emit(t, x, y, n, int(clock), px[i + 1], py[i + 1], straight > 1)
                straight, sample = 1, int(clock) + SAMPLE
            if ends[i] and draw(state) < STOP[street_class(limit[i] * 3.6), street_class(limit[i + 1] * 3.6)]:
                speed = 0.0
                clock += _draw_stop(state) * 1e6
                while sample <= clock and n + 2 < room:
                    n = _emit(t, x, y, n, sample, px[i + 1], py[i + 1], straight > 1)
                    straight += 1
                    sample += SAMPLE
    n = _emit(t, x, y, n, max(int(clock), t[n - 1] + 1), px[-1], py[-1], straight > 1)
    return t[:n], x[:n], y[:n]


@compiled
def disturb(x: Floats, y: Floats, state: Longs, most: float, change: float) -> tuple[Floats, Floats]:
    """Add a measurement error that changes by at most ``change`` per sample and never exceeds ``most``."""
    out_x, out_y = x.copy(), y.copy()
    ex, ey = 0.0, 0.0
    for i in range(len(x)):
        size, turn = change * draw(state), 2.0 * np.pi * draw(state)
        nx, ny = ex + size * np.cos(turn), ey + size * np.sin(turn)
        if np.hypot(nx, ny) <= most:
            ex, ey = nx, ny
        out_x[i] += ex
        out_y[i] += ey
    return out_x, out_y
