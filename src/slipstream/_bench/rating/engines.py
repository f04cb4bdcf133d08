"""Everything that can be rated: programs from outside, Slipstream's own replay, and System X."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from slipstream._bench.postgres import run_postgres
from slipstream._bench.rating.outside import ABORT_LAG
from slipstream._bench.rating.programs import check_exit, make_forward_options
from slipstream._bench.rating.resource_use import ProcessorMeter, measure_memory
from slipstream._bench.rating.trial import (
    TimeWindow,
    Trial,
    compute_overlap_shares,
    describe_late,
    measure_busy_shares,
    read_journal_responses,
    read_text_responses,
)
from slipstream._feeds.clock import Clock
from slipstream._feeds.run import Run
from slipstream._linear_road.fast_forward import FastForward
from slipstream._linear_road.job.toll_journal import last_batch
from slipstream._tools.processes import child_processes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: seconds between two looks at the memory of a replay
_WEIGH_S = 5.0


class RatedEngine(Protocol):
    """An engine that can be rated."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def kinds(self) -> str:
        """The kinds of answers that it gives."""

    @property
    def cold(self) -> bool:
        """Whether it starts without the state of the seconds before the window."""

    @property
    def how(self) -> str:
        """How tuples reach it, in words."""

    def drive(self, run: Run, expressways: int, window: TimeWindow, out: Path) -> Trial:
        """Drive the window of ``run``, presented as ``expressways``, in real time; answers go to ``out``."""


class OwnReplay:
    """The toll engine on a run that it replays itself: no door, no driver, nothing to parse."""

    name = "slipstream"
    kinds = "0,1,2,3,4"
    cold = False
    how = "replay inside the engine"

    def __init__(self, options: Sequence[str] = ()) -> None:
        self._options = options

    def drive(self, run: Run, expressways: int, window: TimeWindow, out: Path) -> Trial:
        """Toll the window."""
        command = [sys.executable, "-m", "slipstream", "toll", str(run.path), "--out", str(out), "--no-text"]
        command += ["--multiply", str(expressways // run.stored), "--speed", "1", "--json", *self._options]
        command += [*make_forward_options(window, out), "--until", str(window.until)]
        ended, gib, cores = _run(command, out)
        responses = read_journal_responses(out)
        clock = Clock.read(out / "checkpoint" / "clock.json")
        begin = clock.origin_ms / 1000 if clock else 0.0
        return Trial(
            expressways,
            window.seconds,
            responses,
            ended or describe_late(responses) or ("" if responses else "no answers"),
            busy=measure_busy_shares(out, begin, begin + window.seconds),
            gib=round(gib, 1),
            cores={"engine": cores},
        )


class Postgres:
    """System X: PostgreSQL, polled. Travel times are excluded, as in the paper."""

    name = "postgres"
    kinds = "0,1,2,3"
    cold = False
    how = "copied into a table by a driver in the same process"

    def __init__(self, spark: Callable[[], SparkSession]) -> None:
        self._spark = spark

    def drive(self, run: Run, expressways: int, window: TimeWindow, out: Path) -> Trial:
        """Feed the window to the database."""
        multiplied = run.multiplied(expressways // run.stored)
        forward = None
        if window.since:
            folder = out.parent / f"forward-{window.since}"
            forward = FastForward(
                str(folder.absolute()), str(run.path.absolute()), multiplied.copies, "2004", window.since
            )
            forward.compute(self._spark())
        result = run_postgres(multiplied, out, seconds=window.until, forward=forward)
        answered = read_text_responses(Path(result.output))
        responses = {name: found for name, found in answered.items() if name != "travel time"}
        driven = result.driver
        begin = driven.origin_epoch_ms / 1000 + window.since
        return Trial(
            expressways,
            window.seconds,
            responses,
            describe_late(responses),
            f"void: the driver was {driven.max_lag} s late at second {driven.latest_second}" if driven.void else "",
            busy=compute_overlap_shares(result.spans, begin, begin + window.seconds),
            lag=driven.max_lag,
        )


def _run(command: list[str], out: Path) -> tuple[str, float, float]:
    """Run an engine until it exits or falls too far behind; return why it was aborted, its peak memory, its cores."""
    gib, began, weighed, meter = 0.0, 0.0, 0.0, ProcessorMeter()
    log = out.parent / f"{out.name}.log"
    with child_processes.logging(command, log) as child:
        while child.code is None:
            time.sleep(1)
            if time.monotonic() - weighed >= _WEIGH_S:
                weighed, gib = time.monotonic(), max(gib, measure_memory(child.pid))
            if (clock := Clock.read(out / "checkpoint" / "clock.json")) and clock.runs:
                began = began or time.time()
                meter.read(child.pid)
                if (last := last_batch(out)) and _compute_lag(clock, last.newest) > ABORT_LAG:
                    return f"more than {ABORT_LAG:.0f} s behind", gib, _compute_mean(meter, began)
    check_exit("engine", child.code, log)
    return "", gib, _compute_mean(meter, began)


def _compute_mean(meter: ProcessorMeter, began: float) -> float:
    return round(meter.seconds / max(time.time() - began, 1.0), 2)


def _compute_lag(clock: Clock, newest: int) -> float:
    """Return how far the answers lag behind the engine's clock, in seconds."""
    return clock.now_ms() / 1000 - max(newest, clock.since)


def make_engine_options(master: str, conf: Sequence[str], parallel: int) -> list[str]:
    """Return the options of ``toll`` that a rating passes on."""
    settings = [word for setting in conf for word in ("--conf", setting)]
    return ["--master", master, *settings, *(["--parallel", str(parallel)] if parallel else [])]
