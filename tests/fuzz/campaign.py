"""Feeds mutated inputs to a reader and sorts what happens: accepted, rejected, refused, or a bug.

A reader takes bytes and says what it made of them. It may raise a ``SlipstreamError`` that says what to do, and nothing
else; it may not take more than five seconds of a processor, or a lot of memory. What it accepted it has checked in a
second, simpler way.
"""

from __future__ import annotations

import random
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from fuzz.mutate import Mutator
from slipstream._errors import SlipstreamError

ACCEPTED, REJECTED, REFUSED = "accepted", "rejected", "refused"
LONGEST_S = 5.0
WAITING = 20
#: how much the process may grow over one input; inputs are a few kilobytes
MOST_GROWTH_KB = 512 * 1024
MOST_BUGS = 20


class Hang(BaseException):
    """A reader took too long; no reader catches this by accident."""


@dataclass(frozen=True)
class Reader:
    """How one kind of input is read: ``read`` says ``ACCEPTED`` or ``REJECTED`` (some of it, with reasons)."""

    name: str
    form: str
    corpus: Sequence[bytes]
    read: Callable[[bytes], str]
    weight: float = 1.0


@dataclass(frozen=True)
class Bug:
    """An input that a reader did not stand, and how to make it again."""

    reader: str
    seed: int
    number: int
    what: str
    data: bytes

    def __str__(self) -> str:
        return f"{self.reader}, seed {self.seed}, input {self.number}: {self.what}\n    {self.data[:400]!r}"


@dataclass
class Tally:
    """What became of the inputs of one reader."""

    reader: str
    outcomes: Counter[str] = field(default_factory=Counter)
    bugs: list[Bug] = field(default_factory=list)
    slowest_s: float = 0.0

    @property
    def inputs(self) -> int:
        """How many there were."""
        return sum(self.outcomes.values())


def fuzz(reader: Reader, count: int, seed: int) -> Tally:
    """Give a reader so many mutated inputs; stops at the first ``MOST_BUGS`` bugs."""
    tally = Tally(reader.name)
    for data in reader.corpus:
        # kernels are compiled at their first use
        with suppress(SlipstreamError):
            reader.read(data)
    for number in range(count):
        data = mutation(reader, seed, number)
        began = time.perf_counter()
        outcome = outcome_of(reader, data)
        tally.slowest_s = max(tally.slowest_s, time.perf_counter() - began)
        if outcome not in (ACCEPTED, REJECTED, REFUSED):
            tally.bugs.append(Bug(reader.name, seed, number, outcome, data))
            outcome = "bug"
        tally.outcomes[outcome] += 1
        if len(tally.bugs) == MOST_BUGS:
            break
    return tally


def mutation(reader: Reader, seed: int, number: int) -> bytes:
    """Input ``number`` of a campaign; it does not depend on those before it."""
    return Mutator(random.Random(f"{seed}/{reader.name}/{number}"), reader.form, reader.corpus).mutated()


def outcome_of(reader: Reader, data: bytes) -> str:
    """What a reader makes of an input; anything but the three outcomes is the description of a bug."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    try:
        with _limited():
            outcome = reader.read(data)
    except SlipstreamError as error:
        outcome = REFUSED if error.message and error.hint else f"an error without advice: {error!r}"
    except (Exception, Hang) as error:
        outcome = f"{type(error).__name__}: {str(error)[:300]} ({_place(error)})"
    if time.process_time() - began > LONGEST_S:
        outcome = f"took {time.process_time() - began:.1f} s"
    if (grown := resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) > MOST_GROWTH_KB:
        outcome = f"took {grown // 1024} MB"
    return outcome


def _place(error: BaseException) -> str:
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return " > ".join(frames[-4:])


@contextmanager
def _limited() -> Iterator[None]:
    """Interrupt the block after the longest time a reader may take, working or waiting.

    A busy machine may let a process wait for long, so the limit is on its own time; only one that sleeps is stopped by
    the clock, much later.
    """

    def ring(number: int, frame: Any) -> None:
        raise Hang(f"more than {LONGEST_S:g} s of work, or {WAITING * LONGEST_S:g} s in all")

    timers = (
        (signal.SIGPROF, signal.ITIMER_PROF, LONGEST_S),
        (signal.SIGALRM, signal.ITIMER_REAL, WAITING * LONGEST_S),
    )
    former = [(number, signal.signal(number, ring)) for number, _, _ in timers]
    for _, timer, seconds in timers:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for _, timer, _ in timers:
            signal.setitimer(timer, 0)
        for number, handler in former:
            signal.signal(number, handler)


def table(tallies: Sequence[Tally], seed: int) -> str:
    """The counts, for people."""
    columns = (ACCEPTED, REJECTED, REFUSED, "bug")
    lines = [f"seed {seed}", f"{'reader':28}{'inputs':>9}{''.join(f'{name:>10}' for name in columns)}{'slowest':>10}"]
    for tally in tallies:
        counts = "".join(f"{tally.outcomes[name]:10,}" for name in columns)
        lines.append(f"{tally.reader:28}{tally.inputs:9,}{counts}{tally.slowest_s * 1000:7.0f} ms")
    lines.append(f"{'all':28}{sum(tally.inputs for tally in tallies):9,}")
    return "\n".join(lines)
