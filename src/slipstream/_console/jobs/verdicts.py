"""The verdict on a job: one line that says whether anything needs attention, before any figure.

Only a job that runs can be late. One that has finished is finished, however long it took.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from slipstream._console.jobs.states import State
from slipstream._runtime.watching.health import WINDOW_S, Health

#: good: all is well; busy: wait; bad: needs attention; calm: nothing happens
Level = Literal["good", "busy", "bad", "calm"]


@dataclass(frozen=True)
class JobVerdict:
    """One line about a job, and how urgent it is."""

    level: Level
    text: str
    hint: str = ""  # what to do, or what it means


_OTHERS: dict[State, tuple[Level, str, str]] = {
    "new": ("calm", "Never started", ""),
    "starting": ("busy", "Starting", "Spark starts and compiles; input is read when it is ready."),
    "ready": ("busy", "Ready, waiting for input", ""),
    "paused": ("calm", "Paused", "No input is read until it is resumed."),
    "stopped": ("calm", "Stopped", "It can be resumed where it was."),
    "finished": ("calm", "Finished", "All its input is processed."),
    "failed": ("bad", "Failed", "What it committed is safe. See its log."),
    "gone": ("bad", "Its process has disappeared", "What it committed is safe; resume it with the same command."),
    "damaged": ("bad", "Damaged", "Restore the folder from a backup."),
}


def pass_verdict(state: State, why: str, health: Health, pace: float | None, silent_s: float | None) -> JobVerdict:
    """Return the verdict on a job; ``silent_s`` is the time since its last commit.

    >>> pass_verdict("running", "", Health(rate=812.4, lag=1.23), pace=1.0, silent_s=0.5).text
    'Keeping up, 1.2 s behind'
    >>> pass_verdict("running", "", Health(lag=42.0, is_behind=True, bottleneck="accounts"), 1.0, 0.5).text
    'Falling behind: 42 s, bottleneck: accounts'
    >>> pass_verdict("finished", "finished", Health(lag=42.0, rate=12_345.0), 1.0, 9000.0).text
    'Finished'
    """
    if state == "running":
        return _judge_running(health, pace, silent_s)
    level, text, hint = _OTHERS[state]
    return JobVerdict(level, f"{text}: {why}" if why and state in ("failed", "damaged") else text, hint)


def _judge_running(health: Health, pace: float | None, silent_s: float | None) -> JobVerdict:
    if not pace:
        rate = f", {format_number(health.rate)} tuples/s" if health.rate else ""
        return JobVerdict(
            "good", f"Running at full speed{rate}", "It reads recorded input as fast as it can, so nothing is late."
        )
    if silent_s is not None and silent_s > WINDOW_S:
        return JobVerdict(
            "busy",
            f"No commit for {format_duration(silent_s)}",
            "No input has arrived, or it cannot be processed: see the log.",
        )
    behind = format_duration(health.lag) if health.lag is not None else ""
    if health.is_behind:
        bottleneck = f", bottleneck: {health.bottleneck}" if health.bottleneck else ""
        word = "Catching up" if health.trend == "shrinking" else "Falling behind"
        return JobVerdict(
            "bad", f"{word}: {behind}{bottleneck}", "Results are later than their limits, or later and later."
        )
    return JobVerdict("good", f"Keeping up, {behind} behind" if behind else "Running")


def format_number(value: float | None) -> str:
    """Return a number with at most three significant digits, and separators for thousands.

    >>> format_number(12345.6), format_number(0.1234)
    ('12,300', '0.123')
    """
    if not value:
        return "0"
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.3g}"


def format_duration(seconds: float) -> str:
    """Return a duration with about two digits: 0.85 s, 42 s, 3 min, 2 h, 4 d.

    >>> [format_duration(seconds) for seconds in (0.853, 1.23, 41.6, 185, 7300, 400000)]
    ['0.85 s', '1.2 s', '42 s', '3 min', '2.0 h', '4.6 d']
    """
    if seconds < 1:
        return f"{seconds:.2f} s"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} d"
