"""Simulate one direction of one expressway, second by second: car following, lane changing, ramps, accidents.

Car following is the Intelligent Driver Model (Treiber, Hennecke, Helbing: Congested traffic states in empirical
observations and microscopic simulations, 2000), lane changing is MOBIL (Kesting, Treiber, Helbing: General
lane-changing model MOBIL for car-following models, 2007). Lengths are in feet and times in seconds; a place is ``u``,
the feet from the end where this direction starts, so that both directions run the same code.

Lane 1 is the outer travel lane: the entry lane 0 merges into it and the exit lane 4 leaves from it. Each travel lane
is an array of car slots ordered from the front; a second moves every car behind its leader in one sweep, then lets
cars change lanes, to the left in even seconds and to the right in odd ones, so that no two cars claim one gap from
two sides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slipstream._feeds.tuples import MILE, REPORT_EVERY, ROAD, SEGMENTS
from slipstream._tools.numba_tools import Bytes, Floats, Ints, compiled

MPH = 5280 / 3600  # feet per second
LENGTH = 18.0  # of a car: 5.5 m, the mean with some vans and lorries
JAM_GAP = 5.0  # IDM s0: to the car ahead at a standstill
HEADWAY = 1.0  # IDM T
ACCELERATION = 4.6  # IDM a: 1.4 m/s2
COMFORT = 6.6  # IDM b: 2 m/s2
TWICE_ROOT_AB = 2.0 * float(np.sqrt(ACCELERATION * COMFORT))
HARDEST = 26.0  # no car brakes harder: 8 m/s2
POLITENESS = 0.2  # MOBIL p
WORTH_IT = 0.3  # MOBIL threshold
SAFE = 13.0  # MOBIL b_safe: no car must brake harder for an optional change
URGENT = 22.0  # the same for a mandatory change
INWARD = 0.3  # MOBIL bias: through traffic avoids lane 1, where others enter and leave
FORESIGHT = 0.2  # per second: a lane whose cars are faster is worth more than its next gap shows
IMPATIENT = 25.0 * MPH  # below this speed, a driver treats a change as mandatory
THINK_EVERY = 4  # seconds between a driver's decisions about changing lanes
FREE = 1e9  # a gap without an end

# feet that must be free ahead of and behind a car that changes lanes: optionally, to reach an exit, from a ramp, and
# from the last part of a ramp, where it forces its way in
CHANGE_GAP, EXIT_GAP, MERGE_GAP, PUSH_GAP = 5.0, 3.0, 4.0, 5.0

RAMP_END = 1700.0  # feet into the segment: the entry lane ends here
RAMP_SPEED = 40 * MPH
PUSH_FROM = 600.0  # feet before the end of the entry lane: a driver accepts any gap that fits
RAMP_ROOM = 40  # cars an entry lane can hold
FULL = 350  # cars in a segment: the light at its ramp turns red
EXIT_FROM = 2300.0  # feet into the exit segment: the exit lane starts here
EXIT_BY = 3000.0  # a car that is not in lane 1 by now crosses over to the exit immediately
EXIT_SPEED = 36 * MPH
PREPARE = 5000.0  # feet before the exit: start to move to lane 1
GAPE_WITHIN = 1000.0  # feet before an accident: drivers slow down to look
GAPE_SPEED = 6 * MPH
WARNED_WITHIN = 5.0 * MILE  # feet before a known accident: alerted drivers slow down
WARNED_SPEED = 20 * MPH
PAIR_WITHIN = 1500.0  # the second car of an accident follows the first this closely

DRIVING, BRAKING, BLIND, WRECKED = 0, 1, 2, 3  # the states of a car in an accident
WAITING, CRASHING, STOPPED, CLEARED = 0, 1, 2, 3  # the states of an accident


class PlannedTrips(NamedTuple):
    """The trips planned for one direction, sorted by planned start."""

    start: Ints
    entry: Ints  # segment, counted in driving direction
    exit: Ints
    offset: Floats  # feet into the entry segment
    first_speed: Floats
    desired_speed: Floats


class AccidentPlan(NamedTuple):
    """The accidents planned for one direction."""

    when: Ints
    where: Floats
    lane: Ints
    clear_after: Ints  # seconds from detection to clearing


class Wrecks(NamedTuple):
    """The state of the planned accidents."""

    stage: Ints
    first: Ints  # slots while it lasts, then trips
    second: Ints
    stopped: Ints
    detected: Ints
    cleared: Ints
    place: Floats


class DirectionState(NamedTuple):
    """The state of one direction."""

    u: Floats
    v: Floats
    desired: Floats
    trip: Ints
    exit_at: Floats
    phase: Ints
    trouble: Ints
    still: Ints  # reports from the same place while wrecked
    target: Ints
    lanes: Ints  # [lane - 1, place in order], slots from the front
    counts: Ints  # cars in lanes 1..3, in the exit lane, free slots
    ramps: Ints  # [segment, place], slots from the front
    ramp_counts: Ints
    cars: Ints  # in each segment, a second ago, exit lanes apart
    queue_head: Ints  # trips that wait for room on their ramp
    queue_tail: Ints
    queue_next: Ints
    leaving: Ints
    free: Ints
    scratch: Ints
    next_trip: Ints
    ended: Ints  # second in which each trip ended, -1 while it lasts
    began: Ints


class ReportBuffer(NamedTuple):
    """Position reports of a time span, in the order in which they were made."""

    time: Ints
    trip: Ints
    speed: Bytes
    lane: Bytes
    pos: Ints


def make_road(trips: int, room: int) -> DirectionState:
    """Return an empty road with room for ``room`` cars at once."""

    def ints(*shape: int, value: int = 0) -> Ints:
        return np.full(shape, value, dtype=np.int32)

    return DirectionState(
        u=np.zeros(room),
        v=np.zeros(room),
        desired=np.zeros(room),
        trip=ints(room),
        exit_at=np.zeros(room),
        phase=ints(room),
        trouble=ints(room),
        still=ints(room),
        target=ints(room),
        lanes=ints(3, room),
        counts=np.array([0, 0, 0, 0, room], dtype=np.int32),
        ramps=ints(SEGMENTS, RAMP_ROOM),
        ramp_counts=ints(SEGMENTS),
        cars=ints(SEGMENTS),
        queue_head=ints(SEGMENTS, value=-1),
        queue_tail=ints(SEGMENTS, value=-1),
        queue_next=ints(trips, value=-1),
        leaving=ints(room),
        free=np.arange(room - 1, -1, -1, dtype=np.int32),
        scratch=ints(room),
        next_trip=ints(1),
        ended=ints(trips, value=-1),
        began=ints(trips, value=-1),
    )


def make_wrecks(accidents: int) -> Wrecks:
    """Return accidents that have not happened yet."""
    first, second, stopped, detected, cleared = (np.full(accidents, -1, dtype=np.int32) for _ in range(5))
    stage = np.zeros(accidents, dtype=np.int32)
    return Wrecks(stage, first, second, stopped, detected, cleared, np.zeros(accidents))


def make_reports(room: int) -> ReportBuffer:
    """Return an empty buffer for ``room`` reports."""
    return ReportBuffer(
        np.empty(room, dtype=np.int32),
        np.empty(room, dtype=np.int32),
        np.empty(room, dtype=np.uint8),
        np.empty(room, dtype=np.uint8),
        np.empty(room, dtype=np.int32),
    )


@compiled
def follow(v: float, desired: float, gap: float, leader_v: float) -> float:
    """Return the IDM acceleration of a car at speed ``v`` that is ``gap`` feet behind a car at ``leader_v``."""
    ratio = v / desired
    free = 1.0 - ratio * ratio * ratio * ratio
    if gap >= FREE:
        return max(ACCELERATION * free, -HARDEST)
    desired_gap = JAM_GAP + max(0.0, v * HEADWAY + v * (v - leader_v) / TWICE_ROOT_AB)
    pressure = desired_gap / max(gap, 0.1)
    return max(ACCELERATION * (free - pressure * pressure), -HARDEST)


@compiled
def report(out: ReportBuffer, n: int, road: DirectionState, slot: int, t: int, lane: int, east: bool) -> int:
    """Write the position report of one car; return the new number of reports."""
    u = min(int(road.u[slot]), ROAD - 1)
    out.time[n] = t
    out.trip[n] = road.trip[slot]
    out.speed[n] = min(int(road.v[slot] / MPH + 0.5), 100)
    out.lane[n] = lane
    out.pos[n] = u if east else ROAD - 1 - u
    if road.trouble[slot] == WRECKED:
        road.still[slot] += 1
    return n + 1


@compiled
def enqueue(road: DirectionState, trips: PlannedTrips, t: int) -> None:
    """Queue the trips that start now at their ramps."""
    k = road.next_trip[0]
    while k < trips.start.size and trips.start[k] <= t:
        segment = trips.entry[k]
        if road.queue_tail[segment] < 0:
            road.queue_head[segment] = k
        else:
            road.queue_next[road.queue_tail[segment]] = k
        road.queue_tail[segment] = k
        k += 1
    road.next_trip[0] = k


@compiled
def enter(road: DirectionState, trips: PlannedTrips, t: int) -> None:
    """Move the first waiting car onto every ramp with room for it."""
    for segment in range(SEGMENTS):
        k = road.queue_head[segment]
        held = road.ramp_counts[segment]
        if k < 0 or held >= RAMP_ROOM or road.cars[segment] >= FULL or road.counts[4] == 0:
            continue
        u = segment * MILE + trips.offset[k]
        if held and road.u[road.ramps[segment, held - 1]] < u + 3.0 * LENGTH:
            continue
        road.queue_head[segment] = road.queue_next[k]
        if road.queue_next[k] < 0:
            road.queue_tail[segment] = -1
        road.counts[4] -= 1
        slot = road.free[road.counts[4]]
        road.u[slot] = u
        road.v[slot] = trips.first_speed[k]
        road.desired[slot] = trips.desired_speed[k]
        road.trip[slot] = k
        road.exit_at[slot] = trips.exit[k] * MILE + EXIT_FROM
        road.phase[slot] = t % REPORT_EVERY
        road.trouble[slot] = DRIVING
        road.still[slot] = 0
        road.began[k] = t
        road.ramps[segment, held] = slot
        road.ramp_counts[segment] = held + 1


@compiled
def move(road: DirectionState, slot: int, limit: float, gap: float, leader_v: float, wall: float) -> None:
    """Move one car for a second, never beyond ``wall``, the new position of its leader."""
    v = road.v[slot]
    trouble = road.trouble[slot]
    if trouble == WRECKED:
        return
    if trouble == BLIND:
        new_v = v
    elif trouble == BRAKING:
        new_v = max(0.0, v - HARDEST)
    else:
        new_v = max(0.0, v + follow(v, min(road.desired[slot], limit), gap, leader_v))
        if trouble == DRIVING and road.u[slot] + 0.5 * (v + new_v) > wall:
            room = max(0.0, wall - road.u[slot])
            road.u[slot] += room
            road.v[slot] = min(new_v, room)
            return
    road.u[slot] += 0.5 * (v + new_v)
    road.v[slot] = new_v


@compiled
def speed_limit(wrecks: Wrecks, u: float) -> float:
    """Return the speed limit near a visible or reported accident."""
    limit = FREE
    for k in range(wrecks.stage.size):
        ahead = wrecks.place[k] - u
        if wrecks.stage[k] != STOPPED or ahead < 0.0:
            continue
        if ahead < GAPE_WITHIN:
            return GAPE_SPEED
        if ahead < WARNED_WITHIN and wrecks.detected[k] >= 0:
            limit = WARNED_SPEED
    return limit


@compiled
def drive_lane(road: DirectionState, wrecks: Wrecks, lane: int, t: int, out: ReportBuffer, n: int, east: bool) -> int:
    """Report and move all cars of a travel lane, from the front."""
    order = road.lanes[lane - 1]
    now = t % REPORT_EVERY
    leader_u, leader_v, leader_now = FREE, 0.0, FREE
    for place in range(road.counts[lane - 1]):
        slot = order[place]
        if road.phase[slot] == now:
            n = report(out, n, road, slot, t, lane, east)
        u, v = road.u[slot], road.v[slot]
        road.cars[min(int(u / MILE), SEGMENTS - 1)] += 1
        gap = leader_u - u - LENGTH if leader_u < FREE else FREE
        move(road, slot, speed_limit(wrecks, u), gap, leader_v, leader_now - LENGTH - 2.0)
        leader_u, leader_v, leader_now = u, v, road.u[slot]
    return n


@compiled
def drive_ramps(road: DirectionState, t: int, out: ReportBuffer, n: int, east: bool) -> int:
    """Report and move the cars on all entry lanes; the lane's end is a standing obstacle."""
    now = t % REPORT_EVERY
    for segment in range(SEGMENTS):
        end = segment * MILE + RAMP_END
        leader_u, leader_v, leader_now = end + LENGTH, 0.0, end + LENGTH
        road.cars[segment] += road.ramp_counts[segment]
        for place in range(road.ramp_counts[segment]):
            slot = road.ramps[segment, place]
            if road.phase[slot] == now:
                n = report(out, n, road, slot, t, 0, east)
            u, v = road.u[slot], road.v[slot]
            move(road, slot, RAMP_SPEED, leader_u - u - LENGTH, leader_v, leader_now - LENGTH - 2.0)
            leader_u, leader_v, leader_now = u, v, road.u[slot]
    return n


@compiled
def drive_exits(road: DirectionState, t: int, out: ReportBuffer, n: int, east: bool) -> int:
    """Report and move the cars on all exit lanes; a report from there is the last of its trip."""
    now = t % REPORT_EVERY
    place = 0
    while place < road.counts[3]:
        slot = road.leaving[place]
        if road.phase[slot] == now:
            n = report(out, n, road, slot, t, 4, east)
            road.ended[road.trip[slot]] = t
            road.counts[3] -= 1
            road.leaving[place] = road.leaving[road.counts[3]]
            road.free[road.counts[4]] = slot
            road.counts[4] += 1
            continue
        end = road.exit_at[slot] - EXIT_FROM + MILE - 5.0
        move(road, slot, EXIT_SPEED, FREE, 0.0, end)
        place += 1
    return n


@compiled
def gap_allows(road: DirectionState, slot: int, ahead: int, behind: int, bearable: float, closest: float) -> bool:
    """Return whether ``slot`` fits between two cars of the next lane without braking harder than ``bearable``."""
    u, v = road.u[slot], road.v[slot]
    if ahead >= 0:
        gap = road.u[ahead] - u - LENGTH
        if gap < closest or follow(v, road.desired[slot], gap, road.v[ahead]) < -bearable:
            return False
    if behind >= 0:
        gap = u - road.u[behind] - LENGTH
        trouble = road.trouble[behind]
        # a blind driver leaves no gap; a wreck does not come closer
        if gap < closest or trouble == BLIND:
            return False
        if trouble == DRIVING and follow(road.v[behind], road.desired[behind], gap, v) < -bearable:
            return False
    return True


@compiled
def pull(road: DirectionState, slot: int, ahead: int) -> float:
    """Return the acceleration of ``slot`` behind ``ahead`` (-1: none)."""
    if ahead < 0:
        return follow(road.v[slot], road.desired[slot], FREE, 0.0)
    return follow(road.v[slot], road.desired[slot], road.u[ahead] - road.u[slot] - LENGTH, road.v[ahead])


@compiled
def is_worth_it(
    road: DirectionState, slot: int, leader: int, follower: int, ahead: int, behind: int, bias: float
) -> bool:
    """Return whether MOBIL's incentive, own gain plus a share of the followers', is worth a change."""
    gain = pull(road, slot, ahead) - pull(road, slot, leader)
    others = 0.0
    if behind >= 0:
        others += pull(road, behind, slot) - pull(road, behind, ahead)
    if follower >= 0:
        others += pull(road, follower, leader) - pull(road, follower, slot)
    return gain + POLITENESS * others + bias > WORTH_IT


@compiled
def choose_lanes(road: DirectionState, source: int, goal: int, t: int) -> int:
    """Mark the cars of lane ``source`` that change to ``goal``; return how many."""
    order, n = road.lanes[source - 1], road.counts[source - 1]
    others, m = road.lanes[goal - 1], road.counts[goal - 1]
    j = moved = 0
    for place in range(n):
        slot = order[place]
        u = road.u[slot]
        while j < m and road.u[others[j]] >= u:
            j += 1
        road.target[slot] = source
        if road.trouble[slot] != DRIVING:
            continue
        to_exit = road.exit_at[slot] - u
        must = to_exit < PREPARE
        if must and goal > source:
            continue
        if not must and (slot + t // 2) % (THINK_EVERY // 2) != 0:
            continue
        ahead = others[j - 1] if j > 0 else -1
        behind = others[j] if j < m else -1
        if must:
            goes = gap_allows(road, slot, ahead, behind, URGENT, EXIT_GAP)
        else:
            leader = order[place - 1] if place > 0 else -1
            bias = INWARD if source == 1 else -INWARD if goal == 1 else 0.0
            if ahead >= 0 and leader >= 0:
                bias += FORESIGHT * (road.v[ahead] - road.v[leader])
            follower = order[place + 1] if place + 1 < n else -1
            bearable = URGENT if road.v[slot] < IMPATIENT else SAFE
            goes = gap_allows(road, slot, ahead, behind, bearable, CHANGE_GAP) and is_worth_it(
                road, slot, leader, follower, ahead, behind, bias
            )
        if goes:
            road.target[slot] = goal
            moved += 1
    return moved


@compiled
def merge(road: DirectionState, goal: int, incoming: Ints, arrivals: int) -> None:
    """Merge ``incoming`` cars (ordered from the front) with those that stay in lane ``goal``."""
    order = road.lanes[goal - 1]
    n = road.counts[goal - 1]
    kept = 0
    for place in range(n):
        slot = order[place]
        if road.target[slot] == goal:
            road.scratch[kept] = slot
            kept += 1
    i = j = k = 0
    while i < kept or j < arrivals:
        if j >= arrivals or (i < kept and road.u[road.scratch[i]] >= road.u[incoming[j]]):
            order[k] = road.scratch[i]
            i += 1
        else:
            order[k] = incoming[j]
            road.target[incoming[j]] = goal
            j += 1
        k += 1
    road.counts[goal - 1] = k


@compiled
def movers(road: DirectionState, source: int, goal: int, into: Ints) -> int:
    """Collect the cars of lane ``source`` marked for ``goal``."""
    found = 0
    for place in range(road.counts[source - 1]):
        slot = road.lanes[source - 1, place]
        if road.target[slot] == goal:
            into[found] = slot
            found += 1
    return found


@compiled
def join_from_ramps(road: DirectionState, into: Ints) -> int:
    """Remove the cars from the ramps that find a gap in lane 1; collect them ordered from the front."""
    others, m = road.lanes[0], road.counts[0]
    j = found = 0
    for segment in range(SEGMENTS - 1, -1, -1):
        kept = 0
        for place in range(road.ramp_counts[segment]):
            slot = road.ramps[segment, place]
            u = road.u[slot]
            while j < m and road.u[others[j]] >= u:
                j += 1
            ahead = others[j - 1] if j > 0 else -1
            behind = others[j] if j < m else -1
            left = segment * MILE + RAMP_END - u
            pushes = left < PUSH_FROM
            moving = pushes or road.v[slot] > 30.0 * MPH
            clear = found == 0 or road.u[into[found - 1]] - u > 2.0 * LENGTH
            bearable, closest = (HARDEST, PUSH_GAP) if pushes else (URGENT, MERGE_GAP)
            if moving and clear and gap_allows(road, slot, ahead, behind, bearable, closest):
                into[found] = slot
                found += 1
            else:
                road.ramps[segment, kept] = slot
                kept += 1
        road.ramp_counts[segment] = kept
    return found


@compiled
def stay(road: DirectionState) -> None:
    """Mark all cars to stay in their lanes."""
    for lane in range(1, 4):
        for place in range(road.counts[lane - 1]):
            road.target[road.lanes[lane - 1, place]] = lane


@compiled
def change_lanes(road: DirectionState, incoming: Ints, t: int) -> None:
    """Change lanes: to the left and from the ramps in even seconds, to the right in odd ones."""
    stay(road)
    if t % 2 == 0:
        choose_lanes(road, 2, 3, t)
        choose_lanes(road, 1, 2, t)
        merge(road, 3, incoming, movers(road, 2, 3, incoming))
        merge(road, 2, incoming, movers(road, 1, 2, incoming))
        found = join_from_ramps(road, incoming)
        merge(road, 1, incoming, found)
    else:
        choose_lanes(road, 2, 1, t)
        choose_lanes(road, 3, 2, t)
        merge(road, 1, incoming, movers(road, 2, 1, incoming))
        merge(road, 2, incoming, movers(road, 3, 2, incoming))
        merge(road, 3, incoming, 0)


@compiled
def take_exits(road: DirectionState) -> None:
    """Move the cars that have reached their exit into the exit lane."""
    for lane in range(1, 4):
        order, kept = road.lanes[lane - 1], 0
        for place in range(road.counts[lane - 1]):
            slot = order[place]
            beyond = road.u[slot] - road.exit_at[slot]
            if road.trouble[slot] == DRIVING and beyond >= (0.0 if lane == 1 else EXIT_BY - EXIT_FROM):
                road.leaving[road.counts[3]] = slot
                road.counts[3] += 1
            else:
                order[kept] = slot
                kept += 1
        road.counts[lane - 1] = kept


@compiled
def pick_pair(road: DirectionState, lane: int, where: float) -> int:
    """Return the index in lane of the car nearest to ``where`` with a close follower; -1 if there is none."""
    order = road.lanes[lane - 1]
    best, nearest = -1, 2.0 * ROAD
    for place in range(road.counts[lane - 1] - 1):
        first, second = order[place], order[place + 1]
        distance = abs(road.u[first] - where)
        close = road.u[first] - road.u[second] < PAIR_WITHIN
        far_from_exit = min(road.exit_at[first] - road.u[first], road.exit_at[second] - road.u[second]) > MILE
        unhurt = road.trouble[first] == DRIVING and road.trouble[second] == DRIVING
        if distance < nearest and close and far_from_exit and unhurt and road.v[second] > 5.0:
            best, nearest = place, distance
    return best


@compiled
def update_accidents(road: DirectionState, plan: AccidentPlan, wrecks: Wrecks, t: int) -> None:
    """Start, finish and clear accidents."""
    for k in range(plan.when.size):
        stage = wrecks.stage[k]
        if stage == WAITING and t >= plan.when[k]:
            place = pick_pair(road, plan.lane[k], plan.where[k])
            if place >= 0:
                first, second = road.lanes[plan.lane[k] - 1, place], road.lanes[plan.lane[k] - 1, place + 1]
                road.trouble[first], road.trouble[second] = BRAKING, BLIND
                wrecks.first[k], wrecks.second[k], wrecks.stage[k] = first, second, CRASHING
        elif stage == CRASHING:
            crash(road, wrecks, k, t)
        elif stage == STOPPED:
            await_clearing(road, plan, wrecks, k, t)


@compiled
def crash(road: DirectionState, wrecks: Wrecks, k: int, t: int) -> None:
    """Stop the first car; the second does not see it and stops at the same place."""
    first, second = wrecks.first[k], wrecks.second[k]
    if road.trouble[first] == BRAKING and road.v[first] == 0.0:
        road.trouble[first] = WRECKED
    reached = road.u[second] >= road.u[first] - LENGTH
    if reached:
        road.u[second], road.v[second], road.v[first] = road.u[first], 0.0, 0.0
        road.trouble[first] = road.trouble[second] = WRECKED
        wrecks.stage[k], wrecks.stopped[k], wrecks.place[k] = STOPPED, t, road.u[first]


@compiled
def await_clearing(road: DirectionState, plan: AccidentPlan, wrecks: Wrecks, k: int, t: int) -> None:
    """Detect the accident after four reports of both cars from the same place; clear the road some time later."""
    first, second = wrecks.first[k], wrecks.second[k]
    if wrecks.detected[k] < 0 and road.still[first] >= 4 and road.still[second] >= 4:
        wrecks.detected[k] = t - 1
    if wrecks.detected[k] >= 0 and t >= wrecks.detected[k] + plan.clear_after[k]:
        for slot in (first, second):
            road.trouble[slot] = DRIVING
            road.still[slot] = 0
        wrecks.cleared[k], wrecks.stage[k] = t, CLEARED
        wrecks.first[k], wrecks.second[k] = road.trip[first], road.trip[second]


@compiled
def simulate(
    road: DirectionState,
    trips: PlannedTrips,
    plan: AccidentPlan,
    wrecks: Wrecks,
    out: ReportBuffer,
    incoming: Ints,
    since: int,
    until: int,
    east: bool,
) -> int:
    """Run the seconds ``since`` to ``until`` (exclusive); return the number of reports written to ``out``."""
    n = 0
    for t in range(since, until):
        enqueue(road, trips, t)
        enter(road, trips, t)
        n = drive_exits(road, t, out, n, east)
        road.cars[:] = 0
        for lane in range(1, 4):
            n = drive_lane(road, wrecks, lane, t, out, n, east)
        n = drive_ramps(road, t, out, n, east)
        update_accidents(road, plan, wrecks, t + 1)
        change_lanes(road, incoming, t)
        take_exits(road)
    return n
