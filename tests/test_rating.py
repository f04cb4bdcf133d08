"""The rating: its search and its page."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream._bench.rating import Rating, ResponseSummary, Search, Trial, Window, read_responses
from slipstream._bench.rating_report import write_rating
from slipstream._feeds.run import Run
from slipstream._runtime.metrics import FILE, BatchMetrics
from slipstream._tools.logs import encode_line

WINDOW = Window(9600, 10_800)


@dataclass
class Machine:
    """Holds so many expressways; in a long window fewer."""

    holds: int
    holds_long: int
    name: str = "machine"
    kinds: str = "0"
    tried: list[tuple[int, int]] = field(default_factory=list)

    def drive(self, run: Run, expressways: int, window: Window, out: Path) -> Trial:
        self.tried.append((expressways, window.seconds))
        held = expressways <= (self.holds_long if window == WINDOW else self.holds)
        return Trial(expressways, window.seconds, held, {"toll": ResponseSummary(1, 2, 3, 5)}, "" if held else "late")


class Trusting(Search):
    """Takes every engine's word."""

    def _confirm(self, expressways: int) -> Trial:
        tried = self._drive(expressways, self.window)
        return Trial(tried.expressways, tried.seconds, tried.held, tried.responses, tried.why, validated=tried.held)


@pytest.mark.parametrize(("holds", "most"), [(137, 600), (1, 600), (600, 600), (800, 600), (5, 5)])
def test_the_search_finds_what_holds_within_a_twentieth(holds: int, most: int, tmp_path: Path) -> None:
    machine = Machine(holds, holds)
    *_, last = Trusting(machine, None, WINDOW, 120, tmp_path, 1, most).tries()  # type: ignore[arg-type]
    assert last.validated
    assert last.seconds == 1200
    assert min(holds, most) * 0.95 - 1 <= last.expressways <= min(holds, most)
    assert len(machine.tried) <= 18


def test_a_try_that_does_not_last_is_no_rating(tmp_path: Path) -> None:
    *_, last = Trusting(Machine(100, 80), None, WINDOW, 120, tmp_path, 1, 600).tries()  # type: ignore[arg-type]
    assert last.validated
    assert 65 <= last.expressways <= 80


def test_nothing_holds(tmp_path: Path) -> None:
    tries = list(Trusting(Machine(0, 0), None, WINDOW, 120, tmp_path, 4, 600).tries())  # type: ignore[arg-type]
    assert [(tried.expressways, tried.held) for tried in tries] == [(4, False), (2, False), (1, False)]


def test_response_times_of_plain_text(tmp_path: Path) -> None:
    (tmp_path / "output.csv").write_text("0,7,100,101.5,20,0\n2,100,103,100,9,50\n4,100,101,3,-1,-1\n")
    found = read_responses(tmp_path / "output.csv")
    assert {name: response.max for name, response in found.items()} == {
        "toll notification": 1.5,
        "account balance": 3.0,
    }


def test_the_page_has_all_that_a_reader_asks_for(tmp_path: Path) -> None:
    tried = Trial(20, 1200, held=True, responses={"toll": ResponseSummary(0.5, 1.2, 1.9, 5)}, validated=True, gib=3.5)
    out = tmp_path / "machine-20-1200s"
    out.mkdir()
    batch = BatchMetrics(3, 0.0, since=9600, until=9601, commit_ms=700, phases_ms={}, state_bytes=1, run="a")
    (out / FILE).write_bytes(encode_line(asdict(batch)))
    rating = Rating(
        "machine", 20, 2, 10.0, WINDOW, "run", str(out), (tried,), True, 0.7, 0.3, "Driven so.", "a machine", {"x": "1"}
    )
    write_rating(rating, tmp_path / "rating.html")
    page = (tmp_path / "rating.html").read_text()
    for word in ("L = 20", "Driven so.", "QoS map", "1.90 s", "a machine", "x 1", "validated"):
        assert word in page


def test_a_window_no_longer_than_a_try_is_driven_once(tmp_path: Path) -> None:
    machine = Machine(holds=4, holds_long=4)
    tries = list(Trusting(machine, None, WINDOW, WINDOW.seconds, tmp_path, 4, 4).tries())  # type: ignore[arg-type]
    assert [tried.validated for tried in tries] == [False, True]
    assert machine.tried == [(4, WINDOW.seconds)]


@given(st.integers(0, 200), st.integers(1, 12_000), st.integers(1, 20_000))
def test_a_try_is_as_long_as_asked_and_begins_with_a_minute(minute: int, length: int, asked: int) -> None:
    """``--probe 30s`` once made tries of no seconds at all."""
    window = Window(minute * 60, minute * 60 + length)
    part = window.last(asked)
    assert part.seconds == min(asked, length)
    assert part.since % 60 == 0
    assert window.since <= part.since < part.until <= window.until
    assert window.until - part.until < 60


def test_tries_of_half_a_minute(tmp_path: Path) -> None:
    machine = Machine(holds=4, holds_long=4)
    list(Trusting(machine, None, WINDOW, 30, tmp_path, 4, 4).tries())  # type: ignore[arg-type]
    assert machine.tried == [(4, 30), (4, WINDOW.seconds)]


def test_a_try_does_not_resume_what_an_interrupted_search_left(tmp_path: Path) -> None:
    """Its clock has run on since: the engine would be called hours late."""
    search = Trusting(Machine(4, 4), None, WINDOW, 120, tmp_path, 4, 4)  # type: ignore[arg-type]
    left = search.folder(4, WINDOW.last(120)) / "checkpoint"
    left.mkdir(parents=True)
    list(search.tries())
    assert not left.exists()
