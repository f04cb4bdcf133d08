"""``slipstream network run|attach|detach``: networks at work in folders."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream import session
from slipstream.cli.checks import check_new
from slipstream.cli.network.options import (
    File,
    Folder,
    Functions,
    Inputs,
    Tables,
    frames,
    load_network,
    measured,
    recordings,
    stored_tables,
)
from slipstream.cli.options import Conf, Json, Master, show, spark_session
from slipstream.errors import BadArgument
from slipstream.progress import Advance, bar, say

if TYPE_CHECKING:
    import pyarrow as pa

    from slipstream.network.algebra import Arc, Network
    from slipstream.network.execution import Execution
    from slipstream.network.schemas import Checked
    from slipstream.network.shedding import Controller


def run_network(
    file: File,
    out: Annotated[Path, typer.Option("--out", help="The folder to run in; made if it is not there.")],
    inputs: Inputs = None,
    tables: Tables = None,
    train: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Tuples per train, which arrive and are processed together. Half a second's with --rate, else 50,000.",
            show_default=False,
        ),
    ] = None,
    tap: Annotated[
        list[str] | None, typer.Option("--tap", help="An arc to record beside the outputs: BOX or BOX.PORT.")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0.001, help="Tuples per second of each source; without it everything is there at once."),
    ] = None,
    shed: Annotated[
        bool, typer.Option("--shed", help="Shed load while outputs are late. Needs --rate and --input.")
    ] = False,
    optimised: Annotated[
        bool, typer.Option("--optimise", help="Measure the boxes first and run the cheaper network. Needs --input.")
    ] = False,
    functions: Functions = None,
    as_json: Json = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
) -> None:
    """Run the network over recorded inputs, train by train; run it again without --input to resume where it stopped.

    A tuple's delay counts from its arrival: with --rate when its turn comes, else when the network is ready.
    `slipstream network pause`, `resume` and `step` steer it from another terminal, `inspect` shows what came out.
    """
    from slipstream.network.execution import ALL, SMALL, replay
    from slipstream.network.schemas import check

    if shed and not (rate and inputs):
        raise BadArgument("--shed needs --rate and --input.", hint="Load can only be too much for a rate.")
    if optimised and not inputs:
        raise BadArgument("--optimise needs --input.", hint="A network that has begun continues as it is.")
    network = load_network(file, functions)
    taps = _taps(network, tap)
    before = None if inputs else _begun(network, out)
    recorded = {} if before else _new_inputs(network, inputs, out)
    stored = stored_tables(before.network if before else network, tables)
    rows = before.recording.get("tuples", SMALL) if before else sum(table.num_rows for table in recorded.values())
    spark = spark_session(f"network {network.name}", master, conf, quick=rows < SMALL)
    checked = check(before.network if before else network, spark)
    if optimised:
        checked = _better(spark, checked, recorded, stored)
    controller = _controller(spark, checked, rate, recorded, stored) if shed and rate else None
    execution = before or _recorded(checked, out, recorded, train or _train(rate), rate)
    execution.known = checked
    if taps:
        execution.taps = taps
    with bar("batches", _batches(execution)) as advance:
        watch = partial(_advanced, advance)
        trains = ALL if rate else 1
        replay(spark, execution, frames(spark, stored), controller=controller, trains=trains, watch=watch)
    _summary(execution, as_json)


def _advanced(advance: Advance, batch: int) -> None:  # noqa: ARG001
    advance(1)


def _batches(execution: Execution) -> int:
    """How many batches a recording makes at most, a train of each source in each."""
    trains = Counter(train.parent.name for train in execution.waiting())
    return max(trains.values(), default=0)


def _taps(network: Network, texts: list[str] | None) -> list[Arc]:
    """The arcs to record; refused if the network has none such."""
    from slipstream.network.algebra import Arc
    from slipstream.network.execution import check_taps

    arcs = [Arc.parse(text) for text in texts or []]
    check_taps(network, arcs)
    return arcs


def _begun(network: Network, out: Path) -> Execution | None:
    """What runs in the folder already, if something does."""
    from slipstream.network.execution import Execution

    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    found = Execution.open(out)
    if found.network != network:
        say(f"[yellow]note:[/] {out} continues with the network it was started with, {out / 'network.yaml'}")
    return found


def _new_inputs(network: Network, inputs: list[str] | None, out: Path) -> dict[str, pa.Table]:
    """The recordings for a new folder."""
    from slipstream.network.execution import ANOTHER

    check_new(out, hint=ANOTHER)
    return recordings(network, inputs)


def _train(rate: float | None) -> int:
    """How many tuples make a train: few enough not to wait for each other, or many, since a batch costs a second."""
    return max(round(rate / 2), 1) if rate else 50_000


def _recorded(checked: Checked, out: Path, recorded: dict[str, pa.Table], train: int, rate: float | None) -> Execution:
    from slipstream.network.execution import Execution

    return Execution.record(out, checked.network, recorded, train=train, rate=rate)


def _better(spark: Any, checked: Checked, inputs: dict[str, pa.Table], tables: dict[str, pa.Table]) -> Checked:
    """The optimised network; says what was done."""
    from slipstream.network.optimiser import optimise
    from slipstream.network.schemas import check

    costs = measured(spark, checked, inputs, tables)
    better = optimise(checked, costs, lambda network: check(network, spark))
    for step in better.steps:
        say(f"optimised: {step}")
    return check(better.network, spark)


def _controller(
    spark: Any, checked: Checked, rate: float, inputs: dict[str, pa.Table], tables: dict[str, pa.Table]
) -> Controller:
    from slipstream.network.shedding import Controller

    costs = measured(spark, checked, inputs, tables)
    rates = {source.name: rate for source in checked.network.sources}
    return Controller(checked, costs, rates, spark.sparkContext.defaultParallelism)


def attach_query(
    folder: Folder,
    point: Annotated[str, typer.Argument(help="A connection point or a view of the network that runs there.")],
    file: Annotated[Path, typer.Argument(help="The ad hoc query: a network whose one source is the point.")],
    out: Annotated[Path, typer.Option("--out", help="A new folder for the query's results.")],
    follow: Annotated[bool, typer.Option("--follow", help="Stay, and answer as tuples come, until Ctrl-C.")] = False,
    tables: Tables = None,
    functions: Functions = None,
    as_json: Json = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
) -> None:
    """Ask an ad hoc query of a connection point: its history first, then what came since, nothing twice.

    It stays attached: `slipstream network run FILE --out OUT` continues with what has arrived since, --follow does so
    all the time, `slipstream network detach OUT` ends it.
    """
    from slipstream.network.adhoc import attach
    from slipstream.network.execution import Execution

    running = Execution.open(folder)
    running.history(point)
    query = load_network(file, functions)
    check_new(out)
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
    from slipstream.network.execution import ALL, query_errors

    query = attached.start(spark, tables, trains=ALL)
    try:
        with query_errors(attached.network, attached.folder):
            query.awaitTermination()
    except KeyboardInterrupt:
        say("stopped; still attached")
    finally:
        query.stop()


def detach_query(folder: Annotated[Path, typer.Argument(help="The folder of an attached query.")]) -> None:
    """Disconnect an ad hoc query: what has arrived for it is still there, nothing more will come."""
    from slipstream.network.adhoc import detach
    from slipstream.network.execution import Execution

    detach(Execution.open(folder))
    say(f"detached: {folder}")


def _summary(execution: Execution, as_json: bool) -> None:
    totals = {name: int(line["tuples"]) for name, line in execution.monitor.totals().items()}
    show(totals, as_json=as_json, title=f"tuples delivered by {execution.network.name}")


def add_to(app: typer.Typer) -> None:
    """Put these commands on the command line."""
    app.command("run")(run_network)
    app.command("attach")(attach_query)
    app.command("detach")(detach_query)
