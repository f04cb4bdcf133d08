"""Trips equal the oracle's, no matter how the stream is cut, restarted and divided; so does the stored state."""

from __future__ import annotations

from itertools import chain, pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linear_road.engine_in_memory import Engine, plain_trips
from linear_road.test_exactness import worlds
from oracles.trips import trips_of
from slipstream._archive.ended_trips import START, EndedTrips, as_table, parse_instant
from slipstream._archive.linear_road_trips import LOOK_EVERY, ReportRule, ReportTrips
from slipstream._cuboid import log
from slipstream._feeds import trains
from slipstream._feeds.tuples import REPORT_EVERY
from slipstream._runtime.state.store import MemoryStore


@settings(max_examples=150)
@given(
    feed=worlds(),
    cuts=st.lists(st.integers(0, 400), max_size=12),
    fragments=st.integers(1, 4),
    shards=st.integers(1, 3),
    lateness=st.sampled_from([0, 5, 60]),
    block=st.sampled_from([4, 32, log.BLOCK]),
    large=st.sampled_from([500, log.LARGE]),
)
def test_any_feed_cut_and_restarted_anywhere_gives_the_oracles_trips(
    feed: list[str], cuts: list[int], fragments: int, shards: int, lateness: int, block: int, large: int
) -> None:
    marks = [0, *sorted(min(cut, len(feed)) for cut in cuts), len(feed)]
    batches = [feed[start:end] for start, end in pairwise(marks)]
    engine = {"lateness": lateness, "fragments": fragments, "shards": shards}
    with patch.object(log, "BLOCK", block), patch.object(log, "LARGE", large):
        warm = Engine(**engine).run(batches)
        restarted = Engine(**engine, restart=True).run(batches)
        now_and_then = Engine(**engine, restart=3).run(batches)
    found = list(chain.from_iterable(warm.trips))
    assert sorted(found) == trips_of(feed, lateness=lateness)
    assert sum(len(reports) for _, reports in found) == warm.tolled
    # a batch that is done again after a crash ends the same trips
    for other in (restarted, now_and_then):
        assert [sorted(batch) for batch in other.trips] == [sorted(batch) for batch in warm.trips]
    assert not any(warm.stores.values())


def test_the_real_file_gives_the_oracles_trips(real_data: Path) -> None:
    lines = (real_data / "linear-road" / "datafile3hours_t0000-0418.dat").read_text().splitlines()
    engine = Engine(fragments=2, restart=True).run(
        [lines[start : start + 20_000] for start in range(0, 60_000, 20_000)]
    )
    assert sorted(chain.from_iterable(engine.trips)) == trips_of(lines[:60_000])


def second(number: int, cars: range, lane: int = 1) -> trains.FeedTrain:
    """A report from each car."""
    vid = np.array(cars, np.int32)
    columns = {name: np.zeros(vid.size, np.int32) for name in ("spd", "dir")}
    columns |= {"lane": np.full(vid.size, lane, np.int32), "pos": 100 * number + vid}
    return trains.decode(number, vid.size, 0, trains.pack(vid, np.zeros_like(vid), columns))


def test_a_trip_is_over_when_nothing_can_continue_it_and_not_before() -> None:
    trips = ReportTrips()
    assert trips.take([second(0, range(3)), second(20, range(1))]).vid.size == 0
    assert trips.take([second(REPORT_EVERY, range(1, 2))]).vid.tolist() == [2]
    assert trips.take([second(REPORT_EVERY + LOOK_EVERY, range(5, 6))]).vid.tolist() == []
    assert sorted(trips.take([second(REPORT_EVERY + 2 * LOOK_EVERY, range(5, 6))]).vid.tolist()) == [0]
    assert sorted(trips.take([], last=True).vid.tolist()) == [1, 5]
    assert trips.take([], last=True).vid.size == 0


def test_what_a_batch_writes_does_not_depend_on_what_is_there() -> None:
    """Two thousand cars report for an hour; new ones come and others leave: the store holds about three times them."""
    store, trips, most, ended, brought = Counting(), ReportTrips(), 0, 0, 0
    for number in range(0, 3600, 30):
        first = 10 * (number // 30)
        ended += trips.take([second(number, range(first, first + 2000))]).time.size
        brought += 2000
        before = store.written
        trips.save(store)
        most = max(most, store.written - before)
    assert most <= 2 * 2000 + log.BLOCK
    assert trips.open.points.rows.size < 1.6 * (brought - ended)
    again = ReportTrips.load(store)
    assert again.open.points.rows.size == brought - ended
    assert sorted(plain_trips(trips.take([], last=True))) == sorted(plain_trips(again.take([], last=True)))
    assert store.rows() <= 4 * (brought - ended) + 2 * log.BLOCK


class Counting(MemoryStore):
    """A store that counts the rows written to it."""

    written = 0

    def put(self, number: int, delta: bytes) -> None:
        super().put(number, delta)
        self.written += self._rows(delta)

    def rows(self) -> int:
        return sum(self._rows(delta) for delta in self.values())

    def _rows(self, delta: bytes) -> int:
        return len(log.decompress_rows(delta, ReportRule.point.dtype.itemsize)) // ReportRule.point.dtype.itemsize


def test_trips_travel_in_pieces_and_become_moving_points() -> None:
    sizes = np.array([3, 1, 4, 2], np.int32)
    ids, reports = np.arange(4, dtype=np.int32), np.arange(10, dtype=np.int32)
    east = np.array([0, 0, 1, 1], np.uint8)
    trips = EndedTrips(ids, ids, sizes, east, reports, 10 * reports, (reports % 5).astype(np.uint8))
    for most in (1, 3, 100):
        pieces = [EndedTrips.from_bytes(p.to_bytes(), p.vid.size, p.time.size) for p in trips.pieces(most)]
        assert [trip for piece in pieces for trip in plain_trips(piece)] == list(plain_trips(trips))
    row = as_table(trips, parse_instant(START)).to_pylist()[2]
    assert (row["vid"], row["xway"], row["dir"], row["Trip"]["starts"]) == (2, 2, 1, [0])
    assert str(row["Trip"]["t"][0]) == "2007-05-28 00:00:04+00:00"
    assert row["Trip"]["x"][0] == 40 * 0.3048
    assert row["Trip"]["y"][0] == 2 * 10 * 5280 * 0.3048 - 5 * 12 * 0.3048


def test_what_is_loaded_lies_elsewhere_and_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cars drive for long and are loaded now and then, twice within few batches, with blocks of a few reports."""
    monkeypatch.setattr(log, "BLOCK", 16)
    rng = np.random.default_rng(1)
    store, trips, warm = MemoryStore(), ReportTrips(), ReportTrips()
    for number in range(0, 1500, 5):
        # a car in six reports, now and then from the exit lane: trips end out of the order in which they began
        train = second(number, range(number // 5 % 6, 60, 6), lane=4 if rng.random() < 0.04 else 1)
        if number // 5 % 70 in (0, 1, 6):
            trips = ReportTrips.load(store)
        found, expected = (sorted(plain_trips(each.take([train]))) for each in (trips, warm))
        assert found == expected
        trips.save(store)
    assert sorted(plain_trips(trips.take([], last=True))) == sorted(plain_trips(warm.take([], last=True)))
