"""Newson and Krumm's map matching (2009) as a stream: positions come in one by one, and leave decided, in order.

A position is decided as soon as all ways that are still possible agree on it, or when a later one shows that the lag
has passed; then the way that is best so far decides, and the others are given up. Both depend only on the vehicle's own
positions, so the answers are the same however the stream is cut. What a next batch needs is the last decided position
and the undecided ones.

Positions without a road in reach are off the road, and those that no vehicle can have driven to are jumps: routes lead
past them. Where no route leads on, a new stretch begins. Positions within the noise of the one before say nothing new:
they are placed on the same edge.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from slipstream._roads.edge_grid import project
from slipstream._roads.matching.lattice import (
    NEVER,
    SCALE,
    Lattice,
    ModelSettings,
    Road,
    advance,
    begin_slot,
    copy_slot,
    find_best,
    find_common,
    find_straight,
    make_lattice,
    make_room,
    put_candidates,
    score_position,
    score_route,
)
from slipstream._roads.matching.routes import Trees
from slipstream._tools.numba_tools import Bools, Bytes, Floats, Ints, Longs, compiled

#: what became of a position
ON, OFF, JUMP, WAITS = 0, 1, 2, 3
#: what is near the position before it until that is decided
_NEAR = 4
#: how near, in standard deviations of positions
_SAME = 2.0
#: the same as texts
STATUS = np.array(["on", "off", "jump", "waits"])
#: no instant
NONE = -(1 << 62)
NEVER_DUE = 1 << 62
#: how much worse a candidate scores that takes nothing from the confidence in another: e to the -15
_NEGLIGIBLE = 15_000_000
#: longer lattices are searched for agreement at intervals of this many positions
_OFTEN = 64


class Last(NamedTuple):
    """Of each vehicle, the last position on a road that was decided (edge -1: none), and a jump after it."""

    edge: Ints
    offset: Floats
    t: Longs
    x: Floats
    y: Floats
    confidence: Floats
    jump_t: Longs
    jump_x: Floats
    jump_y: Floats


class Matched(NamedTuple):
    """What was decided about each position, and by which one."""

    status: Bytes
    edge: Ints
    offset: Floats
    aside: Floats
    x: Floats
    y: Floats
    confidence: Floats
    #: whether a stretch begins: no route leads here
    starts: Bools
    by: Longs
    #: the instant after which the lag had passed; ``NEVER_DUE`` if it did not decide
    due: Longs


def no_last(vehicles: int) -> Last:
    """Return the state of vehicles without a decided position."""
    columns: dict[str, Any] = {name: np.zeros(vehicles) for name in Last._fields}
    columns |= {name: np.full(vehicles, NONE, np.int64) for name in ("t", "jump_t")}
    return Last(**columns | {"edge": np.full(vehicles, -1, np.int32)})


def no_matches(points: int) -> Matched:
    """Return undecided positions."""
    columns: dict[str, Any] = {name: np.zeros(points) for name in Matched._fields}
    columns |= {"status": np.full(points, WAITS, np.uint8), "edge": np.full(points, -1, np.int32)}
    columns |= {"starts": np.zeros(points, np.bool_), "by": np.zeros(points, np.int64)}
    return Matched(**columns | {"due": np.full(points, NEVER_DUE, np.int64)})


@compiled
def place_on(road: Road, edge: int, offset: float) -> tuple[float, float, float, float]:
    """Return the place on an edge, and the direction there."""
    left = offset
    end = road.shape[edge + 1] - 1
    for i in range(road.shape[edge], end):
        dx, dy = road.x[i + 1] - road.x[i], road.y[i + 1] - road.y[i]
        size = np.hypot(dx, dy)
        if left <= size and size > 0.0:
            return road.x[i] + dx * left / size, road.y[i] + dy * left / size, dx, dy
        left -= size
    return road.x[end], road.y[end], road.x[end] - road.x[end - 1], road.y[end] - road.y[end - 1]


@compiled
def _score_between(
    road: Road, trees: Trees, how: ModelSettings, lattice: Lattice, slot: int, c: int, chosen: Ints, least: int
) -> int:
    """Score a candidate given the chosen ones before and after; one that is below ``least`` need not be exact."""
    score = score_position(how, lattice.aside[slot, c])
    if slot > 0 and score >= least:
        metres = find_straight(lattice, slot - 1, slot)
        score += score_route(road, trees, how, lattice, slot - 1, chosen[slot - 1], slot, c, metres, least - score)
    if slot < len(chosen) - 1 and score >= least:
        metres = find_straight(lattice, slot, slot + 1)
        score += score_route(road, trees, how, lattice, slot, c, slot + 1, chosen[slot + 1], metres, least - score)
    return score


@compiled
def _compute_confidence(
    road: Road, trees: Trees, how: ModelSettings, lattice: Lattice, slot: int, chosen: Ints
) -> float:
    """Return how probable the chosen candidate is among all, given the chosen ones before and after."""
    mine = _score_between(road, trees, how, lattice, slot, chosen[slot], chosen, 2 * NEVER)
    least, total = mine - _NEGLIGIBLE, 1.0
    for c in range(lattice.candidates[slot]):
        if c != chosen[slot]:
            score = _score_between(road, trees, how, lattice, slot, c, chosen, least)
            if score >= least:
                total += np.exp((score - mine) / SCALE)
    return 1.0 / total


@compiled
def _decide(
    road: Road, trees: Trees, how: ModelSettings, lattice: Lattice, base: int, upto: int, size: int,
    out: Matched, by: int, due: int, last: Last, v: int,
) -> None:  # fmt: skip
    """Write down the best way, from slot ``base`` up to one, which becomes the vehicle's last position."""
    chosen, candidate = np.empty(size, np.int32), find_best(lattice, size - 1)
    for slot in range(size - 1, -1, -1):
        chosen[slot] = candidate
        candidate = lattice.before[slot, candidate]
    for slot in range(base, upto + 1):
        i, c = lattice.point[slot], chosen[slot]
        edge, offset = lattice.edge[slot, c], lattice.offset[slot, c]
        out.status[i], out.edge[i], out.offset[i], out.aside[i] = ON, edge, offset, lattice.aside[slot, c]
        out.x[i], out.y[i], _, _ = place_on(road, edge, offset)
        out.by[i], out.due[i], out.starts[i] = by, due, slot == 0
        out.confidence[i] = _compute_confidence(road, trees, how, lattice, slot, chosen)
    c = chosen[upto]
    last.edge[v], last.offset[v], last.t[v] = lattice.edge[upto, c], lattice.offset[upto, c], lattice.seen[upto]
    last.x[v], last.y[v], last.jump_t[v] = lattice.x[upto], lattice.y[upto], NONE
    last.confidence[v] = out.confidence[lattice.point[upto]]


@compiled
def _put_last(lattice: Lattice, last: Last, v: int) -> None:
    """Put the vehicle's last position into the first slot: it has one candidate."""
    lattice.point[0], lattice.t[0], lattice.seen[0] = -1, last.t[v], last.t[v]
    lattice.x[0], lattice.y[0] = last.x[v], last.y[v]
    lattice.candidates[0], lattice.edge[0, 0], lattice.offset[0, 0] = 1, last.edge[v], last.offset[v]
    lattice.aside[0, 0], lattice.score[0, 0], lattice.before[0, 0] = 0.0, 0, -1


@compiled
def _drop(lattice: Lattice, last: Last, v: int, upto: int, size: int) -> int:
    """Move the slots after a decided one to the front, behind it; returns how many there are now."""
    _put_last(lattice, last, v)
    for slot in range(upto + 1, size):
        copy_slot(lattice, slot, lattice, slot - upto)
    if size > upto + 1:
        lattice.before[1, : lattice.candidates[1]] = 0
    return size - upto


@compiled
def _agree(
    road: Road, trees: Trees, how: ModelSettings, lattice: Lattice, base: int, size: int,
    out: Matched, by: int, due: int, last: Last, v: int,
) -> int:  # fmt: skip
    """Decide what all ways agree on; returns up to which slot, or -1."""
    if size > _OFTEN and size % _OFTEN:
        return -1
    common = find_common(lattice, size)
    if common >= base:
        _decide(road, trees, how, lattice, base, common, size, out, by, due, last, v)
    return common if common >= base else -1


@compiled
def _give_up(
    road: Road, trees: Trees, how: ModelSettings, lattice: Lattice, base: int, size: int,
    out: Matched, by: int, due: int, last: Last, v: int,
) -> int:  # fmt: skip
    """Decide the oldest position by the way that is best so far; returns how many slots remain.

    What remains is scored again from there, so that it is as if nothing else had ever been possible.
    """
    _decide(road, trees, how, lattice, base, base, size, out, by, due, last, v)
    size = _drop(lattice, last, v, base, size)
    slot = 1
    while slot < size:
        advance(road, trees, how, lattice, slot)
        agreed = _agree(road, trees, how, lattice, 1, slot + 1, out, by, due, last, v)
        if agreed > 0:
            size = _drop(lattice, last, v, agreed, size)
            slot -= agreed
        slot += 1
    return size


@compiled
def _pass_others(
    road: Road,
    done: int,
    processed: int,
    t: Longs,
    x: Floats,
    y: Floats,
    out: Matched,
    by: int,
    due: int,
    last: Last,
    v: int,
) -> int:
    """Return the first undecided position: those that say nothing new, or are on no road, follow those before them."""
    edge, offset, confidence = last.edge[v], last.offset[v], last.confidence[v]
    while done < processed and out.status[done] != WAITS:
        status = out.status[done]
        if status == ON:
            edge, offset, confidence = out.edge[done], out.offset[done], out.confidence[done]
        else:
            out.by[done], out.due[done] = by, due
        if status == _NEAR:
            _put_near(road, edge, offset, x[done], y[done], out, done)
            out.confidence[done] = confidence
        if status == JUMP:
            last.jump_t[v], last.jump_x[v], last.jump_y[v] = t[done], x[done], y[done]
        done += 1
    return done


@compiled
def _put_near(road: Road, edge: int, least: float, x: float, y: float, out: Matched, i: int) -> None:
    """Place a position on an edge, not before an offset: vehicles do not drive backwards."""
    nearest, best, before = np.inf, 0.0, 0.0
    for k in range(road.shape[edge], road.shape[edge + 1] - 1):
        size = np.hypot(road.x[k + 1] - road.x[k], road.y[k + 1] - road.y[k])
        share, distance = project(x, y, road.x[k], road.y[k], road.x[k + 1], road.y[k + 1])
        if distance < nearest:
            nearest, best = distance, before + share * size
        before += size
    offset = max(least, best)
    out.status[i], out.edge[i], out.offset[i] = ON, edge, offset
    out.x[i], out.y[i], dx, dy = place_on(road, edge, offset)
    aside = np.hypot(x - out.x[i], y - out.y[i])
    out.aside[i] = aside if dx * (y - out.y[i]) >= dy * (x - out.x[i]) else -aside


@compiled
def _is_driven(how: ModelSettings, ax: float, ay: float, a: int, bx: float, by: float, b: int) -> bool:
    """Return whether a vehicle can have come from one position to another."""
    return bool(np.hypot(bx - ax, by - ay) <= how.fastest * (b - a) / 1e6 + 6.0 * how.noise)


@compiled
def _is_near(how: ModelSettings, lattice: Lattice, slot: int, t: int, x: float, y: float) -> bool:
    """Return whether a position says nothing that that of a slot does not say."""
    near = np.hypot(x - lattice.x[slot], y - lattice.y[slot]) < _SAME * how.noise
    return bool(near and t - lattice.seen[slot] <= how.gap)


@compiled
def match_points(  # noqa: PLR0912, PLR0915 - one loop over what may happen to a position
    road: Road, trees: Trees, how: ModelSettings, t: Longs, x: Floats, y: Floats, begin: int, end: int,
    until: int, is_over: bool, last: Last, v: int, out: Matched,
) -> int:  # fmt: skip
    """Match the positions ``begin`` to ``end`` of vehicle ``v``; returns the first that is undecided.

    No position before ``until`` will come; with ``is_over``, none at all. ``out.by`` is the position that decided: one
    of these, or -1 if it was ``until`` or the end.
    """
    lattice, size, base, done = make_lattice(32), 0, 0, begin
    if last.edge[v] >= 0:
        _put_last(lattice, last, v)
        size = base = 1
    jump_t, jump_x, jump_y = last.jump_t[v], last.jump_x[v], last.jump_y[v]
    for i in range(begin, end + 1):
        now = t[i] if i < end else until
        while size > base and now > lattice.t[base] + how.lag:
            due, by = lattice.t[base] + how.lag, i if i < end else -1
            size = _give_up(road, trees, how, lattice, base, size, out, by, due, last, v)
            base = 1
            done = _pass_others(road, done, i, t, x, y, out, by, due, last, v)
        if i == end:
            break
        if size and _is_near(how, lattice, size - 1, t[i], x[i], y[i]):
            out.status[i], lattice.seen[size - 1] = _NEAR, t[i]
            if size == base:
                last.t[v] = t[i]
                done = _pass_others(road, done, i + 1, t, x, y, out, i, NEVER_DUE, last, v)
            continue
        lattice = make_room(lattice, size)
        lattice.point[size], lattice.t[size], lattice.seen[size] = i, t[i], t[i]
        if not put_candidates(road, lattice, size, x[i], y[i]):
            out.status[i] = OFF
            if size == base:
                done = _pass_others(road, done, i + 1, t, x, y, out, i, NEVER_DUE, last, v)
            continue
        leads = False
        if size and t[i] - lattice.seen[size - 1] <= how.gap:
            if _is_driven(how, lattice.x[size - 1], lattice.y[size - 1], lattice.seen[size - 1], x[i], y[i], t[i]):
                leads = advance(road, trees, how, lattice, size)
            elif jump_t == NONE or not _is_driven(how, jump_x, jump_y, jump_t, x[i], y[i], t[i]):
                out.status[i] = JUMP
                jump_t, jump_x, jump_y = t[i], x[i], y[i]
                if size == base:
                    done = _pass_others(road, done, i + 1, t, x, y, out, i, NEVER_DUE, last, v)
                continue
        if not leads:
            if size > base:
                _decide(road, trees, how, lattice, base, size - 1, size, out, i, NEVER_DUE, last, v)
                done = _pass_others(road, done, i, t, x, y, out, i, NEVER_DUE, last, v)
            copy_slot(lattice, size, lattice, 0)
            size = base = 0
            begin_slot(how, lattice, 0)
        jump_t = NONE
        size += 1
        agreed = _agree(road, trees, how, lattice, base, size, out, i, NEVER_DUE, last, v)
        if agreed >= 0:
            size, base = _drop(lattice, last, v, agreed, size), 1
            done = _pass_others(road, done, i + 1, t, x, y, out, i, NEVER_DUE, last, v)
    if is_over:
        if size > base:
            _decide(road, trees, how, lattice, base, size - 1, size, out, -1, NEVER_DUE, last, v)
        done = _pass_others(road, done, end, t, x, y, out, -1, NEVER_DUE, last, v)
    return done


@compiled
def match_sequences(
    road: Road, trees: Trees, how: ModelSettings, rows: Longs, t: Longs, x: Floats, y: Floats, until: Longs,
    is_over: bool, vehicle: Longs, last: Last, out: Matched,
) -> Longs:  # fmt: skip
    """Match sequences of positions, each of a vehicle; returns the first undecided position of each."""
    done = np.empty(len(rows) - 1, np.int64)
    for r in range(len(done)):
        done[r] = match_points(
            road, trees, how, t, x, y, rows[r], rows[r + 1], until[r], is_over, last, vehicle[r], out
        )
    return done
