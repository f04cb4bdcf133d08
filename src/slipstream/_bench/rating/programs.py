"""Engines as programs that a trial starts: Slipstream's own, or any other by its command line."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from slipstream._bench.driving.driver import Sent
from slipstream._bench.rating.doors import Entry
from slipstream._bench.rating.trial import (
    ResponseSummary,
    TimeWindow,
    measure_busy_shares,
    read_journal_responses,
    read_text_responses,
)
from slipstream._errors import BadArgument, Unavailable
from slipstream._feeds.run import Run
from slipstream._io.kafka_client import Topic
from slipstream._io.readers.topic import messages, watermarks
from slipstream._linear_road.job.toll_journal import last_batch
from slipstream._runtime.watching import status
from slipstream._tools.strict_json import parse_json

#: where other engines write their answers unless they send them to a topic
OUTPUT = "output.csv"
#: how the line begins by which other engines say that they wait for input
READY = b"ready"


@dataclass(frozen=True)
class EngineFeed:
    """What an engine is started on: an open door and what will come through it."""

    entry: Entry
    encoding: str
    run: Run  # presented ``run.copies`` times
    window: TimeWindow
    out: Path
    log: Path  # what the engine prints


@dataclass(frozen=True)
class EngineStart:
    """When an engine was started: what is older is an earlier start's."""

    at: float  # seconds since 1970
    logged: int  # bytes in its log before


class EngineProgram(Protocol):
    """An engine that runs in processes of its own."""

    name: str
    kinds: str  # the kinds of answers that it gives
    cold: bool  # whether it starts without the state of the seconds before the window
    ends: bool  # whether it ends when its input does

    def command(self, feed: EngineFeed) -> list[str]:
        """Return the command that starts it, or continues it after it has died."""

    def is_ready(self, feed: EngineFeed, start: EngineStart) -> bool:
        """Return whether it waits for input, since it was started."""

    def newest(self, feed: EngineFeed) -> int | None:
        """Return the newest second that it has answered, if it says."""

    def answered(self, feed: EngineFeed) -> int:
        """Return a number that grows with its answers."""

    def finish(self, feed: EngineFeed, sent: Sequence[Sent]) -> dict[str, ResponseSummary]:
        """Collect its answers in ``feed.out`` and return their response times."""

    def busy(self, feed: EngineFeed, begin: float, end: float) -> tuple[float, ...]:
        """Return the share of time in which it was busy, in each part of a time; empty if it does not say."""


class TollEngine:
    """The toll engine, as users start it on a live feed, with the state of the seconds before the window."""

    name = "slipstream"
    kinds = "0,1,2,3,4"
    ends = True

    def __init__(self, options: Sequence[str] = (), *, cold: bool = False) -> None:
        self._options, self.cold = options, cold

    def command(self, feed: EngineFeed) -> list[str]:
        """Follow the feed; the driver sends whole seconds in order, so nothing can be late."""
        made = [sys.executable, "-m", "slipstream", "toll", feed.entry.source, "--follow", "--out", str(feed.out)]
        made += ["--format", feed.encoding, "--lateness", "0", "--no-text", "--json", *self._options]
        made += ["--history", str(feed.run.path), "--multiply", str(feed.run.copies)]
        return made if self.cold else made + make_forward_options(feed.window, feed.out)

    def is_ready(self, feed: EngineFeed, start: EngineStart) -> bool:
        """Return whether its status says so."""
        try:
            said = parse_json((feed.out / status.FILE).read_bytes())
            return said["state"] in (status.READY, status.RUNNING) and said["since"] >= start.at
        except (FileNotFoundError, KeyError, ValueError):
            return False

    def newest(self, feed: EngineFeed) -> int | None:
        """Return the newest second in its journal."""
        last = last_batch(feed.out)
        return last.newest if last and last.newest >= 0 else None

    def answered(self, feed: EngineFeed) -> int:
        """Return the number of batches."""
        last = last_batch(feed.out)
        return last.batch if last else -1

    def finish(self, feed: EngineFeed, sent: Sequence[Sent]) -> dict[str, ResponseSummary]:  # noqa: ARG002
        """Return the response times in its journal: commit minus arrival at the door."""
        return read_journal_responses(feed.out)

    def busy(self, feed: EngineFeed, begin: float, end: float) -> tuple[float, ...]:
        """Return the share of time that its batches took."""
        return measure_busy_shares(feed.out, begin, end)


def make_forward_options(window: TimeWindow, out: Path) -> list[str]:
    """Return the options of ``toll`` that start at a window; all trials of a rating share the state."""
    if not window.since:
        return []
    folder = out.parent / f"forward-{window.since}"
    return ["--fast-forward-to", str(window.since), "--fast-forward-cache", str(folder)]


class EngineCommand:
    """Any engine, by a command line with words in braces: {source}, {host}, {port}, {topic}, {answers}, {out}, {run}.

    It says that it is ready by a line that begins with "ready". It knows nothing of the seconds before the window. Its
    answers are text in the paper's format: messages to the topic {answers}, whose arrival at the broker is their Emit,
    or the file {out}/output.csv, in which it stamps Emit itself.
    """

    cold = True
    ends = False

    def __init__(self, command: str, kinds: str, name: str = "") -> None:
        self._words = shlex.split(command)
        if not self._words:
            raise BadArgument(
                "--engine-command: no command.",
                hint="Write, for example, 'my-engine {source} {out}'.",
                code="missing-value",
            )
        self.name = name or Path(self._words[0]).name
        self.kinds = kinds

    def command(self, feed: EngineFeed) -> list[str]:
        """Fill in what it reads and writes."""
        host, port, topic = feed.entry.address
        answers = Topic.parse(feed.entry.answers).name if feed.entry.answers else ""
        values = {"source": feed.entry.source, "host": host, "port": port, "topic": topic, "answers": answers}
        values |= {"out": str(feed.out), "run": str(feed.run.path), "partitions": str(feed.entry.partitions)}
        values |= {"since": str(feed.window.since)}
        feed.out.mkdir(parents=True, exist_ok=True)
        try:
            return [word.format(**values) for word in self._words]
        except (KeyError, IndexError, ValueError) as error:
            raise BadArgument(
                f"--engine-command: {error} is not known.",
                hint=f"Use {', '.join(f'{{{name}}}' for name in values)}.",
                code="unknown-value",
            ) from error

    def is_ready(self, feed: EngineFeed, start: EngineStart) -> bool:
        """Return whether it has printed a line that begins with "ready"."""
        said = feed.log.read_bytes()[start.logged :].lower()
        return any(line.startswith(READY) for line in said.splitlines())

    def newest(self, feed: EngineFeed) -> int | None:  # noqa: ARG002
        """Return None: it does not say."""
        return None

    def answered(self, feed: EngineFeed) -> int:
        """Return how much it has written."""
        file = feed.out / OUTPUT
        written = file.stat().st_size if file.exists() else 0
        marks = watermarks(Topic.parse(feed.entry.answers)) if feed.entry.answers else None
        return written + sum(high for _, high in (marks or {}).values())

    def finish(self, feed: EngineFeed, sent: Sequence[Sent]) -> dict[str, ResponseSummary]:
        """Collect the messages of its topic, if there are any, as ``output.csv``."""
        output = feed.out / OUTPUT
        if feed.entry.answers:
            lines = list(stamp_answers(_read_messages(Topic.parse(feed.entry.answers)), sent))
            if lines:
                output.write_text("".join(lines), encoding="utf-8")
        return read_text_responses(output) if output.exists() else {}

    def busy(self, feed: EngineFeed, begin: float, end: float) -> tuple[float, ...]:  # noqa: ARG002
        """Return nothing: it has no batches that could be measured."""
        return ()


def _read_messages(topic: Topic) -> Iterator[tuple[int, bytes]]:
    """Return the messages of a topic, each with its arrival at the broker in milliseconds since 1970."""
    for number, (low, high) in (watermarks(topic) or {}).items():
        found = messages(topic, number, low, high)
        yield from zip(found.times, found.values, strict=True)


def stamp_answers(received: Iterator[tuple[int, bytes]], sent: Sequence[Sent]) -> Iterator[str]:
    """Return answers with Emit as measured from outside: how long after their second was sent they arrived.

    >>> list(stamp_answers(iter([(5_250, b"0,7,100,0,20,0")]), [Sent(100, 1, 4_000, 0.0)]))
    ['0,7,100,101.250,20,0\\n']
    """
    at = {one.second: one.sent_ms for one in sent}
    for arrived, line in received:
        words = line.decode(errors="replace").strip().split(",")
        place = 2 if words[0] == "0" else 1
        if len(words) <= place + 1 or not words[place].isdigit() or int(words[place]) not in at:
            yield ",".join(words) + "\n"  # for the validator to judge
            continue
        second = int(words[place])
        words[place + 1] = f"{second + (arrived - at[second]) / 1000:.3f}"
        yield ",".join(words) + "\n"


def read_last_printed(log: Path) -> str:
    """Return the last line that a program printed."""
    return (log.read_text(errors="replace").strip().splitlines() or [""])[-1] if log.exists() else ""


def check_exit(what: str, code: int, log: Path) -> None:
    """Raise an error for a program that failed."""
    if code:
        raise Unavailable(
            f"The {what} exited with code {code}: {read_last_printed(log)}", hint=f"See {log}.", code="engine-failed"
        )
