"""``slipstream toll``: the toll engine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream._cli.common.checks import check_folder, check_there
from slipstream._cli.common.input_options import (
    Columns,
    Fields,
    Follow,
    Format,
    Input,
    KafkaConfig,
    MessageSchema,
    PseudonymColumns,
    Pseudonyms,
    Reading,
    SchemaRegistry,
    check_input,
)
from slipstream._cli.common.options import Conf, Json, Master, MaxRejects, Metrics, show
from slipstream._cli.common.overwriting import Afresh, clear_job
from slipstream._cli.common.toll_jobs import (
    BatchSeconds,
    CompactEvery,
    Lateness,
    Multiply,
    Parallel,
    Silence,
    Speed,
    Start,
    Until,
    check_pace,
    check_rejects_of,
    read_feed_settings,
    run_job,
)
from slipstream._errors import BadArgument
from slipstream._io.kafka_client import Topic
from slipstream._spark import session
from slipstream._tools.files.locations import is_remote
from slipstream._tools.files.staging import check_makeable

#: the destination that is not a topic
_CONSOLE = "console"


def toll(
    input_: Input,
    out: Annotated[Path, typer.Option("--out", help="The folder for answers, rejects, summary and checkpoint.")],
    follow: Follow = False,
    speed: Speed = 0.0,
    fast_forward_to: Annotated[
        int,
        typer.Option(
            metavar="T",
            help="Start at this second, with the state after all seconds before it: those of the run or, for a feed, "
            "of the run in --history, presented --multiply times.",
        ),
    ] = 0,
    fast_forward_cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep that state in this folder, for other jobs that start at T."),
    ] = None,
    until: Until = None,
    multiply: Multiply = 1,
    rules: Annotated[
        str,
        typer.Option(
            metavar="RULES",
            help="The rule set: 2004, 2003, general for real roads, or module:name for a toll function or rules of "
            "your own.",
        ),
    ] = "2004",
    rule_settings: Annotated[
        Path | None,
        typer.Option("--settings", metavar="FILE", help="The settings of the rules general, a TOML file."),
    ] = None,
    lateness: Lateness = None,
    silence: Silence = 5.0,
    format_: Format = "",
    columns: Columns = None,
    fields: Fields = "",
    kafka_config: KafkaConfig = None,
    message_schema: MessageSchema = None,
    schema_registry: SchemaRegistry = "",
    pseudonyms: Pseudonyms = None,
    pseudonym_columns: PseudonymColumns = None,  # noqa: ARG001  (its callback)
    history: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="For a feed: the run whose history answers requests and, with --fast-forward-to, whose state it "
            "starts with.",
        ),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHERE",
            help="Another destination for the lines of output.csv: console or kafka:HOST:PORT/TOPIC. Repeatable.",
        ),
    ] = None,
    archive: Annotated[
        bool, typer.Option("--archive", help="Also write trajectories to OUT/outputs/trips, like `slipstream archive`.")
    ] = False,
    start: Start = "2007-05-28 00:00:00",
    snapshot: Annotated[
        bool, typer.Option("--snapshot", help="Publish cars, segments, accidents and accounts as cuboids to query.")
    ] = False,
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A file of CREATE PATTERN and CREATE QUERY over car, evaluated at every report."
        ),
    ] = None,
    text: Annotated[bool, typer.Option(help="Also write output.csv and rejects.csv, except in a store.")] = True,
    batch_seconds: BatchSeconds = 60,
    compact_every: CompactEvery = 500,
    parallel: Parallel = 0,
    max_rejects: MaxRejects = 1.0,
    metrics: Metrics = "",  # noqa: ARG001  (its callback)
    overwrite: Afresh = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Toll a stream of position reports: notifications, alerts, balances, expenditures and travel times.

    Everything goes to the folder --out: one Delta Lake table for each kind of answer in outputs/ (notifications,
    alerts, balances, expenditures, travel_times), with --archive another for trajectories (trips), and one for what was
    rejected (rejects); the answers again as text in output.csv, the paper's plain form; counts and response times in
    summary.json; and in status.json whether the job is starting, ready, running or stopped. After a crash or Ctrl-C,
    the same command resumes where it was; no answer and no trip is lost or doubled. `slipstream job` pauses it.

    A live feed (--follow, tcp:) is connected when the job is warm, which standard error reports. The job waits for
    a topic, a file or a port that does not exist yet.

    Examples:

    `slipstream toll runs/demo --out tolls` # a recorded run, at full speed

    `slipstream toll runs/demo --archive --out tolls` # every tolled report also becomes part of a trajectory

    `slipstream toll feed.dat --out tolls` # Linear Road text

    `slipstream toll kafka:127.0.0.1:9092/positions --follow --out tolls` # a live topic

    `slipstream toll reports.csv --rules general --settings road.toml --out tolls` # reports of a real road
    """
    check_input(input_, follow=follow)
    _check_files(history, queries, fast_forward_cache)
    reading = Reading.parse(
        follow=follow,
        format_=format_,
        columns=columns,
        fields=fields,
        kafka_config=kafka_config,
        message_schema=message_schema,
        schema_registry=schema_registry,
        pseudonyms=pseudonyms,
    )
    check_folder(out)
    check_pace(speed, batch_seconds, parallel)
    rules = _find(rules, rule_settings)
    lateness = _find_lateness(rules) if lateness is None else lateness
    from slipstream._linear_road.job.engine import Settings
    from slipstream._linear_road.job.toll_layout import ANSWERS, ANSWERS_AND_TRIPS

    settings = Settings(
        **read_feed_settings(input_, reading, lateness),
        speed=speed,
        rules=rules,
        since=fast_forward_to,
        copies=multiply,
        forward=fast_forward_cache,
        until=until,
        batch_seconds=batch_seconds,
        silence=silence,
        text=text and not is_remote(out),
        compact_every=compact_every,
        parallel=parallel,
        history=history,
        snapshot=snapshot,
        queries=_read_script(queries),
        outputs=ANSWERS_AND_TRIPS if archive else ANSWERS,
        start=start,
        topics=_parse_topics(to or [], reading),
        show=_print_lines if _CONSOLE in (to or []) else None,
    )
    clear_job(out, overwrite)
    summary = run_job(input_, multiply, out, settings, master, conf)
    show(_flatten(summary), as_json=as_json, title=f"Tolled into {out}")
    check_rejects_of(summary, out, max_rejects, text=settings.text)


def _check_files(history: Path | None, queries: Path | None, cache: Path | None) -> None:
    """Refuse files that do not exist, and a cache that cannot be created."""
    check_there(history, option="--history", what="run", hint="`slipstream simulate --out RUN` makes one.")
    check_there(queries, option="--queries", what="file", hint="docs/reference/cuboids.md has the syntax.")
    if cache is not None:
        check_makeable(cache, label="--fast-forward-cache ")


def _parse_topics(destinations: list[str], reading: Reading) -> tuple[Topic, ...]:
    """Return the topics among the destinations."""
    return tuple(Topic.parse(where).with_settings(reading.kafka) for where in destinations if where != _CONSOLE)


def _find(rules: str, file: Path | None) -> str:
    """Return the name of the rules with their settings; refuse unknown ones before Spark starts."""
    from slipstream._linear_road.rules import GENERAL, find_rules, name_general

    if file is not None and rules != GENERAL:
        raise BadArgument(
            f"--settings {file}: only the rules general have settings, not {rules}.",
            hint="Add --rules general.",
            code="conflicting-options",
        )
    check_there(file, option="--settings", what="file", hint="docs/how-to/road-tolls.md has an example.")
    found = name_general(file) if file is not None else rules
    find_rules(found)
    return found


def _find_lateness(rules: str) -> int | None:
    """Return how late reports may be by the rules themselves; None if they do not say."""
    from slipstream._linear_road.rules import find_rules

    road = find_rules(rules).road
    return road.lateness if road else None


def _read_script(file: Path | None) -> str:
    return file.read_text(encoding="utf-8") if file is not None else ""


def _print_lines(lines: list[bytes]) -> None:
    """Print the answers of a batch."""
    sys.stdout.buffer.writelines(lines)
    sys.stdout.buffer.flush()


def _flatten(summary: dict[str, Any]) -> dict[str, Any]:
    """Flatten a summary to the rows of a table."""
    rows = {key: value for key, value in summary.items() if not isinstance(value, dict)}
    rows["irregular"] = summary["irregular"]["count"]
    rows |= {f"{name}_answers": count for name, count in summary["answers"].items()}
    for name, response in summary["response_seconds"].items():
        rows[f"{name}_response"] = " ".join(f"{key} {value}" for key, value in response.items())
    return rows


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command()(toll)
