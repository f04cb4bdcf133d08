"""The rating: its search, what a trial says, and its report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services import service
from slipstream._bench.driving.driver import Sent
from slipstream._bench.rating.doors import Entry, KafkaDoor, TcpDoor
from slipstream._bench.rating.full import AnsweredMinute, plot_resources, read_samples, summarise_minutes, take_share
from slipstream._bench.rating.outside import FromOutside, judge
from slipstream._bench.rating.programs import EngineCommand, EngineFeed, EngineStart, TollEngine
from slipstream._bench.rating.rating_page import write_rating
from slipstream._bench.rating.resource_use import ProcessorMeter, find_listener, list_family, measure_processor_seconds
from slipstream._bench.rating.search import Rating, Search, rate
from slipstream._bench.rating.trial import (
    ResponseSummary,
    TimeWindow,
    Trial,
    compute_overlap_shares,
    read_text_responses,
)
from slipstream._errors import BadArgument, CheckFailed, SlipstreamError, Unavailable
from slipstream._feeds.run import Run
from slipstream._feeds.tuple_text import import_text
from slipstream._io.kafka_client import Topic
from slipstream._io.readers.topic import messages, watermarks
from slipstream._runtime.watching.metrics import FILE, BatchMetrics
from slipstream._tools.logs import encode_line

WINDOW = TimeWindow(9600, 10_800)


@dataclass
class Machine:
    """Answers so many expressways in time, in a long window fewer, and some of them with headroom."""

    holds: int
    holds_long: int
    roomy: int = 10_000
    busy_later: int = 10_000  # from here on, the last third of the long window is too busy
    late_drivers: int = 0  # that make as many trials void
    name: str = "machine"
    kinds: str = "0"
    cold: bool = False
    how: str = "by hand"
    tried: list[tuple[int, int]] = field(default_factory=list)

    def drive(self, run: Run, expressways: int, window: TimeWindow, out: Path) -> Trial:
        self.tried.append((expressways, window.seconds))
        long = window == WINDOW
        in_time = expressways <= (self.holds_long if long else self.holds)
        last = 0.9 if expressways > self.roomy or (long and expressways >= self.busy_later) else 0.5
        void = "void: the driver was late" if self.late_drivers else ""
        self.late_drivers -= bool(void)
        responses = {"toll": ResponseSummary(1, 2, 3, 5)}
        return Trial(expressways, window.seconds, responses, "" if in_time else "late", void, (0.5, 0.5, last))


class Trusting(Search):
    """Takes every engine's word."""

    def _confirm(self, expressways: int) -> Trial:
        tried = self._drive(expressways, self.window)
        return replace(tried, validated=tried.held)


def search(machine: Machine, out: Path, least: int = 1, most: int = 600, probe: int = 120, stored: int = 1) -> Search:
    run: Any = SimpleNamespace(stored=stored, path=Path("run-1"))
    return Trusting(machine, run, WINDOW, probe, out, least, most)


@pytest.mark.parametrize(("holds", "most"), [(137, 600), (1, 600), (600, 600), (800, 600), (5, 5)])
def test_the_search_finds_what_holds_within_a_twentieth(holds: int, most: int, tmp_path: Path) -> None:
    machine = Machine(holds, holds)
    *_, last = search(machine, tmp_path, most=most).tries()
    assert last.validated
    assert last.seconds == 1200
    assert min(holds, most) * 0.95 - 1 <= last.expressways <= min(holds, most)
    assert len(machine.tried) <= 18


def test_a_try_that_does_not_last_is_no_rating(tmp_path: Path) -> None:
    *_, last = search(Machine(100, 80), tmp_path).tries()
    assert last.validated
    assert 65 <= last.expressways <= 80


def test_nothing_holds(tmp_path: Path) -> None:
    tries = list(search(Machine(0, 0), tmp_path, 4).tries())
    assert [(tried.expressways, tried.held) for tried in tries] == [(4, False), (2, False), (1, False)]


def test_response_times_of_plain_text(tmp_path: Path) -> None:
    (tmp_path / "output.csv").write_text("0,7,100,101.5,20,0\n2,100,103,100,9,50\n4,100,101,3,-1,-1\n")
    found = read_text_responses(tmp_path / "output.csv")
    assert {name: response.max for name, response in found.items()} == {
        "toll notification": 1.5,
        "account balance": 3.0,
        "travel time": 1.0,
    }


def test_the_page_has_all_that_a_reader_asks_for(tmp_path: Path) -> None:
    tried = Trial(
        20,
        1200,
        {"toll": ResponseSummary(0.5, 1.2, 1.9, 5)},
        validated=True,
        busy=(0.5, 0.6, 0.7),
        gib=3.5,
        cores={"driver": 0.25, "engine": 1.5},
    )
    void = Trial(40, 120, {}, void="void: the driver was 3.0 s late at second 7")
    out = tmp_path / "machine-20-1200s"
    out.mkdir()
    batch = BatchMetrics(3, 0.0, since=9600, until=9601, commit_ms=700, phases_ms={}, state_bytes=1, run="a")
    (out / FILE).write_bytes(encode_line(asdict(batch)))
    rating = Rating(
        engine="machine",
        how="by hand",
        expressways=20,
        highest=40,
        distinct=10,
        cores=2,
        per_core=10.0,
        window=WINDOW,
        run="run",
        output=str(out),
        tries=(void, tried),
        statement="Driven so.",
        machine="a machine",
        versions={"x": "1"},
    )
    write_rating(rating, tmp_path / "rating.html")
    page = (tmp_path / "rating.html").read_text()
    words = ["L = 20", "Driven so.", "QoS map", "1.90 s", "a machine", "x 1", "validated", "by hand", "in time in a"]
    for word in [*words, "50% 60% 70%", "driver 0.25 engine 1.50", "void: the driver was 3.0 s late"]:
        assert word in page


def test_a_window_no_longer_than_a_try_is_driven_once(tmp_path: Path) -> None:
    machine = Machine(holds=4, holds_long=4)
    tries = list(search(machine, tmp_path, 4, 4, WINDOW.seconds).tries())
    assert [tried.validated for tried in tries] == [False, True]
    assert machine.tried == [(4, WINDOW.seconds)]


@given(st.integers(0, 200), st.integers(1, 12_000), st.integers(1, 20_000))
def test_a_try_is_as_long_as_asked_and_begins_with_a_minute(minute: int, length: int, asked: int) -> None:
    """``--probe 30s`` once made tries of no seconds at all."""
    window = TimeWindow(minute * 60, minute * 60 + length)
    part = window.last(asked)
    assert part.seconds == min(asked, length)
    assert part.since % 60 == 0
    assert window.since <= part.since < part.until <= window.until
    assert window.until - part.until < 60


def test_tries_of_half_a_minute(tmp_path: Path) -> None:
    machine = Machine(holds=4, holds_long=4)
    list(search(machine, tmp_path, 4, 4, 30).tries())
    assert machine.tried == [(4, 30), (4, WINDOW.seconds)]


def test_a_try_does_not_resume_what_an_interrupted_search_left(tmp_path: Path) -> None:
    """Its clock has run on since: the engine would be called hours late."""
    begun = search(Machine(4, 4), tmp_path, 4, 4)
    left = begun.folder(4, WINDOW.last(120)) / "checkpoint"
    left.mkdir(parents=True)
    list(begun.tries())
    assert not left.exists()


def test_the_rating_has_headroom_and_the_highest_is_told_too(tmp_path: Path) -> None:
    machine = Machine(holds=200, holds_long=200, roomy=120)
    begun = search(machine, tmp_path)
    *_, last = begun.tries()
    assert last.validated
    assert 114 <= last.expressways <= 120
    assert 190 <= begun.highest <= 200
    assert len(machine.tried) <= 20


def test_without_headroom_nothing_is_rated_but_the_highest_is_told(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match=r"in time, without headroom\. All answers were in time at L = 8\."):
        rate(search(Machine(holds=8, holds_long=8, roomy=0), tmp_path, 8, 8))


def test_every_third_of_the_window_needs_headroom(tmp_path: Path) -> None:
    *_, last = search(Machine(100, 100, busy_later=60), tmp_path).tries()
    assert last.validated
    assert last.expressways < 60
    assert Trial(1, 1, busy=(0.5, 0.86, 0.5)).outcome == "in time, without headroom"
    assert Trial(1, 1, busy=(0.85, 0.85, 0.85)).held


def test_a_void_trial_is_made_again_and_is_no_failure_of_the_engine(tmp_path: Path) -> None:
    machine = Machine(holds=8, holds_long=8, late_drivers=1)
    *_, last = search(machine, tmp_path, 8, 8).tries()
    assert machine.tried == [(8, 120), (8, 120), (8, 1200)]
    assert last.validated
    tries = list(search(Machine(8, 8, late_drivers=99), tmp_path / "other", 8, 8).tries())
    assert not any(tried.in_time for tried in tries)
    assert {tried.outcome for tried in tries} == {"void: the driver was late"}


@pytest.mark.parametrize(("stored", "least", "most"), [(10, 1, 600), (10, 37, 600), (7, 1, 100)])
def test_only_multiples_of_the_distinct_expressways_are_tried(
    stored: int, least: int, most: int, tmp_path: Path
) -> None:
    machine = Machine(holds=133, holds_long=133)
    *_, last = search(machine, tmp_path, least, most, stored=stored).tries()
    assert all(expressways % stored == 0 for expressways, _ in machine.tried)
    assert machine.tried[0][0] >= least
    assert last.validated
    assert min(133, most) - 2 * stored <= last.expressways <= min(133, most)


def test_more_distinct_expressways_than_may_be_tried_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match="No multiple of 10"):
        search(Machine(1, 1), tmp_path, 1, 9, stored=10)


@given(
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 10)), max_size=20),
    st.floats(0, 50),
    st.floats(1, 50),
    st.integers(1, 5),
)
def test_busy_shares_add_up(spans: list[tuple[float, float]], begin: float, length: float, parts: int) -> None:
    """Against a plain sum over the whole time."""
    found = compute_overlap_shares([(a, a + took) for a, took in spans], begin, begin + length, parts)
    whole = sum(max(0.0, min(a + took, begin + length) - max(a, begin)) for a, took in spans)
    if found:
        assert sum(found) / parts * length == pytest.approx(whole, abs=0.01 * length * parts)
    else:
        assert whole == 0


def test_a_late_driver_makes_a_trial_void_even_if_answers_are_late() -> None:
    late = {"toll": ResponseSummary(6, 6, 6, 5, late=3)}
    sent = [Sent(10, 5, 1000, 0.2), Sent(11, 5, 2000, 1.7)]
    trial = judge(4, WINDOW, late, sent, "")
    assert trial.void == "void: the driver was 1.7 s late at second 11"
    assert judge(4, WINDOW, late, sent[:1], "").outcome == "late: toll 6.0 s"
    assert judge(4, WINDOW, {}, sent[:1], "").outcome == "no answers"
    assert trial.lag == 1.7


def test_response_times_by_minute() -> None:
    rows = [[0, 5, 99, 500], [0, 5, 1, 4000], [2, 65, 10, 700]]
    assert summarise_minutes(rows) == [AnsweredMinute(0, 100, 0.5, 0.5, 4.0), AnsweredMinute(1, 10, 0.7, 0.7, 0.7)]


@given(st.integers(1, 2000), st.integers(1, 50))
def test_a_full_run_is_at_a_multiple_and_at_most_seventy_percent(rating: int, distinct: int) -> None:
    found = take_share(rating, distinct)
    assert found % distinct == 0
    assert found == distinct or found <= 0.7 * rating + 1e-6


def test_plots_need_no_samples(tmp_path: Path) -> None:
    assert plot_resources(read_samples(tmp_path / "none"), tmp_path) is not None


def spin(seconds: float) -> list[str]:
    return [
        sys.executable,
        "-c",
        f"import time\nt = time.process_time()\nwhile time.process_time() < t + {seconds}: pass",
    ]


def test_processor_time_of_a_tree_includes_children_that_have_ended() -> None:
    code = f"import subprocess, time; subprocess.run({spin(0.5)!r}); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        wait_until(lambda: measure_processor_seconds(list_family(process.pid)) >= 0.5)
        meter = ProcessorMeter()
        meter.read(process.pid)
        assert meter.seconds == 0
        os.kill(process.pid, signal.SIGKILL)


def test_a_meter_counts_a_restarted_tree_from_its_beginning() -> None:
    meter = ProcessorMeter()
    meter.read(os.getpid())
    with subprocess.Popen([*spin(0.5)[:2], spin(0.5)[2] + "\ntime.sleep(60)"]) as other:
        wait_until(lambda: measure_processor_seconds(list_family(other.pid)) >= 0.3)
        meter.read(other.pid)
        assert meter.seconds >= 0.3
        os.kill(other.pid, signal.SIGKILL)


@pytest.fixture
def small_run(tmp_path: Path) -> Run:
    lines = [f"0,{second},{second},50,0,0,0,10,52800,-1,-1,-1,-1,-1,-1" for second in range(4)]
    (tmp_path / "feed.dat").write_text("\n".join(lines) + "\n")
    return import_text(tmp_path / "feed.dat", tmp_path / "run")


#: answers every report half a second after its Time, by its own account
ENGINE = """
import socket, sys, time
host, port, out = sys.argv[1:]
print("Ready when you are", flush=True)
while True:
    try:
        feed = socket.create_connection((host, int(port)))
        break
    except OSError:
        time.sleep(0.05)
with open(f"{out}/output.csv", "w") as file:
    for line in feed.makefile():
        kind, second, vid, *_ = map(int, line.split(","))
        file.write(f"0,{vid},{second},{second + 0.5},-1,0\\n")
"""


def test_a_trial_of_another_engine_over_tcp(small_run: Run, tmp_path: Path) -> None:
    """Engine and driver are processes of their own; no Spark, no broker."""
    (tmp_path / "engine.py").write_text(ENGINE)
    program = EngineCommand(f"{sys.executable} {tmp_path}/engine.py {{host}} {{port}} {{out}}", "0", "mine")
    engine = FromOutside(program, TcpDoor(), "text")
    trial = engine.drive(small_run, 2, TimeWindow(1, 4), tmp_path / "trial")
    assert (trial.expressways, trial.seconds, trial.in_time) == (2, 3, True)
    assert trial.responses == {"toll notification": ResponseSummary(0.5, 0.5, 0.5, 5)}
    assert trial.busy == ()
    answers = (tmp_path / "trial" / "output.csv").read_text().splitlines()
    assert sorted(int(line.split(",")[2]) for line in answers) == [1, 1, 2, 2, 3, 3]
    assert "through TCP, as text" in engine.how


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("{python} -c 'raise SystemExit(\"no luck\")'", "exited with code 1 before it was ready: no luck"),
        ("/no/such/engine {port}", "No such file"),
        ("{python} {nonsense}", "'nonsense' is not known"),
    ],
)
def test_an_engine_that_does_not_start_is_told(small_run: Run, tmp_path: Path, command: str, said: str) -> None:
    program = EngineCommand(command.replace("{python}", sys.executable), "0")
    with pytest.raises(SlipstreamError, match=said):
        FromOutside(program, TcpDoor(), "text").drive(small_run, 1, TimeWindow(0, 4), tmp_path / "trial")


def test_what_an_earlier_start_said_is_not_believed(small_run: Run, tmp_path: Path) -> None:
    """A job that was killed left "running" behind; an engine left "ready" in its log."""
    feed = EngineFeed(Entry("tcp:127.0.0.1:1"), "text", small_run, TimeWindow(0, 4), tmp_path, tmp_path / "log")
    (tmp_path / "status.json").write_text('{"state": "running", "since": 100.0}')
    (tmp_path / "log").write_text("ready\n")
    assert TollEngine().is_ready(feed, EngineStart(99.0, 0))
    assert not TollEngine().is_ready(feed, EngineStart(101.0, 0))
    assert EngineCommand("mine", "0").is_ready(feed, EngineStart(99.0, 0))
    assert not EngineCommand("mine", "0").is_ready(feed, EngineStart(99.0, 6))


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    yield from service("kafka")


def send(topic: str, *values: bytes) -> None:
    from confluent_kafka import Producer

    parsed = Topic.parse(topic)
    producer = Producer({"bootstrap.servers": parsed.servers})
    for value in values:
        producer.produce(parsed.name, value, partition=0, timestamp=1)
    assert producer.flush(30) == 0


def test_a_broker_that_is_gone_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipstream._bench.rating.doors.TIMEOUT_S", 0.2)
    door = KafkaDoor("127.0.0.1:1")
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1: ") as refused:
        door.close(Entry("kafka:127.0.0.1:1/trial", 1, "kafka:127.0.0.1:1/trial-answers"))
    assert refused.value.code == "broker-unreachable"


@pytest.mark.long
def test_a_topic_for_every_trial_whose_answers_the_broker_stamps(broker: str) -> None:
    door = KafkaDoor(broker)
    name = f"trial-{uuid.uuid4().hex}"
    entry = door.open(name, 1)
    assert (entry.partitions, entry.address) == (1, (*broker.split(":"), name))
    send(entry.source, b"a tuple")
    send(entry.answers, b"0,7,100,0,20,0")
    assert messages(Topic.parse(entry.source), 0, 0, 1).times == [1]
    [stamp] = messages(Topic.parse(entry.answers), 0, 0, 1).times
    assert abs(stamp / 1000 - time.time()) < 300
    assert door.open(name, 1, keep=True) == entry
    assert messages(Topic.parse(entry.source), 0, 0, 1).values == [b"a tuple"]
    assert watermarks(Topic.parse(door.open(name, 1).source)) == {0: (0, 0)}
    door.close(entry)
    assert watermarks(Topic.parse(entry.answers)) is None
    assert psutil.Process(door.server()).is_running()


def wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_who_listens_at_a_port_is_found() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        assert find_listener(server.getsockname()[1]) == os.getpid()
