"""A heartbeat in a feed of trains lets a second be answered as soon as all of it has been sent."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from linear_road.engine_in_memory import Engine, arrival
from linear_road.test_exactness import worlds
from oracles.streams import report
from slipstream._feeds.parse import PARSERS, Columns, format_lines, select
from slipstream._feeds.trains import frame, frame_heartbeat
from slipstream._feeds.tuples import FIELDS
from slipstream._io.chunks import LAST, Chunk
from slipstream._io.report_packing import ReportPacking


def engine_of_trains(lateness: int, fragments: int = 1) -> Engine:
    engine = Engine(lateness=lateness, fragments=fragments)
    engine.packing = ReportPacking("train", engine.layout.fragments, lateness)
    return engine


def tuples_of(lines: list[str]) -> Columns:
    """The good tuples of lines in the order of time."""
    tuples = PARSERS["text"]([line.encode() for line in lines]).tuples
    order = np.argsort(tuples["time"], kind="stable")
    return {name: tuples[name][order] for name in FIELDS}


def seconds_of(tuples: Columns) -> list[tuple[int, bytes]]:
    """Each second that has tuples, as a train."""
    return [(int(s), frame(select(tuples, tuples["time"] == s))) for s in np.unique(tuples["time"])]


def times(engine: Engine) -> list[int]:
    return sorted(int(time) for time in engine.answers["time"])


@settings(max_examples=60)
@given(feed=worlds(), lateness=st.integers(0, 60), fragments=st.integers(1, 3))
def test_seconds_are_answered_when_they_are_complete(feed: list[str], lateness: int, fragments: int) -> None:
    trains = seconds_of(tuples_of(feed))
    carried = PARSERS["train"]([train for _, train in trains]).tuples  # without the fields that requests ignore
    expected = Engine(fragments=fragments).run([[line.decode() for line in format_lines(carried)]])
    engine = engine_of_trains(lateness, fragments)
    for number, (second, train) in enumerate(trains):
        engine.batch(number, [Chunk(0, arrived=arrival(number), data=train + frame_heartbeat(second + 1))])
        assert times(engine) == [time for time in times(expected) if time <= second]
    engine.batch(len(trains), [Chunk(0, LAST)])
    assert sorted(engine.outputs) == sorted(expected.outputs)
    assert sorted(engine.rejects) == sorted(expected.rejects)


def test_without_heartbeats_an_engine_waits_for_what_may_be_late() -> None:
    engine = engine_of_trains(lateness=2)
    for number, second in enumerate([0, 30, 60]):
        engine.batch(number, [Chunk(0, data=frame(tuples_of([report(second, 1, 10 + second)])))])
    assert max(times(engine)) < 60


def test_a_tuple_before_a_heartbeat_is_late() -> None:
    engine = engine_of_trains(lateness=60)
    engine.batch(0, [Chunk(0, data=frame(tuples_of([report(30, 1, 10)])) + frame_heartbeat(31))])
    engine.batch(1, [Chunk(0, data=frame(tuples_of([report(29, 2, 10)])))])
    engine.batch(2, [Chunk(0, data=frame(tuples_of([report(31, 3, 10)]))), Chunk(1, LAST)])
    assert [reason for _, reason in engine.rejects] == ["late"]
    assert engine.tolled == 2


def test_a_lane_without_tuples_holds_nobody_up_if_it_has_heartbeats() -> None:
    engine = engine_of_trains(lateness=0)
    engine.batch(0, [Chunk(0, data=frame_heartbeat(0), lane=1), Chunk(0, data=frame_heartbeat(0))])
    train = frame(tuples_of([report(7, 1, 10)]))
    engine.batch(1, [Chunk(0, data=train + frame_heartbeat(8))])
    assert engine.tolled == 0
    engine.batch(2, [Chunk(0, data=frame_heartbeat(8), lane=1)])
    assert engine.tolled == 1
