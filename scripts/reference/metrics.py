"""Metrics: every figure that a run leaves behind or the console tells, with its meaning."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from reference.tables import WRITTEN, fields, first_line, meanings, table
from slipstream._bench.driving import driver
from slipstream._bench.rating import full, search, trial
from slipstream._bench.validation import validator
from slipstream._console.monitoring import StreamCollector
from slipstream._cuboid import consistency
from slipstream._io.outputs import Batch
from slipstream._linear_road.job import summary
from slipstream._network.quality import monitor
from slipstream._runtime.watching import metrics
from slipstream._runtime.watching.exporter import Observed, collect
from slipstream._runtime.watching.following import FollowedJob
from slipstream._runtime.watching.starts import Start


def page() -> str:
    """The page."""
    return "\n".join(
        (
            "# Metrics\n\n" + WRITTEN,
            *_engine(),
            *_jobs(),
            *_console(),
            *_networks(),
            *_kit(),
        )
    )


def _engine() -> tuple[str, ...]:
    return (
        "## The toll engine\n",
        f"`OUT/{metrics.FILE}`, one line of JSON per batch:\n",
        fields(metrics.BatchMetrics),
        "`OUT/summary.json`:\n",
        meanings(summary.MEANING),
        "### Real-time consistency\n",
        "`slipstream cuboid metrics OUT` and `rtc` in the summary, of a run with a snapshot; microseconds a tuple "
        "where the name ends in `_us`:\n",
        meanings(consistency.MEANING),
    )


def _jobs() -> tuple[str, ...]:
    return (
        "## A job: `--metrics`\n\nIn Prometheus' form, from the job itself and from a console that shows its folder. A "
        "quantity that is not known yet is left out.\n",
        _table(collect(_observed())),
    )


def _observed() -> Observed:
    """A job of which everything is known, so that every metric shows."""
    job = FollowedJob(Path("nowhere"), lambda _batch, _pace: {"toll": 1.0}, {"toll": 5.0})
    job.recent.append(Batch(0, 1, {"notifications": 1}, tuples=1))
    job.rows["notifications"] = 1
    job._costs = {0: metrics.BatchMetrics(0, 0.0, 0, 1, 1, {}, 1, "", {"tolls": 1})}
    return Observed("tolls", "toll", "running", 1.0, job, [Start(0.0, 1, "", (), "")])


def _console() -> tuple[str, ...]:
    return (
        "## The console: `/metrics`\n\nThe metrics of all jobs, as above, and those of the stream on display.\n",
        _table(StreamCollector(_city()).collect()),
    )


def _table(found: Iterable[Any]) -> str:
    rows = [
        (f"`{name(metric)}`", metric.type, ", ".join(f"`{label}`" for label in labels(metric)), metric.documentation)
        for metric in found
    ]
    return table(("metric", "type", "labels", ""), rows)


def name(metric: Any) -> str:
    """As it is scraped: counters end in _total."""
    return f"{metric.name}_total" if metric.type == "counter" else str(metric.name)


def labels(metric: Any) -> list[str]:
    """The labels of a metric, from one of its samples."""
    return list(metric.samples[0].labels)


def _city() -> Any:
    """A city of which everything is known, so that every metric shows."""
    recent = SimpleNamespace(p50=1.0, p99=1.0, most=1.0)
    kind = SimpleNamespace(kind="toll", answers=1, limit=5, recent=recent)
    known = dict.fromkeys(("arrival_rate", "commit", "capacity", "stable", "lag"), 1.0)
    health = SimpleNamespace(**known, kinds=(kind,))
    return SimpleNamespace(engine_runs=True, state=SimpleNamespace(committed=1, cars=1, accidents=(), health=health))


def _networks() -> tuple[str, ...]:
    told = (monitor.__doc__ or "").partition("\n\n")[2].replace("\n", " ").strip()
    return (
        "## Networks\n",
        f"In `detail` of every line of `OUT/batches.jsonl`. {told} `slipstream network monitor` shows it; the names "
        "are in [networks](networks.md#quality-of-service).\n",
    )


def _kit() -> tuple[str, ...]:
    return (
        "## The benchmark kit\n",
        f"`slipstream drive --json`. {first_line(driver.DriveResult)}\n",
        fields(driver.DriveResult),
        "`slipstream validate --json` has for every kind of answer\n",
        fields(validator.Tally),
        "`slipstream rate` writes `rating.json`:\n",
        fields(search.Rating),
        "Each of `tries`:\n",
        fields(trial.Trial),
        "`slipstream rate --full` writes `full-L/full.json`:\n",
        fields(full.FullRun),
    )
