"""``slipstream network run|attach|detach``: networks at work in folders."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream._cli.common.checks import check_new, check_there
from slipstream._cli.common.functions import Functions
from slipstream._cli.common.jobs import (
    CompactEvery,
    Fields,
    KafkaConfig,
    MessageSchema,
    SchemaRegistry,
    check_input,
    check_message_schema,
)
from slipstream._cli.common.options import Conf, Json, Master, MaxRejects, check_rejects, show, spark_session
from slipstream._cli.common.overwriting import HINT, Afresh, clear_job
from slipstream._cli.network.options import (
    Columns,
    File,
    Folder,
    Follow,
    Format,
    Inputs,
    Parallel,
    Rates,
    Tables,
    To,
    check_inputs,
    destinations,
    feeds,
    frames,
    is_feed,
    load_network,
    measured,
    pairs,
    parse_rates,
    rates_of,
    recordings,
    sampled,
    stored_tables,
)
from slipstream._errors import BadArgument
from slipstream._io.kafka import read_settings
from slipstream._spark import session
from slipstream._tools.progress import Advance, bar, say
from slipstream._tools.staging import check_makeable

if TYPE_CHECKING:
    import pyarrow as pa

    from slipstream._io.sources import Feed
    from slipstream._network.algebra import Arc, Network
    from slipstream._network.quality.shedding import Controller
    from slipstream._network.running.run_folder import Execution
    from slipstream._network.schemas import Checked


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
        typer.Option("--tap", metavar="BOX[.PORT]", help="An arc to record besides the outputs. Repeatable."),
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
            "tuples that are there at the start are measured.",
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
    compact_every: CompactEvery = 500,
    max_rejects: MaxRejects = 1.0,
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

    `slipstream network run net.yaml --input cars=cars.csv --out out` a recording

    `slipstream network run net.yaml --input cars=kafka:127.0.0.1:9092/positions --follow --out out` a topic of JSON

    `slipstream network run net.yaml --input cars=arriving --follow --columns id=vin,time=ts:ms --out out` a folder
    that fills

    `slipstream network run net.yaml --input cars=cars.csv --to alerts=kafka:127.0.0.1:9092/alerts --out out` alerts to
    a topic
    """
    check_there(file, hint="Give a network file; `slipstream examples` writes some.")
    check_message_schema(message_schema)
    asked = parse_rates(rates)
    given, settings, wheres = pairs("--input", inputs), read_settings(kafka_config or []), destinations(to)
    mapped = bool(format_ or columns or fields or message_schema)
    live = any(is_feed(where, follow=follow, mapped=mapped) for where in given.values())
    _check_together(bool(given), live=live, shed=shed, optimised=optimised, paced=bool(asked))
    if overwrite and not given:
        raise BadArgument("--overwrite needs --input.", hint="Without both, the network in --out resumes.")
    for where in given.values():
        if where.startswith("kafka:"):
            check_input(where, follow=follow)
    check_there(functions, option="--functions")
    if given or not out.exists():
        check_makeable(out)
        check_inputs(file, given)
    from slipstream._io.sources import Definition
    from slipstream._network.running.run_folder import ALL, ANOTHER
    from slipstream._network.schemas import check

    network = load_network(file, functions)
    paces = rates_of(network, asked)
    taps = _taps(network, tap)
    before = None if given else _begun(network, out)
    if before is not None and _is_complete(before, as_json):
        return
    if not before and not overwrite:
        check_new(out, hint=ANOTHER)
    going = _destinations(before, network, out, wheres, settings)
    found = (
        feeds(
            network,
            given,
            follow=follow,
            encoding=format_,
            columns=columns,
            fields=fields,
            settings=settings,
            definition=Definition(message_schema, schema_registry),
        )
        if live
        else {}
    )
    recorded = {} if before or live else recordings(network, inputs)
    stored = stored_tables(before.network if before else network, tables)
    _check_parallel(parallel, before)
    clear_job(out, overwrite)
    small = _is_small(before, recorded, live=live) and (parallel or 1) == 1
    spark = spark_session(f"network {network.name}", master, conf, quick=small)
    checked = check(before.network if before else network, spark)
    if optimised and (known := sampled(found, settings) if live else recorded):
        checked = _better(spark, checked, known, stored)
    controller = _controller(spark, checked, paces, recorded, stored) if shed else None
    partitions = parallel or _partitions(spark, found, recorded, paced=bool(paces))
    execution = before or _laid_out(checked, out, found, recorded, train or _train(paces), paces, partitions, wheres)
    execution.known, execution.kafka = checked, settings
    if taps:
        execution.taps = taps
    _drive(spark, execution, frames(spark, stored), controller, ALL if paces else 1, compact_every)
    if not _goes_to_console(going):  # standard output is for tuples then
        _summary(execution, as_json)
    rejected, total = execution.monitor.rejected()
    check_rejects(rejected, total, max_rejects, f"{out} (output rejects)")


def _check_together(given: bool, *, live: bool, shed: bool, optimised: bool, paced: bool) -> None:
    """Refuse options that do not go together."""
    if shed and not given:
        raise BadArgument("--shed needs --input.", hint="A network that has begun continues as it is.")
    if shed and not (paced or live):
        raise BadArgument("--shed needs --rate, or a feed.", hint="Load can only be too much for a rate.")
    if optimised and not given:
        raise BadArgument("--optimise needs --input.", hint="A network that has begun continues as it is.")
    if live and paced:
        raise BadArgument("--rate is for recordings; a feed has its own.", hint="Leave it out.")


def _destinations(
    before: Execution | None,
    network: Network,
    out: Path,
    wheres: dict[str, list[str]],
    settings: tuple[tuple[str, str], ...],
) -> dict[str, list[str]]:
    """Where outputs go, refused if they cannot; a network that has begun keeps to what it began with."""
    from slipstream._io.outputs.destinations import check_brokers, check_unused
    from slipstream._network.running.run_folder import destinations_of

    going = before.to if before else destinations_of(network, wheres)
    if before and wheres and destinations_of(before.network, wheres) != going:
        begun = ", ".join(f"{name}={where}" for name, several in going.items() for where in several) or "nothing"
        raise BadArgument(f"--to: {out} was started with {begun}.", hint="Leave out --to to resume it.")
    if not before:
        check_unused(out, going)
    check_brokers(going, settings)
    return going


def _goes_to_console(wheres: dict[str, list[str]]) -> bool:
    from slipstream._io.outputs.destinations import CONSOLE

    return any(CONSOLE in several for several in wheres.values())


def _drive(
    spark: Any,
    execution: Execution,
    tables: dict[str, Any],
    controller: Controller | None,
    trains: int,
    compact_every: int,
) -> None:
    from slipstream._network.running.driving import drive

    with bar("batches", _batches(execution)) as advance:
        drive(
            spark,
            execution,
            tables,
            controller=controller,
            trains=trains,
            watch=partial(_advanced, advance),
            compact_every=compact_every,
        )


def _is_small(before: Execution | None, recorded: dict[str, pa.Table], *, live: bool) -> bool:
    """Whether one worker is enough, so that Spark can start quickly."""
    from slipstream._network.running.run_folder import SMALL

    if before is not None:
        return bool(before.feeds) or before.recording.get("tuples", SMALL) < SMALL
    return live or sum(table.num_rows for table in recorded.values()) < SMALL


def _is_complete(before: Execution, as_json: bool) -> bool:
    """Whether all input of a folder has been processed; says so."""
    if not before.has_finished():
        return False
    say(f"{before.folder}: already complete, nothing to do.")
    _summary(before, as_json)
    return True


def _advanced(advance: Advance, batch: int) -> None:  # noqa: ARG001
    advance(1)


def _batches(execution: Execution) -> int:
    """How many batches a recording makes at most, a train of each source in each."""
    trains = Counter(train.parent.name for train in execution.waiting())
    return max(trains.values(), default=0)


def _taps(network: Network, texts: list[str] | None) -> list[Arc]:
    """The arcs to record; refused if the network has none such."""
    from slipstream._network.algebra import Arc
    from slipstream._network.running.run_folder import check_taps

    arcs = [Arc.parse(text) for text in texts or []]
    check_taps(network, arcs)
    return arcs


def _begun(network: Network, out: Path) -> Execution | None:
    """What runs in the folder already, if something does."""
    from slipstream._io.outputs import check_journal
    from slipstream._network.running.run_folder import Execution

    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    found = Execution.open(out)
    check_journal(out)
    if found.network != network:
        say(f"[yellow]note:[/] {out} continues with the network it was started with, {out / 'network.yaml'}")
    return found


def _train(rates: Mapping[str, float]) -> int | dict[str, int]:
    """How many tuples make a train: few enough not to wait for each other, or many, since a batch costs a second."""
    return {source: max(round(rate / 2), 1) for source, rate in rates.items()} or 50_000


def _laid_out(
    checked: Checked,
    out: Path,
    found: dict[str, Feed],
    recorded: dict[str, pa.Table],
    train: int | Mapping[str, int],
    rates: Mapping[str, float],
    parallel: int,
    to: dict[str, list[str]],
) -> Execution:
    from slipstream._network.running.run_folder import Execution

    if found:
        return Execution.on_feeds(out, checked.network, found, parallel=parallel, to=to)
    return Execution.record(out, checked.network, recorded, train=train, rate=rates or None, parallel=parallel, to=to)


def _check_parallel(parallel: int | None, before: Execution | None) -> None:
    """A network that has begun keeps its partitions: its state lies in them."""
    if before is not None and parallel not in (None, before.parallel):
        raise BadArgument(
            f"--parallel {parallel}: {before.folder} was started with {before.parallel}.",
            hint="Leave it out to resume, or run the network afresh in another folder.",
        )


def _partitions(spark: Any, found: dict[str, Feed], recorded: dict[str, pa.Table], *, paced: bool) -> int:
    """How many partitions pay: one where a batch's fixed cost matters more than what one core can do."""
    from slipstream._io.readers.topic import watermarks
    from slipstream._network.running.run_folder import LONG

    cores: int = spark.sparkContext.defaultParallelism
    if any(feed.has_no_end for feed in found.values()) or paced:
        return 1
    partitions = [len(watermarks(feed.topic) or ()) for feed in found.values() if feed.is_topic]
    is_long = sum(table.num_rows for table in recorded.values()) >= LONG
    return cores if is_long else max(min(max(partitions, default=1), cores), 1)


def _better(spark: Any, checked: Checked, inputs: dict[str, pa.Table], tables: dict[str, pa.Table]) -> Checked:
    """The optimised network; says what was done."""
    from slipstream._network.quality.optimiser import optimise
    from slipstream._network.schemas import check

    costs = measured(spark, checked, inputs, tables)
    better = optimise(checked, costs, lambda network: check(network, spark))
    for step in better.steps:
        say(f"optimised: {step}")
    return check(better.network, spark)


def _controller(
    spark: Any,
    checked: Checked,
    known: Mapping[str, float],
    inputs: dict[str, pa.Table],
    tables: dict[str, pa.Table],
) -> Controller:
    """What sheds load; of a feed neither rates nor costs are known before it comes."""
    from slipstream._network.quality.shedding import Controller
    from slipstream._network.quality.statistics import Statistics

    costs = measured(spark, checked, inputs, tables) if inputs else Statistics()
    rates = {source.name: known.get(source.name, 1.0) for source in checked.network.sources}
    return Controller(checked, costs, rates, spark.sparkContext.defaultParallelism)


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
    stored = stored_tables(query, tables)
    spark = spark_session(f"network {query.name}", master, conf)
    attached = attach(spark, running, point, query, out)
    if follow:
        _follow(attached, spark, frames(spark, stored))
    else:
        attached.run(spark, frames(spark, stored))
    _summary(attached, as_json)


def _follow(attached: Execution, spark: Any, tables: dict[str, Any]) -> None:
    """Answer as tuples come, until someone stops it."""
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


def _summary(execution: Execution, as_json: bool) -> None:
    totals = {name: int(line["tuples"]) for name, line in execution.monitor.totals().items()}
    show(totals, as_json=as_json, title=f"tuples delivered by {execution.network.name}")


def add_to(app: typer.Typer) -> None:
    """Put these commands on the command line."""
    app.command("run")(run_network)
    app.command("attach")(attach_query)
    app.command("detach")(detach_query)
