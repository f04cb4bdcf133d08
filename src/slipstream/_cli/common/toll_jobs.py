"""Options and steps that ``toll`` and ``archive`` share: they are one job with different outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream._cli.common.input_options import Reading
from slipstream._cli.common.options import check_rejects, start_spark
from slipstream._errors import BadArgument
from slipstream._io.formats.encodings import TEXT, guess_encoding
from slipstream._tools.files.locations import local

if TYPE_CHECKING:
    from slipstream._linear_road.job.engine import Settings

#: what people may call the column of a vehicle's id, which Linear Road calls vid
ID = "id"

Silence = Annotated[
    float,
    typer.Option(
        min=0,
        metavar="SECONDS",
        help="How long the other partitions of a topic wait for one without messages.",
    ),
]
Speed = Annotated[float, typer.Option(metavar="K", help="Replay a run at this multiple of real time; 0 is full speed.")]
Until = Annotated[int | None, typer.Option(metavar="T", help="Stop a run before this second.")]
Multiply = Annotated[int, typer.Option(min=1, metavar="K", help="Present a run K times, with shifted ids.")]
Lateness = Annotated[
    int | None,
    typer.Option(metavar="SECONDS", help="How late a tuple may be; results wait as long. [default: 60, live 2]"),
]
BatchSeconds = Annotated[int, typer.Option(metavar="N", help="At most this many seconds of a run per batch.")]
Parallel = Annotated[
    int, typer.Option(help="The number of fragments; 0 for one per core, or 1 for a live feed on this machine.")
]
CompactEvery = Annotated[int, typer.Option(min=0, help="Compact the tables after this many batches; 0 for never.")]
Start = Annotated[
    str, typer.Option("--start", metavar="INSTANT", help="The instant of second 0 of trajectories, in UTC.")
]


def read_feed_settings(input_: str, reading: Reading, lateness: int | None) -> dict[str, Any]:
    """Return the settings of a job that follow from the options about its input."""
    live = reading.follow or input_.startswith("tcp:")
    return {
        "lateness": (2 if live else 60) if lateness is None else lateness,
        "encoding": reading.format or guess_encoding(input_, TEXT),
        "columns": _parse_columns(reading.columns),
        "fields": reading.fields,
        "kafka": reading.kafka,
        "definition": reading.definition,
        "follow": live,
    }


def _parse_columns(columns: Sequence[str]) -> dict[str, str]:
    """Read --columns: the fields of Linear Road's tuples, in which the vehicle may be called id."""
    from slipstream._feeds.tuples import FIELDS
    from slipstream._io.formats.decoding import parse_columns
    from slipstream._io.report_packing import CLASS, VID

    found = parse_columns(columns, "", dict.fromkeys((ID, *FIELDS, CLASS), "integer"), strict=True)
    return {VID if name == ID else name: field for name, field in found.items()}


def check_pace(speed: float, batch_seconds: int, parallel: int) -> None:
    """Refuse values out of range before Spark starts."""
    from slipstream._feeds.clock import FASTEST

    checks = (
        (0 <= speed <= FASTEST, f"--speed {speed}: out of range.", "1 is real time, 0 as fast as possible."),
        (batch_seconds >= 1, f"--batch-seconds {batch_seconds}: too few.", "Give 1 or more."),
        (0 <= parallel <= 1024, f"--parallel {parallel}: out of range.", "Give 1 to 1024, or 0 for one per core."),
    )
    for good, message, hint in checks:
        if not good:
            raise BadArgument(message, hint=hint, code="out-of-range")


def check_rejects_of(summary: Mapping[str, Any], out: Path, most: float, *, text: bool) -> None:
    """Refuse the result of a job that rejected too much of its input."""
    from slipstream._io.outputs import FOLDER, REJECTS
    from slipstream._linear_road.answer_text import REJECTED

    rejects = out / REJECTED if text else out / FOLDER / REJECTS
    check_rejects(summary["rejects"], summary["rejects"] + summary["tuples"], most, rejects)


def run_job(
    input_: str, multiply: int, out: Path, settings: Settings, master: str, conf: list[str] | None
) -> dict[str, Any]:
    """Run a job to the end of its input, and return its summary; everything is checked before Spark starts."""
    from slipstream._feeds.run import Run
    from slipstream._linear_road.job import engine

    path = Path(local(input_))
    run = Run.open(path) if (path / "manifest.json").exists() else None
    if settings.history is not None:
        Run.open(settings.history)
    if run is None:
        engine.check_feed(input_, out, settings)
        done = engine.finished_summary(out, input_)
        return done or engine.toll_feed(
            start_spark(settings.name, master, conf, quick=settings.follow), input_, out, settings
        )
    from slipstream._io.formats import pseudonyms

    pseudonyms.refuse(input_, "is a run, whose vehicles are numbers", "Leave them out; simulated cars are nobody's.")
    run = run.multiplied(multiply * run.copies)
    engine.check_run(run, out, settings)
    done = engine.finished_summary(out, engine.name_source(run), settings.end_of(run))
    return done or engine.toll_run(start_spark(settings.name, master, conf), run, out, settings)
