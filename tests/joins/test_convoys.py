"""Convoys are those that trying every set of objects finds."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream._joins.convoys import number_encounters, sweep


@st.composite
def meetings_of_few(draw, objects=5):
    """Meetings of each pair: disjoint and not touching, as the join returns them."""
    out = []
    for a, b in combinations(range(objects), 2):
        clock = draw(st.integers(0, 6))
        for _ in range(draw(st.integers(0, 2))):
            end = clock + draw(st.integers(0, 6))
            out.append((a, b, clock, end))
            clock = end + draw(st.integers(1, 5))
    return out


def connected(members, edges):
    """Whether all members are in one group of those whom the edges connect, in which others may be as well."""
    reached = {members[0]}
    while more := {n for edge in edges if reached & set(edge) for n in edge} - reached:
        reached |= more
    return set(members) <= reached


def by_trying(rows, duration, size):
    times = sorted({t for row in rows for t in row[2:]})
    slices = [(b, e, [row[:2] for row in rows if row[2] <= b and e <= row[3]]) for b, e in pairwise(times)]
    objects = sorted({n for row in rows for n in row[:2]})
    runs = []
    for count in range(size, len(objects) + 1):
        for members in combinations(objects, count):
            start = None
            for begin, end, edges in [*slices, (times[-1], None, [])]:
                together = connected(members, edges)
                if together and start is None:
                    start = begin
                if not together and start is not None:
                    runs.append((frozenset(members), start, begin))
                    start = None
                del end
    long = [run for run in runs if run[2] - run[1] >= duration]
    return {
        run for run in long if not any(o != run and run[0] <= o[0] and o[1] <= run[1] and run[2] <= o[2] for o in long)
    }


def by_sweeping(rows, duration, size):
    found = list(sweep(*map(list, zip(*rows, strict=True)), duration=duration, size=size))
    sets = [(frozenset(k for k in range(8) if c.members >> k & 1), c.begin, c.end) for c in found]
    assert len(sets) == len(set(sets))
    return set(sets)


@settings(max_examples=300)
@given(meetings_of_few(), st.integers(1, 6), st.integers(2, 4))
def test_convoys_are_all_that_are_as_large_and_long_as_can_be(rows, duration, size):
    if rows:
        assert by_sweeping(rows, duration, size) == by_trying(rows, duration, size)


@settings(max_examples=200)
@given(meetings_of_few(), st.integers(1, 6), st.integers(2, 3))
def test_encounters_can_be_swept_independently(rows, duration, size):
    if not rows:
        return
    numbers = number_encounters(*np.array(rows, np.int64).T.copy())
    parts = [[row for row, n in zip(rows, numbers, strict=True) if n == number] for number in set(numbers.tolist())]
    together = [by_sweeping(part, duration, size) for part in parts]
    assert set().union(*together) == by_sweeping(rows, duration, size)
    assert sum(map(len, together)) == len(set().union(*together))
    for one, other in combinations(parts, 2):  # no object in both at once
        for a, b in ((a, b) for a in one for b in other if set(a[:2]) & set(b[:2])):
            assert a[3] < b[2] or b[3] < a[2]


def test_a_pair_that_stays_longer_than_a_third_is_a_convoy_of_its_own():
    rows = [(0, 1, 0, 100), (1, 2, 20, 60)]
    assert by_sweeping(rows, 30, 2) == {(frozenset({0, 1}), 0, 100), (frozenset({0, 1, 2}), 20, 60)}
    assert by_sweeping(rows, 30, 3) == {(frozenset({0, 1, 2}), 20, 60)}
    assert by_sweeping(rows, 50, 3) == set()
