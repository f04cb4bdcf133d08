"""``slipstream network run|attach|detach``: networks at work in folders."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream import session
from slipstream.cli.network.options import (
    File,
    Folder,
    Functions,
    Inputs,
    Tables,
    measured,
    pairs,
    register,
    stored_tables,
)
from slipstream.cli.options import Conf, Json, Master, show, spark_session
from slipstream.errors import BadArgument
from slipstream.progress import bar, say

if TYPE_CHECKING:
    from slipstream.squal.algebra import Network
    from slipstream.squal.execution import Execution
    from slipstream.squal.schemas import Checked
    from slipstream.squal.shedding import Controller


def run_network(
    file: File,
    out: Annotated[Path, typer.Option("--out", help="The folder to run in; made if it is not there.")],
    inputs: Inputs = None,
    tables: Tables = None,
    train: Annotated[
        int, typer.Option(min=1, help="Tuples a train; a train arrives, and is processed, at once.")
    ] = 1000,
    tap: Annotated[
        list[str] | None, typer.Option("--tap", help="An arc to record beside the outputs: BOX or BOX.PORT.")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0.001, help="Tuples a second of each source; without it everything is there at once."),
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
    """Run the network over recorded inputs, train by train; run it again without --input to go on where it stopped.

    `slipstream network pause`, `resume` and `step` steer it from another terminal, `inspect` shows what came out.
    """
    from slipstream.squal import files
    from slipstream.squal.execution import replay
    from slipstream.squal.schemas import check

    register(functions)
    if shed and not (rate and inputs):
        raise BadArgument("--shed needs --rate and --input.", hint="Load can only be too much for a rate.")
    if optimised and not inputs:
        raise BadArgument("--optimise needs --input.", hint="A network that has begun goes on as it is.")
    network = files.load(file)
    spark = spark_session(f"network {network.name}", master, conf)
    checked = check(network, spark)
    if optimised:
        checked = _better(spark, checked, inputs, tables)
    controller = _controller(spark, checked, rate, inputs, tables) if shed and rate else None
    execution = _execution(checked.network, out, inputs, train, rate, tap)
    stored = stored_tables(spark, execution.network, tables)
    if rate:
        replay(spark, execution, stored, controller=controller)
    else:
        _drive(execution, spark, stored)
    _summary(execution, as_json)


def _better(spark: Any, checked: Checked, inputs: list[str] | None, tables: list[str] | None) -> Checked:
    """The optimised network; says what was done."""
    from slipstream.squal.optimiser import optimise
    from slipstream.squal.schemas import check

    costs = measured(spark, checked, inputs, tables)
    better = optimise(checked, costs, lambda network: check(network, spark))
    for step in better.steps:
        say(f"optimised: {step}")
    return check(better.network, spark)


def _controller(
    spark: Any, checked: Checked, rate: float, inputs: list[str] | None, tables: list[str] | None
) -> Controller:
    from slipstream.squal.shedding import Controller

    costs = measured(spark, checked, inputs, tables)
    rates = {source.name: rate for source in checked.network.sources}
    return Controller(checked, costs, rates, spark.sparkContext.defaultParallelism)


def _execution(
    network: Network, out: Path, inputs: list[str] | None, train: int, rate: float | None, tap: list[str] | None
) -> Execution:
    from slipstream.squal.algebra import Arc
    from slipstream.squal.execution import Execution

    execution = (
        Execution.prepare(out, network, pairs("--input", inputs), train=train, rate=rate)
        if inputs
        else Execution.open(out)
    )
    if tap:
        execution.taps = [Arc.parse(text) for text in tap]
    return execution


def _drive(execution: Execution, spark: Any, tables: dict[str, Any]) -> None:
    """Release trains as the control file says and run until all have been processed, or someone says pause."""
    total = len(execution.waiting())
    with bar("trains", total) as advance:
        while True:
            before = len(execution.waiting())
            more = execution.obey()
            advance(before - len(execution.waiting()))
            if before > len(execution.waiting()) or not more:
                execution.run(spark, tables)
            if not more:
                return
            time.sleep(0.2)


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

    It stays attached: `slipstream network run FILE --out OUT` goes on with what has arrived since, --follow does so
    all the time, `slipstream network detach OUT` ends it.
    """
    from slipstream.squal import files
    from slipstream.squal.adhoc import attach
    from slipstream.squal.execution import Execution

    register(functions)
    query, running = files.load(file), Execution.open(folder)
    spark = spark_session(f"network {query.name}", master, conf)
    attached = attach(spark, running, point, query, out)
    stored = stored_tables(spark, query, tables)
    if follow:
        _follow(attached, spark, stored)
    else:
        attached.run(spark, stored)
    _summary(attached, as_json)


def _follow(attached: Execution, spark: Any, tables: dict[str, Any]) -> None:
    """Answer as tuples come, until someone stops it."""
    from slipstream.squal.execution import ALL, told

    query = attached.start(spark, tables, trains=ALL)
    try:
        with told(attached.network):
            query.awaitTermination()
    except KeyboardInterrupt:
        say("stopped; still attached")
    finally:
        query.stop()


def detach_query(folder: Annotated[Path, typer.Argument(help="The folder of an attached query.")]) -> None:
    """Disconnect an ad hoc query: what has arrived for it is still there, nothing more will come."""
    from slipstream.squal.adhoc import detach
    from slipstream.squal.execution import Execution

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
