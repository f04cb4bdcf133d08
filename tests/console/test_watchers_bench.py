"""How much fifty watchers slow an engine: windows with and without them alternate while one engine runs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import pytest

from console.browsing import Console
from console.serving import free_port
from measure import machine
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._io.outputs import read_journal
from slipstream._runtime.watching import metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WATCHERS, EXPRESSWAYS, WINDOW_S = 50, 100, 30
#: with watchers or without; traffic grows, so neither is always the later one
WINDOWS = (False, True, True, False, False, True)
#: seconds of a window that are left out, in which what was before it ends
SETTLING_S = 4


@contextmanager
def watchers(port: int) -> Iterator[None]:
    """Fifty connections to the stream of the city; all of them must get something."""
    command = [sys.executable, Path(__file__).with_name("watching.py"), str(port), str(WATCHERS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield
    finally:
        process.terminate()
        counts = [int(count) for count in process.communicate(timeout=60)[0].split()]
    assert len(counts) == WATCHERS
    assert min(counts) > 0
    print(f"a watcher got {min(counts) / 1e6:.1f} MB")


@contextmanager
def engine(run: Path, out: Path, speed: float) -> Iterator[None]:
    """`slipstream toll` in real time, or as fast as it can."""
    command = [sys.executable, "-m", "slipstream", "toll", str(run), "--out", str(out)]
    options = ["--speed", str(speed), "--no-text", "--snapshot", "--master", "local[2]"]
    process = subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL)
    try:
        while not (out / "batches.jsonl").exists() or len(read_journal(out)) < 3:
            assert process.poll() is None, "the engine ended"
            time.sleep(0.2)
        yield
        assert process.poll() is None, "the run was too short"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(120)


def rest(watched: bool, console: Console, windows: list[tuple[bool, float, float]]) -> None:
    """One window; without watchers, the console stands still, as if there were none."""
    assert console.process is not None
    if not watched:
        console.process.send_signal(signal.SIGSTOP)
    time.sleep(SETTLING_S)
    began = time.time()
    time.sleep(WINDOW_S - SETTLING_S)
    windows.append((watched, began, time.time()))
    console.process.send_signal(signal.SIGCONT)


@pytest.mark.bench
@pytest.mark.parametrize("speed", [1.0, 0.0], ids=["real-time", "full-speed"])
def test_how_much_fifty_watchers_slow_an_engine(spark: SparkSession, tmp_path: Path, speed: float) -> None:
    seconds = len(WINDOWS) * WINDOW_S + 120
    minutes = seconds // 60 + 1 if speed else 40
    simulate(spark, Traffic(expressways=1, minutes=minutes, demand=6.0), 5, tmp_path / "city", multiply=EXPRESSWAYS)
    windows: list[tuple[bool, float, float]] = []
    console = Console(tmp_path, free_port()).start()
    try:
        with engine(tmp_path / "city", tmp_path / "tolled", speed):
            _open(console)
            for watched in WINDOWS:
                with watchers(console.port) if watched else nullcontext():
                    rest(watched, console, windows)
    finally:
        console.stop()
    print(f"\n{machine()}, {EXPRESSWAYS} expressways, {WATCHERS} watchers, {len(WINDOWS) // 2} x {WINDOW_S} s each")
    _report(tmp_path / "tolled", windows, speed)


def _open(console: Console) -> None:
    body = json.dumps({"result": "tolled"}).encode()
    headers = {"content-type": "application/json", "x-slipstream": "1"}
    urllib.request.urlopen(urllib.request.Request(f"{console.address}/api/city/open", body, headers), timeout=60)


def _report(out: Path, windows: list[tuple[bool, float, float]], speed: float) -> None:
    commits = {one.batch: one.commit_ms for one in metrics.read(out)}
    found: dict[bool, list[float]] = {False: [], True: []}
    for watched, began, ended in windows:
        inside = [one for one in read_journal(out) if began < one.committed_ms / 1000 <= ended and one.tuples]
        if speed:
            found[watched] += [commits[one.batch] for one in inside if one.batch in commits]
        else:
            found[watched].append(sum(one.tuples for one in inside) / (ended - began))
    alone, with_them = fmean(found[False]), fmean(found[True])
    slower = with_them / alone - 1 if speed else alone / with_them - 1
    unit = "ms per batch" if speed else "tuples/s"
    print(f"alone {alone:,.0f} {unit}, watched {with_them:,.0f} {unit}: {100 * slower:+.1f} % slower")
