"""``slipstream network run|attach|detach``: run networks and ad hoc queries in their folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream._cli.common.checks import check_new, check_there
from slipstream._cli.common.input_options import (
    Columns,
    Fields,
    Follow,
    Format,
    KafkaConfig,
    MessageSchema,
    PseudonymColumns,
    Pseudonyms,
    Reading,
    SchemaRegistry,
)
from slipstream._cli.common.options import Conf, Json, Master, MaxRejects, Metrics, check_rejects, show, start_spark
from slipstream._cli.common.overwriting import HINT, Afresh, clear_job
from slipstream._cli.common.toll_jobs import CompactEvery
from slipstream._cli.common.user_functions import Functions
from slipstream._cli.network.network_options import (
    File,
    Folder,
    Inputs,
    Parallel,
    Rates,
    Tables,
    To,
    create_frames,
    load_network,
    parse_destinations,
    parse_pairs,
    parse_rates,
    read_stored_tables,
)
from slipstream._cli.network.starting import ParsedOptions, Prepared, check_options, find_begun, prepare, run
from slipstream._spark import session
from slipstream._tools.progress import say

if TYPE_CHECKING:
    from slipstream._network.running.run_folder import Execution


def run_network(
    file: File,
    out: Annotated[Path, typer.Option("--out", help="The folder of the job.")],
    inputs: Inputs = None,
    tables: Tables = None,
    train: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Tuples per train, which arrive and are processed together. With --rate, half a second's; otherwise "
            "50,000.",
            show_default=False,
        ),
    ] = None,
    tap: Annotated[
        list[str] | None,
        typer.Option("--tap", metavar="BOX[.PORT]", help="An arc to record in addition to the outputs. Repeatable."),
    ] = None,
    rates: Rates = None,
    to: To = None,
    shed: Annotated[
        bool, typer.Option("--shed", help="Shed load while outputs are late. Requires a feed, or --rate and --input.")
    ] = False,
    optimised: Annotated[
        bool,
        typer.Option(
            "--optimise",
            help="Measure the boxes first and run the cheapest equivalent network. Requires --input; of a feed, the "
            "tuples available at the start are measured.",
        ),
    ] = False,
    follow: Follow = False,
    parallel: Parallel = None,
    format_: Format = "",
    columns: Columns = None,
    fields: Fields = "",
    kafka_config: KafkaConfig = None,
    message_schema: MessageSchema = None,
    schema_registry: SchemaRegistry = "",
    pseudonyms: Pseudonyms = None,
    pseudonym_columns: PseudonymColumns = None,  # noqa: ARG001  (its callback)
    compact_every: CompactEvery = 500,
    max_rejects: MaxRejects = 1.0,
    metrics: Metrics = "",  # noqa: ARG001  (its callback)
    overwrite: Afresh = False,
    functions: Functions = None,
    as_json: Json = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
) -> None:
    """Run the network over recorded inputs or live feeds; without --input, resume where it stopped.

    A tuple's delay counts from its arrival: in a feed, when it arrived there; in a recording with --rate, when its turn
    comes; otherwise when the network is ready. `slipstream job pause`, `resume`, `step` and `stop` control it from
    another terminal, and `slipstream network inspect` shows its outputs. Unusable records of a feed go to the output
    `rejects`.

    Examples:

    `slipstream network run net.yaml --input cars=cars.csv --out out` # a recording

    `slipstream network run net.yaml --input cars=kafka:127.0.0.1:9092/positions --follow --out out` # a topic of JSON

    `slipstream network run net.yaml --input cars=arriving --follow --columns id=vin,time=ts:ms --out out` # a folder
    that fills

    `slipstream network run net.yaml --input cars=cars.csv --to alerts=kafka:127.0.0.1:9092/alerts --out out` # alerts
    to a topic
    """
    check_there(file, hint="Give a network file; `slipstream examples` writes some.")
    options = ParsedOptions(
        file,
        out,
        parse_pairs("--input", inputs),
        tables,
        parse_rates(rates),
        parse_destinations(to),
        Reading.parse(
            follow=follow,
            format_=format_,
            columns=columns,
            fields=fields,
            kafka_config=kafka_config,
            message_schema=message_schema,
            schema_registry=schema_registry,
            pseudonyms=pseudonyms,
        ),
        train,
        tap or [],
        shed=shed,
        optimise=optimised,
        parallel=parallel,
        compact_every=compact_every,
        overwrite=overwrite,
        functions=functions,
    )
    check_options(options)
    network = load_network(file, functions)
    before = None if options.inputs else find_begun(network, out)
    if before is not None and before.has_finished():
        say(f"{before.folder}: already complete, nothing to do.")
        _print_summary(before, as_json)
    else:
        prepared = prepare(options, network, before)
        _report(run(options, prepared, master, conf), prepared, max_rejects, as_json)


def _report(execution: Execution, prepared: Prepared, max_rejects: float, as_json: bool) -> None:
    """Print what a network delivered; refuse the result if too much of the input was rejected."""
    if not _goes_to_console(prepared.destinations):  # standard output is for tuples then
        _print_summary(execution, as_json)
    rejected, total = execution.monitor.rejected()
    check_rejects(rejected, total, max_rejects, f"{execution.folder} (output rejects)")


def _goes_to_console(wheres: dict[str, list[str]]) -> bool:
    from slipstream._io.outputs.destinations import CONSOLE

    return any(CONSOLE in several for several in wheres.values())


def attach_query(
    folder: Folder,
    point: Annotated[str, typer.Argument(help="A connection point or a view of that network.")],
    file: Annotated[
        Path, typer.Argument(help="The ad hoc query: a network whose only source is the connection point.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder for the query's results.")],
    follow: Annotated[bool, typer.Option("--follow", help="Keep running as tuples arrive, until Ctrl-C.")] = False,
    tables: Tables = None,
    functions: Functions = None,
    overwrite: Afresh = False,
    as_json: Json = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
) -> None:
    """Attach an ad hoc query to a connection point: it reads the history first, then new tuples, none of them twice.

    It stays attached: `slipstream network run FILE --out OUT` processes what has arrived since, --follow does so
    continuously, and `slipstream network detach OUT` ends it.

    Example: `slipstream network attach out crossings query.yaml --out query`
    """
    from slipstream._network.running.adhoc import attach
    from slipstream._network.running.run_folder import Execution

    running = Execution.open(folder)
    running.history(point)
    query = load_network(file, functions)
    clear_job(out, overwrite)
    check_new(out, hint=HINT)
    stored = read_stored_tables(query, tables)
    spark = start_spark(f"network {query.name}", master, conf)
    attached = attach(spark, running, point, query, out)
    if follow:
        _follow(attached, spark, create_frames(spark, stored))
    else:
        attached.run(spark, create_frames(spark, stored))
    _print_summary(attached, as_json)


def _follow(attached: Execution, spark: Any, tables: dict[str, Any]) -> None:
    """Process tuples as they arrive, until Ctrl-C."""
    from slipstream._network.running.driving import follow

    try:
        follow(spark, attached, tables)
    except KeyboardInterrupt:
        say("stopped; still attached")


def detach_query(
    folder: Annotated[Path, typer.Argument(help="The folder of an attached query.")], as_json: Json = False
) -> None:
    """Disconnect an ad hoc query: what has arrived for it is kept, and nothing more arrives.

    Example: `slipstream network detach query`
    """
    from slipstream._network.running.adhoc import detach
    from slipstream._network.running.run_folder import Execution

    detach(Execution.open(folder))
    if as_json:
        print(json.dumps({"detached": str(folder)}))
    else:
        say(f"detached: {folder}")


def _print_summary(execution: Execution, as_json: bool) -> None:
    from slipstream._io.outputs import REJECTS

    totals = {name: int(line["tuples"]) for name, line in execution.monitor.totals().items()}
    if rejected := execution.monitor.rejected()[0]:
        totals[REJECTS] = rejected
    show(totals, as_json=as_json, title=f"tuples delivered by {execution.network.name}")


def add_to(app: typer.Typer) -> None:
    """Put these commands on the command line."""
    app.command("run")(run_network)
    app.command("attach")(attach_query)
    app.command("detach")(detach_query)
