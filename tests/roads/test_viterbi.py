"""Map matching: what a plain search finds, in any pieces, with any lag."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.matching import Matching, PlainRoads
from slipstream._errors import BadArgument
from slipstream._roads.importing.graph_building import build
from slipstream._roads.matching.matcher import Matcher
from slipstream._roads.matching.model import DETOUR, U_TURN, Model
from slipstream._roads.matching.viterbi import ON, STATUS, Matched, no_last
from slipstream._roads.street_network import Street, StreetNetwork, Tags

SECOND = 1_000_000
NOISE = 10.0


def street(*places: tuple[float, float], oneway: int = 0) -> Street:
    return Street(50, [(*a, *b) for a, b in pairwise(places)], Tags(oneway=oneway))


@st.composite
def towns(draw: st.DrawFn) -> StreetNetwork:
    """Streets between corners of blocks of about 200 m, some of them one-way; some turns are forbidden."""
    corner = st.tuples(st.integers(0, 2), st.integers(0, 2))
    place = {(i, k): (200.0 * i + 17 * k, 190.0 * k - 11 * i) for i in range(3) for k in range(3)}
    pairs = draw(st.sets(st.tuples(corner, corner), min_size=1, max_size=4))
    streets = [street(place[a], place[b], oneway=draw(st.sampled_from((0, 0, 1)))) for a, b in sorted(pairs) if a != b]
    network = build(streets or [street(place[0, 0], place[1, 1])])
    turns = [
        (a, b)
        for a in range(network.edges)
        for b in range(network.first[network.target[a]], network.first[network.target[a] + 1])
    ]
    banned = draw(st.lists(st.sampled_from(turns), max_size=2, unique=True)) if turns else []
    return replace(
        network,
        banned_from=np.array([a for a, _ in banned], np.int32),
        banned_to=np.array([b for _, b in banned], np.int32),
    )


@st.composite
def drives(draw: st.DrawFn, most: int = 5) -> tuple[list[float], list[tuple[float, float]]]:
    """Positions on and off the roads, jumps among them."""
    count = draw(st.integers(1, most))
    near = st.tuples(st.floats(-60, 500), st.floats(-60, 450))
    far = st.tuples(st.floats(2000, 9000), st.just(0.0))
    places = [draw(st.one_of(near, near, near, near, far)) for _ in range(count)]
    t = np.cumsum([draw(st.sampled_from((1.0, 5.0, 15.0, 130.0))) for _ in range(count)]).tolist()
    return t, [(round(x, 1), round(y, 1)) for x, y in places]


def plain(network: StreetNetwork) -> PlainRoads:
    return PlainRoads(
        [[(x, y) for x, y in network.places(edge).tolist()] for edge in range(network.edges)],
        list(zip(network.source.tolist(), network.target.tolist(), strict=True)),
        network.reverse.tolist(),
        set(zip(network.banned_from.tolist(), network.banned_to.tolist(), strict=True)),
        U_TURN * NOISE,
    )


def arrays(t: list[float], places: list[tuple[float, float]]) -> tuple[Any, Any, Any]:
    where = np.array(places).reshape(-1, 2)
    return (np.array(t) * SECOND).astype(np.int64), where[:, 0].copy(), where[:, 1].copy()


@settings(max_examples=150)
@given(network=towns(), drive=drives())
def test_the_best_of_all_ways_is_found(network: StreetNetwork, drive: Any) -> None:
    t, places = drive
    model = Model(noise=NOISE)
    oracle = Matching(plain(network), NOISE, DETOUR * NOISE, model.metres, model.gap, model.fastest)
    expected = oracle.match(t, places)
    found = Matcher(network, model).match(np.array([0, len(t)]), *arrays(t, places))
    assert STATUS[found.status].tolist() == expected.status
    assert found.starts.tolist() == expected.starts
    for used, best in expected.stretches:
        chosen = [(int(found.edge[i]), float(found.offset[i])) for i in used]
        assert math.isclose(oracle.score(places, used, chosen), best, abs_tol=1e-4)


def in_pieces(matcher: Matcher, t: Any, x: Any, y: Any, cuts: list[int]) -> tuple[Matched, list[int]]:
    """Match a sequence that arrives in pieces; also returns how many had arrived when each was decided."""
    last, decided, at, parts = no_last(1), 0, list[int](), list[Matched]()
    for cut in [*cuts, len(t)]:
        given_ = slice(decided, cut)
        is_over = cut == len(t)
        until = np.array([t[cut - 1] if cut else -(1 << 62)])
        rows = np.array([0, cut - decided])
        found, done = matcher.advance(
            rows, t[given_], x[given_], y[given_], until, np.zeros(1, int), last, is_over=is_over
        )
        parts.append(Matched(*(values[: done[0]] for values in found)))
        at += [cut] * int(done[0])
        decided += int(done[0])
    assert decided == len(t)
    return Matched(*(np.concatenate(columns) for columns in zip(*parts, strict=True))), at


def walk(seed: int, count: int) -> tuple[Any, Any, Any]:
    """A walk over the town, with standing, noise, jumps and silences."""
    rng = np.random.default_rng(seed)
    x, y = np.cumsum(rng.normal(0, 25, (2, count)), axis=1) % 500
    jumps = rng.random(count) < 0.05
    t = np.cumsum(rng.choice([1, 1, 5, 15, 130], count, p=[0.4, 0.3, 0.2, 0.08, 0.02]))
    return (t * SECOND).astype(np.int64), np.where(jumps, x + 5000 * rng.random(count), x), y


@settings(max_examples=80)
@given(
    network=towns(),
    seed=st.integers(0, 10_000),
    lag=st.sampled_from((None, 0, 5, 30)),
    cuts=st.lists(st.integers(1, 59), max_size=8, unique=True),
)
def test_any_pieces_give_the_answers_for_the_whole(
    network: StreetNetwork, seed: int, lag: Any, cuts: list[int]
) -> None:
    matcher = Matcher(network, Model(noise=NOISE, lag=lag))
    t, x, y = walk(seed, 60)
    whole = matcher.match(np.array([0, len(t)]), t, x, y)
    pieces, at = in_pieces(matcher, t, x, y, sorted(cuts))
    for name, one, other in zip(Matched._fields, whole, pieces, strict=True):
        if name not in ("by", "due"):
            np.testing.assert_array_equal(one, other, err_msg=name)
    if lag is not None:  # what is older than the lag has been decided
        for i, cut in enumerate(at):
            before = [c for c in sorted(cuts) if i < c < cut]
            assert all(t[c - 1] - t[i] <= lag * SECOND for c in before)


@given(network=towns(), seed=st.integers(0, 10_000))
def test_a_lag_longer_than_the_trip_changes_nothing(network: StreetNetwork, seed: int) -> None:
    t, x, y = walk(seed, 40)
    rows = np.array([0, len(t)])
    late, never = (Matcher(network, Model(noise=NOISE, lag=lag)).match(rows, t, x, y) for lag in (80_000, None))
    np.testing.assert_array_equal(late.edge, never.edge)
    np.testing.assert_array_equal(late.confidence, never.confidence)


def test_what_was_searched_before_changes_no_answer() -> None:
    network = build([street((0, 0), (200, 0), (400, 0)), street((200, 0), (200, 300)), street((0, 0), (200, 300))])
    used = Matcher(network, Model(noise=NOISE))
    for seed in range(5):
        t, x, y = walk(seed, 50)
        rows = np.array([0, len(t)])
        for one, other in zip(
            used.match(rows, t, x, y), Matcher(network, used.model).match(rows, t, x, y), strict=True
        ):
            np.testing.assert_array_equal(one, other)


LINE = build([street((0, 0), (1000, 0)), street((1000, 0), (1000, 1000), oneway=1)])


def match(network: StreetNetwork, *points: tuple[float, float, float], **model: Any) -> Matched:
    t, x, y = arrays([p[0] for p in points], [p[1:] for p in points])
    return Matcher(network, Model(**model)).match(np.array([0, len(t)]), t, x, y)


def test_a_drive_along_two_streets_has_their_edges_and_offsets() -> None:
    found = match(LINE, (0, 100, 3), (10, 300, -4), (20, 500, 5), (40, 1003, 200))
    assert [LINE.way[edge] for edge in found.edge] == [0, 0, 0, 0]
    assert found.offset.round().tolist() == [100, 300, 500, 200]
    assert found.aside.round().tolist() == [3, -4, 5, -3]
    assert found.confidence.min() > 0.9
    assert found.starts.tolist() == [True, False, False, False]


def test_positions_two_kilometres_from_any_road_are_marked_and_passed() -> None:
    found = match(LINE, (0, 100, 0), (10, 2000, -2000), (20, 300, 0))
    assert STATUS[found.status].tolist() == ["on", "off", "on"]
    assert found.edge[1] == -1
    assert not found.starts[2]


def test_a_jump_over_the_city_is_marked_and_passed() -> None:
    found = match(build([street((0, 0), (9000, 0))]), (0, 100, 0), (1, 8000, 0), (2, 120, 0), (5, 200, 0))
    assert STATUS[found.status].tolist() == ["on", "jump", "on", "on"]
    assert found.starts.tolist() == [True, False, False, False]


def test_two_positions_that_agree_on_a_far_place_begin_a_stretch_there() -> None:
    found = match(build([street((0, 0), (9000, 0))]), (0, 100, 0), (1, 8000, 0), (2, 8040, 0), (5, 8100, 0))
    assert STATUS[found.status].tolist() == ["on", "jump", "on", "on"]
    assert found.starts.tolist() == [True, False, True, False]


def test_between_pieces_of_a_network_a_stretch_begins() -> None:
    from slipstream._roads.importing.graph_building import Draft, finish

    network = finish(Draft([street((0, 0), (500, 0)), street((600, 0), (1000, 0))]), "two", keep_pieces=True)
    found = match(network, (0, 400, 0), (10, 480, 0), (20, 650, 0), (30, 800, 0))
    assert found.starts.tolist() == [True, False, True, False]


def test_a_silence_longer_than_the_gap_begins_a_stretch() -> None:
    assert match(LINE, (0, 100, 0), (200, 300, 0)).starts.tolist() == [True, True]
    assert match(LINE, (0, 100, 0), (200, 300, 0), gap=300).starts.tolist() == [True, False]


def test_a_standing_vehicle_stays_where_it_is() -> None:
    points = [(float(i), 500 + 8 * math.sin(i), 8 * math.cos(i)) for i in range(200)]
    found = match(LINE, (-20, 300, 0), *points, (215, 700, 0))
    assert (found.status == ON).all()
    assert len(set(found.edge.tolist())) == 1
    assert not found.starts[1:].any()


CROSSING = build([street((0, 0), (500, 0)), *(street((500, 0), end) for end in ((1000, 0), (500, 500), (500, -500)))])


@pytest.mark.parametrize("exit_", [1, 2, 3])
def test_a_vehicle_that_stands_at_a_crossing_may_leave_it_by_any_road(exit_: int) -> None:
    """With a lag it is decided before it moves on; what was decided then must not lead into a wrong road."""
    dx, dy = {1: (1, 0), 2: (0, 1), 3: (0, -1)}[exit_]
    standing = [(10.0 + 5 * i, 503 + 3 * math.sin(i), 3 * math.cos(i)) for i in range(20)]
    leaving = [(110.0 + 5 * i, 500.0 + 60 * i * dx, 60.0 * i * dy) for i in range(1, 6)]
    found = match(CROSSING, (0, 350, 0), (5, 430, 0), *standing, *leaving, lag=30)
    ways = CROSSING.way[found.edge].tolist()
    assert set(ways[:-5]) == {CROSSING.way[match(CROSSING, (0, 100, 0)).edge[0]]}
    assert len(set(ways[-5:])) == 1
    assert not found.starts[1:].any()
    assert (np.hypot(found.x[-5:] - [p[1] for p in leaving], found.y[-5:] - [p[2] for p in leaving]) < 1).all()


def test_a_one_way_street_is_not_driven_against() -> None:
    network = build([street((0, 0), (500, 0), oneway=-1), street((0, 0), (0, 40)), street((500, 0), (500, 40)),
                     street((0, 40), (500, 40))])  # fmt: skip
    found = match(network, (0, 60, 2), (10, 200, 2), (20, 330, 2), (30, 460, 2))
    assert set(network.way[found.edge].tolist()) == {0}
    assert (np.abs(found.y - 40) < 1).all()


def test_parameters_out_of_range_are_refused() -> None:
    for parameters in ({"noise": 0}, {"noise": math.nan}, {"reach": -1}, {"gap": 0}, {"lag": -1}, {"fastest": 0}):
        with pytest.raises(BadArgument, match=next(iter(parameters))):
            Model(**parameters)
