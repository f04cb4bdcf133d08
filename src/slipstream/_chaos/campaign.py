"""Run chains of faults on a job, each chain in one folder from the beginning of the job's input to the end.

Starting a job takes longer than anything else here, so one start gets several faults that do not end it and then one
that does. After every fault, what is committed is compared with the undisturbed run; so harm is detected immediately,
not at the end of its chain.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from slipstream._chaos import NOTES, faults
from slipstream._chaos.faults import Damage, Fault, Site
from slipstream._chaos.output_comparison import Committed, find_difference, verify_comparator
from slipstream._chaos.process import JobProcess
from slipstream._chaos.subject import Subject
from slipstream._errors import BadArgument, CheckFailed, SlipstreamError
from slipstream._io.outputs import CHECKPOINT
from slipstream._linear_road.answer_text import TEXT
from slipstream._tools.logs import append_lines, read_lines
from slipstream._tools.progress import say

SAME, ADVISED, NOT_REACHED = "same", "stopped with advice", "not reached"
#: the size of the file system for the disk-full fault
_DISK = "512m"
#: batches between two faults in one start
_GAP = (0, 3)
#: faults per start that do not end it
_SOFT = 4
#: how often to try a failpoint that a job does not reach, each time in another chain
_TRIES = 2


@dataclass(frozen=True)
class Record:
    """One fault and its outcome."""

    kind: str
    chain: int
    outcome: str
    said: str = ""

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost, duplicated or wrong, and the job gave advice if it stopped."""
        return self.outcome in (SAME, ADVISED, NOT_REACHED)


Make = Callable[[Site], Fault]


def list_faults(subject: Subject) -> dict[str, list[Make]]:
    """Return the faults for a job, by the names that ``--only`` accepts."""
    saved = next(point for point in subject.points if point.endswith(".after-save"))
    partly = (saved, "outputs.between-tables", "outputs.before-journal", "outputs.after-journal")
    return {
        "failpoints": [
            *(partial(faults.KillAt, point=point) for point in subject.points),
            *(
                partial(faults.KillAt, point=point, who=who)
                for point in partly
                for who in (faults.DRIVER, faults.JVM, faults.WORKERS)
            ),
        ],
        "kill": [partial(faults.Kill, who=who) for who in (faults.EVERYTHING, faults.DRIVER, faults.JVM)],
        "signal": [partial(faults.Signal, number=number) for number in (signal.SIGTERM, signal.SIGINT)],
        "worker": [faults.KillWorker],
        "pause": [partial(faults.Pause, who=who) for who in (faults.DRIVER, faults.JVM, faults.WORKERS)],
        "clock": [partial(faults.Skew, seconds=seconds) for seconds in (3600, -3600, 400 * 86400, -86400)],
        "disk": [faults.FullDisk],
        "read-only": [faults.ReadOnly],
        "damage": [partial(Damage, what=what, how=how) for what, how in _list_damages(subject)],
    }


def _list_damages(subject: Subject) -> Iterator[tuple[str, str]]:
    for what in faults.NEWEST:
        for how in ("cut", "changed"):
            # a byte changed in an append-only table is noticed by its next reader, not by the job
            noticed = (what, how) != ("log of a table", "changed")
            if noticed and (what != TEXT or subject.has_text):
                yield what, how


#: shares of 100 faults
SHARES = {
    "failpoints": 24,
    "kill": 8,
    "signal": 6,
    "worker": 30,
    "pause": 2,
    "clock": 14,
    "disk": 3,
    "read-only": 3,
    "damage": 10,
}


@dataclass
class Campaign:
    """A campaign of faults on a job, in a folder."""

    subject: Subject
    folder: Path
    wanted: int
    seed: int
    kinds: Sequence[str] = tuple(SHARES)
    makes: Mapping[str, Sequence[Make]] = field(default_factory=dict)  # overrides the faults of some kinds
    pause_s: float = 60.0
    jitter_s: float = 1.0  # the longest delay after a commit
    program: Sequence[str] = (sys.executable, "-m", "slipstream")
    records: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in SHARES:
                raise BadArgument(
                    f"--only {kind}: no such kind of fault.",
                    hint=f"Use one of: {', '.join(SHARES)}.",
                    code="unknown-value",
                    expected=[*SHARES],
                    found=kind,
                )
        self.makes = {**list_faults(self.subject), **self.makes}
        self.records = self._read_records()
        # a resumed campaign must not draw the same random numbers again
        self._chance = random.Random(f"{self.seed} {len(self.records)}")
        self._chain = max((record.chain for record in self.records), default=0)
        self._lasting: list[Damage] = []  # damage that no start has noticed yet
        self._missed: Counter[str] = Counter()  # how often a job did not reach a failpoint

    @property
    def _notes(self) -> Path:
        return self.folder / NOTES

    def _read_records(self) -> list[Record]:
        """Return the records of this campaign before it was interrupted."""
        name, *lines = read_lines(self._notes) or [self._name()]
        if name != self._name():
            raise BadArgument(
                f"--out {self.folder} contains another campaign.",
                hint=f"Resume it with --seed {name.get('seed')} and its job and kinds, or --overwrite it.",
                code="different-job",
            )
        return [Record(**line) for line in lines]

    def _name(self) -> dict[str, Any]:
        command = list(self.subject.command)
        return {"seed": self.seed, "command": command, "kinds": list(self.kinds), "faults": self.wanted}

    def _note(self, line: dict[str, Any]) -> None:
        append_lines(self._notes, [line])

    def run(self) -> list[Record]:
        """Run the campaign or what is left to run; return the record of every fault."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._notes.exists():
            self._note(self._name())
        for left in self.folder.glob("chain-*"):
            _remove(left)  # of a killed campaign
        expected = self.run_undisturbed()
        todo = self._plan_remaining()
        while todo:
            before = len(self.records), self._missed.total()
            with self._create_site() as site:
                self._run_chain(site, todo, expected)
            if (len(self.records), self._missed.total()) == before:
                raise CheckFailed(
                    "The job ended before any fault could be injected.",
                    hint="Use more input, or smaller batches: --batch-seconds, --train, or more files.",
                    code="check-failed",
                )
        return self.records

    def _plan_remaining(self) -> list[Make]:
        """Return the plan without the faults that were injected already."""
        done = Counter(_strip_suffix(record.kind) for record in self.records)
        left = []
        for make in plan(random.Random(self.seed), {kind: self.makes[kind] for kind in self.kinds}, self.wanted):
            if done[kind := _strip_suffix(make(_NOWHERE).kind)]:
                done[kind] -= 1
            else:
                left.append(make)
        return left

    def run_undisturbed(self) -> Committed:
        """Run the job undisturbed and verify the comparator with its output; return the output."""
        out = self.folder / "undisturbed"
        shutil.rmtree(out, ignore_errors=True)
        engine = self._start(out, {})
        engine.wait_for_end(3600)
        if engine.code != 0:
            raise CheckFailed(
                f"The undisturbed job exited with code {engine.code}: {engine.stderr}",
                hint="Fix the job first: it must run without faults.",
                code="engine-failed",
            )
        expected = Committed.read(out)
        verify_comparator(expected)
        return expected

    def _start(self, out: Path, environment: dict[str, str]) -> JobProcess:
        return JobProcess(self.subject.command_line(self.program, out), out, self.folder / "engine.log", environment)

    @contextmanager
    def _create_site(self) -> Iterator[Site]:
        """Create a folder for a chain; if possible, on a small file system of its own."""
        self._chain += 1
        place = self.folder / f"chain-{self._chain:03d}"
        scratch = self.folder / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        place.mkdir(parents=True, exist_ok=True)
        if "disk" in self.kinds and os.geteuid() == 0:
            _mount(place)
        try:
            yield Site(place / "out", scratch, self._chance, self.pause_s)
        finally:
            _remove(place)

    def _run_chain(self, site: Site, todo: list[Make], expected: Committed) -> None:
        """Start the job repeatedly in one folder until its input ends or no faults are left."""
        self._lasting = []
        while todo:
            makes = _take_for_one_start(todo, fresh=not site.out.exists())
            batch = [make(site) for make in makes]
            if isinstance(damage := batch[0], Damage):
                self._harm(site, damage, expected)
                self._lasting.append(damage)
            striking = [fault for fault in batch if not fault.before]
            over = self._run_engine(site, striking, expected)
            # faults that came after the end of the input move to another chain
            todo[:0] = [make for make, fault in zip(makes, batch, strict=True) if not fault.struck]
            if over:
                return
        self._finish(site, expected)

    def _harm(self, site: Site, fault: Damage, expected: Committed) -> None:
        """Start the job on damaged files: it must reject them or work without them."""
        fault.struck = fault.harm()
        if not fault.struck:
            return
        engine = self._start(site.out, {})
        before = engine.commits()
        continued = engine.wait_for(lambda: engine.commits() > before or engine.code is not None)
        refused = engine.code not in (None, 0)
        engine.end()
        outcome, said = self._judge(engine, continued, refused, site, fault, expected)
        if refused:
            fault.heal()
        else:
            fault.heal_unnoticed()
        # after the file is restored, no committed output may be missing
        problem = self._find_problem(site.out, expected, whole=False)
        self._record(fault.kind, f"wrong: {problem}" if problem else outcome, said)

    def _run_engine(self, site: Site, struck: list[Fault], expected: Committed) -> bool:
        """Start the job and inject faults; return whether its input has ended."""
        environment: dict[str, str] = {}
        for fault in struck:
            environment |= fault.environment()
        engine = self._start(site.out, environment)
        try:
            for fault in struck:
                reached = engine.commits() + self._chance.randint(*_GAP)
                if not engine.wait_for(lambda reached=reached: engine.commits() > reached):  # type: ignore[misc]
                    break
                time.sleep(self._chance.random() * self.jitter_s)
                if engine.code is not None:
                    break
                self._strike(site, fault, engine, expected)
                if fault.ends:
                    break
            if any(fault.ends and fault.struck for fault in struck):
                return False
            ended = engine.wait_for_end(3600)
            return self._is_over(site, engine, ended, struck, expected)
        finally:
            engine.end()
            for fault in struck:
                fault.heal()

    def _strike(self, site: Site, fault: Fault, engine: JobProcess, expected: Committed) -> None:
        fault.strike(engine)
        fault.struck = not fault.missed
        if fault.missed:
            self._handle_miss(fault)
            return
        if not fault.ends:
            before = engine.commits()
            continued = engine.wait_for(lambda: engine.commits() > before or engine.code is not None)
            by_itself = engine.code not in (None, 0)
            outcome, said = self._judge(engine, continued, by_itself, site, fault, expected)
        else:
            ended = engine.wait_for_end()
            # code 0: it finished before the fault had an effect, so the output must be complete
            by_itself = engine.code not in (None, 0, -signal.SIGKILL)
            engine.end()
            outcome, said = self._judge(engine, ended, by_itself, site, fault, expected)
        self._record(fault.kind, outcome, said)

    def _handle_miss(self, fault: Fault) -> None:
        """Handle a failpoint that the job did not reach: try another chain, or record that it has none."""
        self._missed[fault.kind] += 1
        if self._missed[fault.kind] >= _TRIES:
            fault.struck = True
            self._record(fault.kind, NOT_REACHED, "")

    def _judge(
        self, engine: JobProcess, moved: bool, by_itself: bool, site: Site, fault: Fault, expected: Committed
    ) -> tuple[str, str]:
        """Return the outcome of a fault, from the committed output and the job's messages."""
        if not moved:
            return f"hung after {fault.kind}", engine.stderr[-500:]
        if by_itself and not engine.has_advised:
            return f"no advice, code {engine.code}", engine.stderr[-2000:]
        if not isinstance(fault, Damage):
            problem = self._find_problem(site.out, expected, whole=engine.code == 0)
            if problem:
                return f"wrong: {problem}", engine.stderr[-500:]
        return (ADVISED if by_itself else SAME), engine.stderr[-500:] if by_itself else ""

    def _is_over(self, site: Site, engine: JobProcess, ended: bool, struck: list[Fault], expected: Committed) -> bool:
        """Return whether the chain is over; at the end of the input, the output must be complete."""
        if not ended or engine.code != 0:
            if not engine.has_advised:
                self._record("end of a chain", f"no advice, code {engine.code}", engine.stderr)
            elif lasting := [fault for fault in self._lasting if fault.lasts]:
                # an earlier start did without this file; this one needed it
                lasting[-1].heal()
            elif not any(fault.struck for fault in struck):
                self._record("end of a chain", f"stopped without a fault, code {engine.code}", engine.stderr)
                return True
            return False
        problem = self._find_problem(site.out, expected, whole=True)
        if problem:
            last = struck[-1].kind if struck else "nothing"
            self._record(f"end of a chain, after {last}", f"wrong: {problem}", engine.stderr)
        return True

    def _finish(self, site: Site, expected: Committed) -> None:
        """Finish a chain without faults."""
        for _ in range(3):
            if self._run_engine(site, [], expected):
                return
        self._record("end of a chain", "does not come to an end", "")

    def _find_problem(self, out: Path, expected: Committed, *, whole: bool) -> str:
        """Return what is wrong with the committed output; empty if nothing is."""
        try:
            found = Committed.read(out, state=whole)
        except SlipstreamError as error:
            return error.message
        return find_difference(expected, found, whole=whole, repeatable=self.subject.is_repeatable)

    def _record(self, kind: str, outcome: str, said: str) -> None:
        self.records.append(Record(kind, self._chain, outcome, said))
        self._note(asdict(self.records[-1]))
        say(f"{len(self.records)}/{self.wanted}  chain {self._chain}  {kind}: {outcome}")
        if not self.records[-1].is_good:
            say(said)


def read_seed(folder: Path) -> int | None:
    """Return the seed of the campaign in a folder, if there is one."""
    lines = read_lines(folder / NOTES)
    return int(lines[0]["seed"]) if lines else None


def plan(chance: random.Random, makes: Mapping[str, Sequence[Make]], wanted: int) -> list[Make]:
    """Return ``wanted`` faults in proportion to SHARES, shuffled."""
    whole = sum(SHARES[kind] for kind in makes)
    made: list[Make] = []
    for kind, variants in makes.items():
        count = max(1, round(wanted * SHARES[kind] / whole))
        made += [variants[n % len(variants)] for n in range(count)]
    chance.shuffle(made)
    while len(made) < wanted:
        made.append(chance.choice(makes[chance.choice(list(makes))]))
    return made[:wanted]


_NOWHERE = Site(Path(), Path(), random.Random(0))


def _strip_suffix(kind: str) -> str:
    """Return a kind without the suffix in brackets, which depends on the machine."""
    return kind.partition(" (")[0]


def _take_for_one_start(todo: list[Make], *, fresh: bool) -> list[Make]:
    """Take the faults for one start from the plan: some that do not end it, then one that does.

    Damage precedes a start, but not in a ``fresh`` folder, where there is nothing to damage yet.
    """
    kinds = [(make, make(_NOWHERE)) for make in todo]
    damage = [make for make, fault in kinds if fault.before and not fresh]
    soft = [make for make, fault in kinds if not fault.ends]
    hard = [make for make, fault in kinds if fault.ends and not fault.before]
    chosen = [*damage[:1], *soft[:_SOFT], *hard[:1]]
    for make in chosen:
        todo.remove(make)
    # only damage is left: create something to damage first
    return chosen or [faults.Kill]


def _mount(place: Path) -> None:
    """Mount a small file system, if permitted."""
    options = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", str(place)]
    subprocess.run(options, check=False, capture_output=True)


def _remove(place: Path) -> None:
    """Remove the folder of a chain, and mounts in it."""
    for mounted in (place / "out" / CHECKPOINT, place):
        if mounted.is_mount():
            subprocess.run(["umount", "--lazy", mounted], check=False)
    shutil.rmtree(place, ignore_errors=True)
