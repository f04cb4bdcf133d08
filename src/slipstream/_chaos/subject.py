"""The job under test: its command, how it is started and resumed, and which failpoints it can reach.

It may be any command that runs a job, without ``--out``. All jobs have the same folder layout, so nothing else needs to
be known about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slipstream._errors import BadArgument
from slipstream._runtime.job import FILE
from slipstream._spark.session import JAVA_OPTIONS, settings
from slipstream._tools.processes.failpoints import COMPACTION_POINTS, JOB_POINTS, TRIP_POINTS

#: the first words of a command that runs a job -> the kind of job
COMMANDS = {("toll",): "toll", ("archive",): "archive", ("network", "run"): "network", ("cuboid", "run"): "cuboid"}
#: batches between two compactions: few, so that faults hit compactions too
_COMPACT_EVERY = 4
#: jobs that run for seconds do not benefit from the JVM's optimising compiler, which dominates a start
_SHORT_LIVED = f"{JAVA_OPTIONS}={settings()[JAVA_OPTIONS]} -XX:TieredStopAtLevel=1"
_HINT = "Use a run, or one of these commands after --: toll, archive, network run, cuboid run."


@dataclass(frozen=True)
class Subject:
    """A job to test."""

    kind: str
    command: tuple[str, ...]  # without the program and --out

    @classmethod
    def of(cls, words: Sequence[str], *, batch_seconds: int = 3) -> Subject:
        """Parse a command that runs a job; a single word is a run to toll.

        >>> Subject.of(["runs/small"]).command
        ('toll', 'runs/small', '--compact-every', '4', '--batch-seconds', '3')
        >>> Subject.of(["cuboid", "run", "--input", "ticks"]).kind
        'cuboid'
        """
        given = ("toll", *words) if len(words) == 1 else tuple(words)
        kind = next((kind for start, kind in COMMANDS.items() if given[: len(start)] == start), None)
        if kind is None:
            raise BadArgument(
                f"{' '.join(words)}: not a command that runs a job.",
                hint=_HINT,
                code="unknown-value",
                found=words,
            )
        if any(word == "--out" or word.startswith("--out=") for word in given):
            raise BadArgument(
                "--out is an option of chaos, not of the job.", hint="Remove it after --.", code="conflicting-options"
            )
        defaults = {"--compact-every": str(_COMPACT_EVERY)}
        if kind in ("toll", "archive"):
            defaults["--batch-seconds"] = str(batch_seconds)
        missing = [word for option in defaults.items() if option[0] not in given for word in option]
        return cls(kind, (*given, *missing))

    @property
    def points(self) -> tuple[str, ...]:
        """The failpoints that it can reach."""
        trips = TRIP_POINTS if self.kind == "toll" and "--archive" in self.command else ()
        return (*trips, *JOB_POINTS[self.kind], *COMPACTION_POINTS)

    @property
    def has_text(self) -> bool:
        """Whether it writes its answers as text too."""
        return self.kind == "toll" and "--no-text" not in self.command

    @property
    def is_repeatable(self) -> bool:
        """Whether the first n tuples are the same in every run, for any n.

        They are not if the input has several sources or topic partitions, which do not wait for each other.
        """
        inputs = sum(word == "--input" or word.startswith("--input=") for word in self.command)
        return inputs <= 1 and not any("kafka:" in word or "tcp:" in word for word in self.command)

    def arguments(self, out: Path) -> list[str]:
        """Return the command that starts or resumes it in a folder."""
        command = list(self.command)
        if self.kind == "network" and (out / FILE).exists():
            command = _drop_option(command, "--input")
        return [*command, "--out", str(out)]

    def command_line(self, program: Sequence[str], out: Path) -> list[str]:
        """Return the command line for a short-lived job."""
        # four attempts per task, as on a cluster, so that a worker may die
        return [*program, *self.arguments(out), "--master", "local[2,4]", "--conf", _SHORT_LIVED]


def _drop_option(words: Sequence[str], option: str) -> list[str]:
    """Return a command without an option and its values.

    >>> _drop_option(["run", "--input", "a=b", "--train", "4"], "--input")
    ['run', '--train', '4']
    """
    return [
        word
        for before, word in zip(["", *words], words, strict=False)
        if option not in (word, before) and not word.startswith(f"{option}=")
    ]
