"""An engine for three quarters of an hour at 70 % of what it can, and one that is given three times what it can.

``SLIPSTREAM_RATED`` is the number of expressways that ``slipstream rate`` found on this machine;
``SLIPSTREAM_SOAK_MINUTES`` makes the soak shorter; ``SLIPSTREAM_SOAK_RUN`` is a run of three hours that is there; with
``SLIPSTREAM_PICTURES=1`` the plots go to docs/images.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from linear_road.soaking import (
    STATE,
    clock_of,
    delays,
    draw,
    started,
    state_mib,
    summarise_minutes,
    wait_for_clock,
    watching,
)
from measure import machine
from slipstream._city.history_writer import make_history
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._feeds.clock import Clock
from slipstream._linear_road.answers import LIMITS, TOLL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.bench

RATED = int(os.environ.get("SLIPSTREAM_RATED", "550"))
MINUTES = int(os.environ.get("SLIPSTREAM_SOAK_MINUTES", "45"))
END = 10_800
#: seconds of an engine in which its memory finds its size
WARM_UP = 600


@pytest.fixture(scope="module")
def run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole run of one expressway with its history; Spark is stopped, for the engine needs the machine."""
    if there := os.environ.get("SLIPSTREAM_SOAK_RUN"):
        return Path(there)
    made = simulate(spark, Traffic(), 1, tmp_path_factory.mktemp("runs") / "run")
    make_history(made, spark)
    spark.stop()
    return made.path


def picture(name: str, folder: Path) -> Path:
    return (Path(__file__).parents[2] / "docs" / "images" if os.environ.get("SLIPSTREAM_PICTURES") else folder) / name


def test_soak(run: Path, tmp_path: Path) -> None:
    copies, since = RATED * 7 // 10, END - 60 * MINUTES
    out = tmp_path / "out"
    engine = started(run, out, "--multiply", copies, "--fast-forward-to", since, "--speed", 1)
    wait_for_clock(engine)
    with watching(engine) as watched:
        assert engine.wait_for_end(60 * MINUTES + 900), "it hangs"
    assert engine.code == 0, engine.stderr
    print(f"\n{copies} expressways, 70 % of {RATED}, for {MINUTES} minutes; {machine()}")
    warm_up = min(WARM_UP, 20 * MINUTES)
    for name in watched.samples:
        mean, slope, error = watched.slope(name, warm_up)
        print(f"  {name}: {mean:,.0f}, after {warm_up // 60} minutes {slope:+,.0f} an hour (+-{2 * error:,.0f})")
    print(f"  RocksDB: {state_mib(out)[0]:,.0f} MiB at the start, {state_mib(out)[1]:,.0f} at the end")
    for minute, p50, p99, worst in summarise_minutes(out, since):
        print(f"  minute {minute:2}: toll p50 {p50:.1f} s, p99 {p99:.1f}, max {worst:.1f}")
    draw(watched, out, since, f"{copies} expressways for {MINUTES} minutes", picture("soak.png", tmp_path))


def test_overload_and_recovery(run: Path, tmp_path: Path) -> None:
    """Half of what it can, three times what it can for two minutes, and half again."""
    copies, since, before, over = RATED // 2, 9300, 60, 120
    out, ratio = tmp_path / "out", 3 * RATED / (RATED // 2)
    engine = started(run, out, "--multiply", copies, "--fast-forward-to", since, "--speed", 1, "--batch-seconds", 10)
    wait_for_clock(engine)
    with watching(engine) as watched:
        time.sleep(before)
        Clock.start(ratio, since + before).write(clock_of(out))
        time.sleep(over)
        ended = round(since + before + over * ratio)
        Clock.start(1.0, ended).write(clock_of(out))
        assert engine.wait_for_end(END - ended + 1800), "it hangs"
    assert engine.code == 0, engine.stderr
    at, late, counts = delays(out)
    behind = late > LIMITS[TOLL]
    print(f"\n{copies} expressways, {ratio:.0f} times as fast for {over} s: 3 times {RATED}; {machine()}")
    print(f"  latest answer {late.max():.0f} s, {counts[behind].sum():,.0f} of {counts.sum():,.0f} tolls late")
    print(f"  within {LIMITS[TOLL]} s again {at[behind].max() - ended:.0f} s after the overload")
    for name in ("JVM", "Python workers", "driver", STATE):
        times, values = watched.of(name)
        parts = [values[times < before], values[times >= before]]
        print(f"  {name}: at most {parts[0].max():,.0f} MiB before, {parts[1].max():,.0f} MiB from then on")
    draw(watched, out, since, f"{3 * RATED} expressways for two minutes", picture("overload.png", tmp_path))
