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
    find_likely,
    make_lattice,
    make_room,
    put_candidates,
    score_position,
    score_routes,
    trace_back,
)
from slipstream._roads.matching.routes import Trees
from slipstream._tools.numba_tools import Bools, Bytes, Floats, Ints, Longs, borrow, compiled

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
#: how much worse a way scores that may still prove to be the one that was driven: e to the -4
_OPEN = 4_000_000
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
def _score_between(how: ModelSettings, lattice: Lattice, slot: int, c: int, chosen: Ints) -> int:
    """Score a candidate given the chosen ones before and after."""
    score = score_position(how, lattice.aside[slot, c])
    if slot > 0:
        score += lattice.route[slot, chosen[slot - 1], c]
    if slot < len(chosen) - 1:
        score += lattice.route[slot + 1, c, chosen[slot + 1]]
    return score


@compiled
def _compute_confidence(how: ModelSettings, lattice: Lattice, slot: int, chosen: Ints) -> float:
    """Return how probable the chosen candidate is among all, given the chosen ones before and after."""
    mine = _score_between(how, lattice, slot, chosen[slot], chosen)
    total = 1.0
    for c in range(lattice.candidates[slot]):
        if c != chosen[slot]:
            score = _score_between(how, lattice, slot, c, chosen)
            if score >= mine - _NEGLIGIBLE:
                total += np.exp((score - mine) / SCALE)
    return 1.0 / total


@compiled
def _leads_on(road: Road, how: ModelSettings, lattice: Lattice, slot: int, c: int, d: int) -> bool:
    """Return whether one candidate of a slot leads straight to another, or is it."""
    a, b, turns = lattice.edge[slot, c], lattice.edge[slot, d], road.turns
    if c == d:
        return True
    if turns.length[a] - lattice.offset[slot, c] + lattice.offset[slot, d] > _SAME * how.noise:
        return False
    for i in range(turns.first[a], turns.first[a + 1]):
        if turns.edge[i] == b:
            return bool(turns.extra[i] == 0.0)
    return False


@compiled
def _count_open(road: Road, how: ModelSettings, lattice: Lattice, slot: int, c: int, ways: int) -> int:
    """Return to how many of some candidates of a slot one leads."""
    count = 0
    for d in range(lattice.candidates[slot]):
        if ways >> d & 1 and _leads_on(road, how, lattice, slot, c, d):
            count += 1
    return count


@compiled
def _stay_behind(road: Road, how: ModelSettings, lattice: Lattice, slot: int, chosen: Ints) -> int:
    """Return the candidate by which to decide a slot on which the ways do not agree yet.

    A vehicle that stands at a crossing may leave it by any road. Of the candidates that lead to the best one, the end
    of the road by which it came keeps all roads open.
    """
    end, best = len(chosen) - 1, chosen[slot]
    ways = find_likely(lattice, end, lattice.score[end, chosen[end]] - _OPEN)
    for later in range(end, slot, -1):
        ways = trace_back(lattice, later, ways)
    kept, most = best, _count_open(road, how, lattice, slot, best, ways)
    for c in range(lattice.candidates[slot]):
        # not the scores: those of candidates that no way has may be from before the last decision
        comes = slot == 0 or lattice.route[slot, chosen[slot - 1], c] > NEVER
        leads = slot == end or lattice.route[slot + 1, c, chosen[slot + 1]] > NEVER
        if comes and leads and _leads_on(road, how, lattice, slot, c, best):
            count = _count_open(road, how, lattice, slot, c, ways)
            if count > most:
                kept, most = c, count
    return int(kept)


@compiled
def _decide(
    road: Road, how: ModelSettings, lattice: Lattice, base: int, upto: int, size: int, is_agreed: bool,
    out: Matched, by: int, due: int, last: Last, v: int,
) -> int:  # fmt: skip
    """Write down the best way, from slot ``base`` up to one, which becomes the vehicle's last position.

    Returns the candidate that it is.
    """
    chosen, candidate = np.empty(size, np.int32), find_best(lattice, size - 1)
    for slot in range(size - 1, -1, -1):
        chosen[slot] = candidate
        candidate = lattice.before[slot, candidate]
    if not is_agreed:
        chosen[upto] = _stay_behind(road, how, lattice, upto, chosen)
    for slot in range(base, upto + 1):
        i, c = lattice.point[slot], chosen[slot]
        edge, offset = lattice.edge[slot, c], lattice.offset[slot, c]
        out.status[i], out.edge[i], out.offset[i], out.aside[i] = ON, edge, offset, lattice.aside[slot, c]
        out.x[i], out.y[i], _, _ = place_on(road, edge, offset)
        out.by[i], out.due[i], out.starts[i] = by, due, slot == 0
        out.confidence[i] = _compute_confidence(how, lattice, slot, chosen)
    c = chosen[upto]
    last.edge[v], last.offset[v], last.t[v] = lattice.edge[upto, c], lattice.offset[upto, c], lattice.seen[upto]
    last.x[v], last.y[v], last.jump_t[v] = lattice.x[upto], lattice.y[upto], NONE
    last.confidence[v] = out.confidence[lattice.point[upto]]
    return int(c)


@compiled
def _put_last(lattice: Lattice, last: Last, v: int) -> None:
    """Put the vehicle's last position into the first slot: it has one candidate."""
    lattice.point[0], lattice.t[0], lattice.seen[0] = -1, last.t[v], last.t[v]
    lattice.x[0], lattice.y[0] = last.x[v], last.y[v]
    lattice.candidates[0], lattice.edge[0, 0], lattice.offset[0, 0] = 1, last.edge[v], last.offset[v]
    lattice.aside[0, 0], lattice.score[0, 0], lattice.before[0, 0] = 0.0, 0, -1


@compiled
def _settle(
    road: Road, how: ModelSettings, lattice: Lattice, base: int, upto: int, known: int, size: int, is_agreed: bool,
    out: Matched, by: int, due: int, last: Last, v: int,
) -> int:  # fmt: skip
    """Decide slots up to one by the best way to the last ``known`` one; returns how many remain.

    Those after it move to the front, behind it.
    """
    c = _decide(road, how, lattice, base, upto, known, is_agreed, out, by, due, last, v)
    if upto + 1 < size:
        for d in range(lattice.candidates[upto + 1]):
            lattice.route[upto + 1, 0, d] = lattice.route[upto + 1, c, d]
    _put_last(lattice, last, v)
    for slot in range(upto + 1, size):
        copy_slot(lattice, slot, lattice, slot - upto)
    if upto + 1 < size:
        lattice.before[1, : lattice.candidates[1]] = 0
    return size - upto


@compiled
def _agree(
    road: Road, how: ModelSettings, lattice: Lattice, base: int, known: int, size: int,
    out: Matched, by: int, due: int, last: Last, v: int,
) -> int:  # fmt: skip
    """Decide what all ways to the last ``known`` slot agree on; returns how many slots remain, or -1 if nothing."""
    if known > _OFTEN and known % _OFTEN:
        return -1
    common = find_common(lattice, known)
    if common < base:
        return -1
    return _settle(road, how, lattice, base, common, known, size, True, out, by, due, last, v)


@compiled
def _give_up(
    road: Road, how: ModelSettings, lattice: Lattice, base: int, size: int,
    out: Matched, by: int, due: int, last: Last, v: int,
) -> int:  # fmt: skip
    """Decide the oldest position without agreement, by the way that is best so far; returns how many slots remain.

    What remains is scored again from there, so that it is as if nothing else had ever been possible.
    """
    size, slot = _settle(road, how, lattice, base, base, size, size, False, out, by, due, last, v), 1
    while slot < size:
        advance(how, lattice, slot)
        left = _agree(road, how, lattice, 1, slot + 1, size, out, by, due, last, v)
        if left > 0:
            slot, size = slot - (size - left), left
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
    road: Road, trees: Trees, how: ModelSettings, room: Lattice, t: Longs, x: Floats, y: Floats, begin: int, end: int,
    until: int, is_over: bool, last: Last, v: int, out: Matched,
) -> tuple[int, Lattice]:  # fmt: skip
    """Match the positions ``begin`` to ``end`` of vehicle ``v``; returns the first that is undecided, and the room.

    No position before ``until`` will come; with ``is_over``, none at all. ``out.by`` is the position that decided: one
    of these, or -1 if it was ``until`` or the end.
    """
    lattice, size, base, done = borrow(room), 0, 0, begin
    if last.edge[v] >= 0:
        _put_last(lattice, last, v)
        size = base = 1
    jump_t, jump_x, jump_y = last.jump_t[v], last.jump_x[v], last.jump_y[v]
    for i in range(begin, end + 1):
        now = t[i] if i < end else until
        while size > base and now > lattice.t[base] + how.lag:
            due, by = lattice.t[base] + how.lag, i if i < end else -1
            size = _give_up(road, how, lattice, base, size, out, by, due, last, v)
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
        if size == len(lattice.t):
            room = make_room(room)
            lattice = borrow(room)
        lattice.point[size], lattice.t[size], lattice.seen[size] = i, t[i], t[i]
        if not put_candidates(road, lattice, size, x[i], y[i]):
            out.status[i] = OFF
            if size == base:
                done = _pass_others(road, done, i + 1, t, x, y, out, i, NEVER_DUE, last, v)
            continue
        leads = False
        if size and t[i] - lattice.seen[size - 1] <= how.gap:
            if _is_driven(how, lattice.x[size - 1], lattice.y[size - 1], lattice.seen[size - 1], x[i], y[i], t[i]):
                score_routes(road, trees, how, lattice, size)
                leads = advance(how, lattice, size)
            elif jump_t == NONE or not _is_driven(how, jump_x, jump_y, jump_t, x[i], y[i], t[i]):
                out.status[i] = JUMP
                jump_t, jump_x, jump_y = t[i], x[i], y[i]
                if size == base:
                    done = _pass_others(road, done, i + 1, t, x, y, out, i, NEVER_DUE, last, v)
                continue
        if not leads:
            if size > base:
                _decide(road, how, lattice, base, size - 1, size, True, out, i, NEVER_DUE, last, v)
                done = _pass_others(road, done, i, t, x, y, out, i, NEVER_DUE, last, v)
            copy_slot(lattice, size, lattice, 0)
            size = base = 0
            begin_slot(how, lattice, 0)
        jump_t = NONE
        size += 1
        left = _agree(road, how, lattice, base, size, size, out, i, NEVER_DUE, last, v)
        if left > 0:
            size, base = left, 1
            done = _pass_others(road, done, i + 1, t, x, y, out, i, NEVER_DUE, last, v)
    if is_over:
        if size > base:
            _decide(road, how, lattice, base, size - 1, size, True, out, -1, NEVER_DUE, last, v)
        done = _pass_others(road, done, end, t, x, y, out, -1, NEVER_DUE, last, v)
    return done, room


@compiled
def match_sequences(
    road: Road, trees: Trees, how: ModelSettings, rows: Longs, t: Longs, x: Floats, y: Floats, until: Longs,
    is_over: bool, vehicle: Longs, last: Last, out: Matched,
) -> Longs:  # fmt: skip
    """Match sequences of positions, each of a vehicle; returns the first undecided position of each."""
    done, room = np.empty(len(rows) - 1, np.int64), make_lattice(32)
    road, trees, t, x, y, last, out = borrow((road, trees, t, x, y, last, out))
    for r in range(len(done)):
        done[r], room = match_points(
            road, trees, how, room, t, x, y, rows[r], rows[r + 1], until[r], is_over, last, vehicle[r], out
        )  # fmt: skip
    return done
