"""All seconds of a run in real time, through a broker, validated: whether the machine sustains its rating for hours.

It can be interrupted, by Ctrl-C or otherwise: the same command resumes it. The driver continues after the last second
that it sent, the engine from its checkpoint. The report says when it was interrupted or restarted.
"""

from __future__ import annotations

import html
import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from slipstream._bench.rating.outside import SAMPLES, SENT, STARTS, FromOutside, Sample
from slipstream._bench.rating.rating_page import TRIAL_HEADS, make_trial_row, tabulate, tabulate_responses
from slipstream._bench.rating.search import describe_machine, validate_trial
from slipstream._bench.rating.trial import TimeWindow, Trial
from slipstream._bench.validation.validation_page import COLOURS, STYLE, embed_image, make_figure
from slipstream._errors import BadArgument, Unavailable
from slipstream._feeds.run import MINUTE, Run, versions
from slipstream._linear_road.job.toll_journal import read_journal
from slipstream._runtime.watching import metrics
from slipstream._tools.logs import read_last_line, read_lines
from slipstream._tools.progress import say
from slipstream._tools.quantiles import quantiles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: the share of the rating at which a full run is made
SHARE = 0.7
FILE = "full.json"


@dataclass(frozen=True)
class AnsweredMinute:
    """The answers to one minute of the run; response times in seconds."""

    minute: int
    answers: int
    p50: float
    p99: float
    max: float


@dataclass(frozen=True)
class FullRun:
    """The result of a full run."""

    engine: str
    how: str
    distinct: int
    run: str
    output: str
    trial: Trial
    starts: tuple[dict[str, Any], ...]  # the engine and driver started: when, and after which second
    minutes: tuple[AnsweredMinute, ...]
    machine: str
    versions: dict[str, str]

    @property
    def resumed(self) -> tuple[str, ...]:
        """When it was interrupted or its engine restarted, in words."""
        return tuple(
            f"{'engine restarted' if 'code' in start else 'resumed'} after second {start['second']}"
            for start in self.starts[1:]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**asdict(self), "resumed": list(self.resumed)}


def take_share(rating: int, distinct: int, share: float = SHARE) -> int:
    """Return the L of a full run: a share of the rating, rounded down to a multiple of the distinct expressways.

    >>> take_share(200, 10), take_share(30, 10), take_share(10, 10)
    (140, 20, 10)
    """
    return max(1, int(rating * share / distinct + 1e-9)) * distinct


def drive_full(engine: FromOutside, run: Run, expressways: int, out: Path) -> FullRun:
    """Drive all seconds of a run, or continue where an earlier start was interrupted; then validate."""
    if expressways % run.stored:
        raise BadArgument(
            f"--at {expressways}: not a multiple of the {run.stored} stored expressways.",
            hint=f"Give {take_share(expressways, run.stored, 1.0)}, or another --distinct.",
            code="out-of-range",
        )
    if not engine.door.can_resume:
        raise Unavailable(
            "--full needs a broker, which keeps what an engine has not read.",
            hint="Use --door kafka.",
            code="conflicting-options",
        )
    window, folder = TimeWindow(0, run.manifest.seconds), out / f"full-{expressways}"
    answers, logs = folder / "answers", folder / "answers.logs"
    resumes = (logs / SENT).exists()
    if not resumes:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    _say_start(expressways, window, logs, folder)
    entry = engine.door.open(f"full-{expressways}-{_name_topic(folder)}", expressways, keep=resumes)
    _, trial = engine.attend(run.multiplied(expressways // run.stored), entry, window, answers, aborts=False)
    starts = tuple(read_lines(logs / STARTS))
    say(f"L = {expressways}: validating ...")
    timed = len(starts) == 1  # otherwise answers are late because it was interrupted: they are counted, not judged
    trial = validate_trial(trial, engine, run, answers, window, timed=timed)
    with suppress(Unavailable):
        engine.door.close(entry)
    full = FullRun(
        engine=engine.name,
        how=engine.how,
        distinct=run.stored,
        run=str(run.path),
        output=str(answers),
        trial=trial,
        starts=starts,
        minutes=tuple(summarise_minutes(row for batch in read_journal(answers) for row in batch.answers)),
        machine=describe_machine(),
        versions=versions(),
    )
    write_full(full, folder)
    return full


def _name_topic(folder: Path) -> str:
    """Return a name for the topic of a folder that stays the same when the run is resumed."""
    file = folder / "topic"
    if not file.exists():
        import uuid

        file.write_text(uuid.uuid4().hex[:8], encoding="utf-8")
    return file.read_text(encoding="utf-8")


def _say_start(expressways: int, window: TimeWindow, logs: Path, folder: Path) -> None:
    if last := read_last_line(logs / SENT):
        say(f"L = {expressways}: resuming after second {last['second']} of {window.until} ...")
    else:
        say(f"L = {expressways}: {window.seconds} s in real time. Ctrl-C interrupts it; the same command resumes it.")
    say(f"Logs and answers: {folder}")


def summarise_minutes(answers: Any) -> list[AnsweredMinute]:
    """Return response times by minute of the run, from kind, time, number and response time in milliseconds."""
    rows = np.array(list(answers), np.int64).reshape(-1, 4)
    found = []
    for minute in np.unique(rows[:, 1] // MINUTE).tolist():
        mine = rows[rows[:, 1] // MINUTE == minute]
        seconds, counts = mine[:, 3] / 1000.0, mine[:, 2]
        times = (round(value, 3) for value in quantiles(seconds, (0.5, 0.99, 1), counts))
        found.append(AnsweredMinute(minute, int(counts.sum()), *times))
    return found


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{seconds} s at L = {expressways}</title><style>{style}</style></head>
<body>
<h1>{seconds} s in real time at L = {expressways} <small>({engine}, {how})</small></h1>
<p>{distinct} different expressways, presented {copies} times. {resumed} {machine}; {versions}.</p>
{trial}
<h2>Response times</h2>
{responses}
{by_minute}
<h2>Memory, state, lag, cores</h2>
{resources}
</body></html>
"""


def write_full(full: FullRun, folder: Path) -> None:
    """Write ``full`` as JSON and HTML, and its plots as SVG."""
    (folder / FILE).write_text(json.dumps(full.to_dict(), indent=2) + "\n", encoding="utf-8")
    responses = plot_minutes(full.minutes)
    resources = plot_resources(read_samples(folder / "answers.logs" / SAMPLES), Path(full.output))
    for name, figure in (("responses", responses), ("resources", resources)):
        figure.savefig(folder / f"{name}.svg")
    page = PAGE.format(
        style=STYLE,
        seconds=full.trial.seconds,
        expressways=full.trial.expressways,
        engine=html.escape(full.engine),
        how=html.escape(full.how),
        distinct=full.distinct,
        copies=full.trial.expressways // full.distinct,
        resumed=html.escape("; ".join(full.resumed) + "." if full.resumed else "Not interrupted."),
        machine=full.machine,
        versions=", ".join(f"{name} {number}" for name, number in full.versions.items()),
        trial=tabulate(TRIAL_HEADS, [make_trial_row(full.trial)]),
        responses=tabulate_responses(full.trial.responses),
        by_minute=embed_image(responses, "response times by minute of the run: median, 99 % and longest"),
        resources=embed_image(resources, "memory, state, lag and cores over the run"),
    )
    (folder / "full.html").write_text(page, encoding="utf-8")


def read_samples(file: Path) -> list[Sample]:
    """Read the samples of a trial."""
    return [Sample(**line) for line in read_lines(file)]


def plot_minutes(minutes: Sequence[AnsweredMinute]) -> Figure:
    """Plot response times by minute of the run."""
    figure, (axis,) = make_figure(1, 3.6)
    at = [one.minute for one in minutes]
    for name, label, colour in (
        ("max", "longest", COLOURS[1]),
        ("p99", "99 % within", COLOURS[0]),
        ("p50", "median", COLOURS[2]),
    ):
        axis.plot(at, [getattr(one, name) for one in minutes], color=colour, linewidth=1.2, label=label)
    axis.axhline(5, color="#a40000", linestyle="--", linewidth=1)
    axis.set(xlabel="minute of the run", ylabel="response time, s (limit dashed)", ylim=(0, None))
    axis.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
    return figure


def plot_resources(samples: Sequence[Sample], out: Path) -> Figure:
    """Plot memory and state, lag, and cores over the run."""
    figure, (memory, lag, cores) = make_figure(3, 6.5)
    at = np.array([sample.second for sample in samples]) / MINUTE
    memory.plot(at, [sample.gib for sample in samples], color=COLOURS[0], label="memory of the engine, GiB")
    state_at, state = _state(samples, out)
    memory.plot(state_at, state, color=COLOURS[1], label="state in the store, GiB")
    lag.plot(at, [max(sample.lag, 0) for sample in samples], color=COLOURS[0])
    lag.set(ylabel="lag, s", ylim=(0, None))
    for name, colour in zip(("engine", "broker", "driver"), COLOURS, strict=False):
        cores.plot(at, [sample.cores.get(name, 0) for sample in samples], color=colour, label=name)
    memory.set(ylabel="GiB", ylim=(0, None))
    cores.set(xlabel="minute of the run", ylabel="cores", ylim=(0, None))
    for axis in (memory, cores):
        axis.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
    return figure


def _state(samples: Sequence[Sample], out: Path) -> tuple[npt.NDArray[np.float64], list[float]]:
    """Return the minutes of the run of all batches, and the bytes of state after each, in GiB."""
    if not samples:
        return np.empty(0), []
    batches = [batch for batch in metrics.read(out) if batch.start >= samples[0].at]
    minutes = np.interp(
        [batch.start for batch in batches], [sample.at for sample in samples], [sample.second for sample in samples]
    )
    return minutes / MINUTE, [batch.state_bytes / 2**30 for batch in batches]
