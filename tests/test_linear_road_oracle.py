"""The oracle against the published data, and against cases small enough to be worked out by hand."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from oracles.linear_road import answers


def report(time: int, vid: int, pos: int, *, spd: int = 30, xway: int = 0, lane: int = 1, dir: int = 0) -> str:
    return f"0,{time},{vid},{spd},{xway},{lane},{dir},{pos // 5280},{pos},-1,-1,-1,-1,-1,-1"


def balance(time: int, vid: int, qid: int) -> str:
    return f"2,{time},{vid},-1,-1,-1,-1,-1,-1,{qid},-1,-1,-1,-1,-1"


def expenditure(time: int, vid: int, qid: int, day: int = 1) -> str:
    return f"3,{time},{vid},-1,0,-1,-1,-1,-1,{qid},-1,-1,-1,-1,{day}"


def journey(time: int, qid: int, start: int, end: int, dow: int = 1, tod: int = 1) -> str:
    return f"4,{time},1,-1,0,-1,-1,-1,-1,{qid},{start},{end},{dow},{tod},-1"


def mile(segment: int) -> int:
    return segment * 5280


def of_kind(kind: int, lines: list[str], **options: object) -> list[tuple[int, ...]]:
    return [output for output in answers(lines, **options).outputs if output[0] == kind]  # type: ignore[arg-type]


def crowd(minute: int, segment: int, cars: int) -> list[str]:
    """So many slow vehicles in a segment in a minute (1 is the first)."""
    return [report((minute - 1) * 60 + 1, 1000 * segment + i, mile(segment), spd=20) for i in range(cars)]


class Level:
    """A history in which every segment looks the same."""

    def __init__(self, speed: float, count: float) -> None:
        self.asked: list[tuple[int, ...]] = []
        self.speed, self.count = speed, count

    def expenditure(self, vid: int, day: int, xway: int) -> int | None:
        return 10 * day if vid == 1 else None

    def mean(self, xway: int, dir: int, seg: int, dow: int, minute: int) -> tuple[float, float]:
        self.asked.append((dir, seg, dow, minute))
        return self.speed, self.count


def test_it_gives_the_published_counts_on_the_real_file(real_data: Path) -> None:
    with (real_data / "linear-road" / "datafile3hours_t0000-0418.dat").open("rb") as lines:
        result = answers(lines)
    assert Counter(output[0] for output in result.outputs) == {0: 14388, 1: 513, 2: 167, 3: 24}
    assert {output[4] for output in result.outputs if output[0] == 0} == {0}
    assert {output[3] for output in result.outputs if output[0] == 3} == {0}
    assert Counter(reason for _, reason in result.rejects) == {"range:dow": 147}


def test_a_vehicle_is_notified_when_its_trip_starts_and_in_every_new_segment() -> None:
    lines = [
        report(0, 1, mile(5), lane=0),
        report(30, 1, mile(5) + 900),
        report(60, 1, mile(6)),
        report(90, 1, mile(7)),
    ]
    assert [output[2] for output in of_kind(0, lines)] == [0, 60, 90]


@pytest.mark.parametrize(
    "second",
    [
        report(31, 1, mile(5)),
        report(30, 1, mile(5), xway=1),
        report(30, 1, mile(5), dir=1),
    ],
)
def test_a_silence_another_expressway_or_direction_starts_a_new_trip(second: str) -> None:
    assert len(of_kind(0, [report(0, 1, mile(5)), second])) == 2


def test_a_vehicle_back_from_the_exit_lane_starts_a_new_trip() -> None:
    lines = [report(0, 1, mile(5)), report(30, 1, mile(5), lane=4), report(60, 1, mile(5))]
    assert [output[2] for output in of_kind(0, lines)] == [0, 60]


def test_the_toll_is_of_the_cars_of_the_minute_before_and_is_charged_in_the_next_segment() -> None:
    lines = [
        *crowd(1, 5, 60),
        report(70, 1, mile(5)),
        balance(70, 1, 1),
        report(100, 1, mile(6)),
        balance(99, 1, 2),
        balance(100, 1, 3),
    ]
    assert (0, 1, 70, 20, 200) in of_kind(0, lines)
    assert of_kind(2, lines) == [(2, 70, 70, 1, 0), (2, 99, 99, 2, 0), (2, 100, 100, 3, 200)]


def test_leaving_by_the_exit_of_the_segment_is_free_and_of_the_next_segment_is_not() -> None:
    stays = [*crowd(1, 5, 60), report(70, 1, mile(5)), report(100, 1, mile(5), lane=4), balance(130, 1, 1)]
    passes = [*crowd(1, 5, 60), report(70, 1, mile(5)), report(100, 1, mile(6), lane=4), balance(130, 1, 1)]
    assert of_kind(2, stays)[0][-1] == 0
    assert of_kind(2, passes)[0][-1] == 200


def test_lav_is_the_floor_of_the_mean_over_the_minutes_that_have_reports() -> None:
    lines = [
        report(0, 1, mile(5), spd=10),
        report(30, 1, mile(5), spd=20),
        report(1, 2, mile(5), spd=40),  # minute 1: (15 + 40) / 2
        report(130, 3, mile(5), spd=41),  # minute 3
        report(180, 4, mile(5), spd=99),
    ]
    assert [output[3] for output in of_kind(0, lines)] == [-1, -1, 27, 34]


def test_two_vehicles_stopped_at_one_place_are_an_accident_for_five_segments_upstream() -> None:
    wreck = [report(t + 10 * v, v, mile(50), spd=0, lane=2) for t in (0, 30, 60, 90) for v in (1, 2)]
    passers = [report(120 + i, 100 + i, mile(50 - i)) for i in range(6)]
    behind = [report(130, 200, mile(51)), report(130, 201, mile(48), dir=1)]
    assert of_kind(1, wreck + passers + behind) == [(1, 120 + i, 100 + i, 50) for i in range(5)]


def test_a_stop_on_the_ramp_and_a_single_vehicle_are_no_accident() -> None:
    on_ramp = [report(t + v, v, mile(50), spd=0, lane=4) for t in (0, 30, 60, 90) for v in (1, 2)]
    alone = [report(t, 1, mile(50), spd=0) for t in (0, 30, 60, 90)]
    assert of_kind(1, [*on_ramp, report(120, 9, mile(50))]) == []
    assert of_kind(1, [*alone, report(120, 9, mile(50))]) == []


def test_daily_expenditure_comes_from_the_history() -> None:
    assert of_kind(3, [expenditure(0, 1, 7, day=3)], history=Level(60, 0)) == [(3, 0, 7, 30)]
    assert of_kind(3, [expenditure(0, 2, 7), expenditure(0, 1, 8)]) == [(3, 0, 7, 0), (3, 0, 8, 0)]


def test_travel_time_carries_the_clock_from_segment_to_segment_and_over_midnight() -> None:
    history = Level(30, 60)
    assert of_kind(4, [journey(0, 7, 10, 13, dow=7, tod=1440)], history=history) == [(4, 0, 7, 360, 600)]
    assert history.asked == [(0, 10, 7, 1440), (0, 11, 1, 2), (0, 12, 1, 4)]
    assert of_kind(4, [journey(0, 7, 13, 10)], history=history) == [(4, 0, 7, 360, 600)]
    assert history.asked[3:] == [(1, 13, 1, 1), (1, 12, 1, 3), (1, 11, 1, 5)]


def test_travel_time_without_history_is_minus_one_and_to_the_same_segment_nothing() -> None:
    assert of_kind(4, [journey(0, 7, 10, 13), journey(0, 8, 4, 4)]) == [(4, 0, 7, -1, -1), (4, 0, 8, 0, 0)]


GOOD = report(100, 1, mile(5))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "fields"),
        (GOOD + ",1", "fields"),
        (GOOD.replace("30", "3.0"), "integer"),
        (GOOD.replace("30", "+30"), "integer"),
        (GOOD.replace("30", "٣"), "integer"),
        (GOOD.replace("30", "2147483648"), "integer"),
        ("1" + GOOD[1:], "type"),
        (report(100, 1, mile(5), spd=101, lane=7), "range:spd"),
        (report(-1, 1, mile(5)), "range:time"),
        (GOOD.replace("26400", "36400"), "segment"),
        (journey(0, 1, 2, 3, dow=0), "range:dow"),
        (report(39, 2, mile(5)), "late"),
        (GOOD.replace("30", "0030"), "duplicate"),
        (report(100, 1, mile(6)), "conflict"),
    ],
)
def test_a_bad_line_is_rejected_with_its_reason_and_changes_nothing(line: str, reason: str) -> None:
    result = answers([GOOD, line + "\n", report(130, 1, mile(6))])
    assert result.rejects == [(line, reason)]
    assert result.outputs == answers([GOOD, report(130, 1, mile(6))]).outputs


def test_of_two_rival_reports_the_smaller_is_kept_whichever_came_first() -> None:
    rivals = [report(100, 1, mile(6)), report(100, 1, mile(5))]
    assert answers(rivals).rejects == answers(rivals[::-1]).rejects == [(rivals[0], "conflict")]


def test_order_within_the_allowed_lateness_changes_nothing() -> None:
    lines = [*crowd(1, 5, 60), report(70, 1, mile(5)), report(100, 1, mile(6)), balance(100, 1, 3)]
    shuffled = [lines[-1], lines[-2], *lines[1:-2], lines[0]]
    assert sorted(answers(shuffled, lateness=99).outputs) == sorted(answers(lines).outputs)
    assert len(answers(shuffled, lateness=60).rejects) == 60


def test_in_2003_tolls_start_at_150_cars_and_halve_after_the_threshold() -> None:
    lines = [*crowd(1, 5, 175), *crowd(2, 6, 175), *crowd(2, 7, 175)]
    lines += [report(70, 1, mile(5)), report(100, 1, mile(5)), report(125, 1, mile(6)), report(150, 1, mile(7))]
    lines += [report(175, 1, mile(8)), balance(175, 1, 1), expenditure(175, 1, 2, day=9)]
    result = answers(lines, rules="2003").outputs
    assert [output[4] for output in result if output[:2] == (0, 1)] == [1250, 1250, 1250, 0]
    assert (2, 175, 175, 1, 1250 + 625 + 625) in result
    assert (3, 175, 2, 1250 + 625 + 625) in result


def test_in_2003_an_accident_counts_for_twenty_minutes_and_leaving_before_it_is_credited_once() -> None:
    wreck = [report(t + 10 * v, v, mile(50), spd=0, lane=2) for t in (0, 30, 60, 90) for v in (1, 2)]
    leaves = [report(1300 + t, 9, mile(48) + t, lane=4) for t in (0, 30, 60)]
    asks = [balance(1300, 9, 1), balance(1360, 9, 2)]
    assert [output[-1] for output in of_kind(2, wreck + leaves + asks, rules="2003")] == [-50, -50]
    assert [output[-1] for output in of_kind(2, wreck + leaves + asks)] == [0, 0]
