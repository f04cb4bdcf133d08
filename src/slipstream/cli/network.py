"""``slipstream network``: check, draw, describe and run networks of boxes, and look into a running one."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from slipstream import session
from slipstream.cli.options import Conf, Json, Master, show, spark_session
from slipstream.errors import BadArgument, CheckFailed
from slipstream.progress import bar, say

if TYPE_CHECKING:
    from slipstream.squal.algebra import Network
    from slipstream.squal.execution import Execution
    from slipstream.squal.schemas import Checked
    from slipstream.squal.shedding import Controller
    from slipstream.squal.statistics import Statistics

app = typer.Typer(
    help="Networks of boxes over streams: the seven boxes of the Aurora algebra, run on Structured Streaming.",
    epilog="Start with: slipstream network draw examples/networks/border.yaml --out border.svg",
    no_args_is_help=True,
)

File = Annotated[Path, typer.Argument(help="The network file (YAML).", show_default=False)]
Folder = Annotated[Path, typer.Argument(help="The folder in which a network runs.", show_default=False)]
Functions = Annotated[
    Path | None,
    typer.Option("--functions", help="A Python file that registers the network's window functions. It is executed."),
]

Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", help="SOURCE=FILE: CSV with a header, JSON lines, Parquet, or a run. Once a source."),
]
Tables = Annotated[list[str] | None, typer.Option("--table", help="TABLE=FILE for a stored table.")]

#: tuples of each source that are looked at to measure the boxes
SAMPLE = 20_000


def _pairs(option: str, pairs: list[str] | None) -> dict[str, Path]:
    found = {}
    for pair in pairs or []:
        name, separator, path = pair.partition("=")
        if not separator:
            raise BadArgument(f"{option} {pair}: not NAME=FILE.", hint=f"Write {option} soldiers=reports.csv.")
        found[name] = Path(path)
    return found


def _register(functions: Path | None) -> None:
    """Run the user's own file; only when the command line names it."""
    if functions is None:
        return
    if not functions.is_file():
        raise BadArgument(f"--functions {functions}: no such file.", hint="Give a Python file.")
    spec = importlib.util.spec_from_file_location(functions.stem, functions)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[functions.stem] = module
    spec.loader.exec_module(module)


@app.command("check")
def check_network(
    file: File,
    rates: Annotated[
        list[str] | None,
        typer.Option("--rate", help="SOURCE=TUPLES_A_SECOND: also say whether this machine holds that. Needs --input."),
    ] = None,
    inputs: Inputs = None,
    tables: Tables = None,
    headroom: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="The share of the machine that continuous queries may use.")
    ] = 1.0,
    functions: Functions = None,
    as_json: Json = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
) -> None:
    """Infer every arc's schema and refuse what cannot work, naming the box and the column.

    With --rate and a sample (--input) it also measures every box and says whether the machine holds the load.
    Leaves with exit code 3 when the network is refused, 5 when the load is too much.
    """
    from slipstream.squal import files
    from slipstream.squal.schemas import check

    _register(functions)
    network = files.load(file)
    spark = spark_session("network check", master, conf)
    checked = check(network, spark)
    if rates:
        _hold(spark, checked, _rates(rates), _pairs("--input", inputs), _pairs("--table", tables), headroom, as_json)
        return
    for warning in checked.warnings:
        say(f"[yellow]note:[/] {warning}")
    arcs = {str(arc): schema for arc, schema in checked.schemas.items()}
    if as_json:
        print(json.dumps({"network": network.name, "arcs": arcs, "warnings": checked.warnings}))
        return
    table = Table("arc", "columns", title=f"{network.name}: sound", title_justify="left")
    for arc, schema in arcs.items():
        table.add_row(arc, ", ".join(f"{name} {type_}" for name, type_ in schema.items()))
    Console().print(table)


def _rates(pairs: list[str]) -> dict[str, float]:
    try:
        return {name: float(number) for name, number in (pair.split("=") for pair in pairs)}
    except ValueError as error:
        raise BadArgument(f"--rate {' '.join(pairs)}: not SOURCE=NUMBER.", hint="Write --rate reports=1000.") from error


def _hold(
    spark: Any,
    checked: Checked,
    rates: dict[str, float],
    inputs: dict[str, Path],
    tables: dict[str, Path],
    headroom: float,
    as_json: bool,
) -> None:
    """Measure the boxes on a sample and say whether the machine holds the rates."""
    from slipstream.squal.analysis import analyse

    statistics = _measured(spark, checked, inputs, tables)
    cores = spark.sparkContext.defaultParallelism
    found = analyse(checked, statistics, rates, cores=cores, headroom=headroom)
    if as_json:
        boxes = {load.box: {"rate": load.rate, "cost": load.cost, "cores": load.cores} for load in found.loads}
        verdict = {"min_cap": found.min_cap, "cores": cores, "holds": found.holds, "factor": found.factor}
        print(json.dumps({"network": checked.network.name, "boxes": boxes, **verdict}))
    else:
        table = Table("box", "tuples/s", "µs a tuple", "passes on", "cores", title=checked.network.name)
        for load in sorted(found.loads, key=lambda load: -load.cores):
            share = statistics.of(load.box).selectivity
            table.add_row(load.box, f"{load.rate:,.0f}", f"{load.cost * 1e6:.2f}", f"{share:.3f}", f"{load.cores:.3f}")
        Console().print(table)
    verdict_text = f"{found.min_cap:.2f} cores needed, {cores * headroom:.2f} there"
    if not found.holds:
        _propose(checked, statistics, rates, cores, headroom)
        raise CheckFailed(
            f"network {checked.network.name}: too much load: {verdict_text}.",
            hint=f"It would hold {found.factor:.2f} times these rates. Use more cores, or shed load.",
        )
    say(f"holds: {verdict_text}; up to {found.factor:.1f} times these rates")


def _propose(checked: Checked, statistics: Statistics, rates: dict[str, float], cores: int, headroom: float) -> None:
    """Say what shedding would do about it."""
    from slipstream.squal.shedding import evenly, plan

    shed = plan(checked, statistics, rates, cores=cores, headroom=headroom)
    even = evenly(checked, statistics, rates, cores=cores, headroom=headroom)
    for place, share in shed.shares.items():
        if share > 0:
            say(f"shed {share:.0%} at {place}")
    most = len(checked.network.outputs)
    say(f"utility {shed.utility:.2f} of {most}; dropping evenly would leave {even.utility:.2f}")


def _measured(spark: Any, checked: Checked, inputs: dict[str, Path], tables: dict[str, Path]) -> Statistics:
    from slipstream.squal.inputs import cut, read_table
    from slipstream.squal.statistics import measure

    samples = {}
    for source in checked.network.sources:
        if source.name not in inputs:
            raise BadArgument(f"no sample for the source {source.name}.", hint=f"Give --input {source.name}=FILE.")
        tuples = read_table(inputs[source.name], source.schema).slice(0, SAMPLE)
        samples[source.name] = spark.createDataFrame(next(cut(tuples, SAMPLE, 0, None)))
    return measure(spark, checked, samples, _tables(spark, checked.network, tables))


@app.command("draw")
def draw_network(
    file: File,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where to write the SVG; standard output unless given.")
    ] = None,
) -> None:
    """Draw the network as SVG: boxes, arcs, groups as frames, connection points as dots."""
    from slipstream.squal import drawing, files

    picture = drawing.draw(files.load(file))
    if out is None:
        print(picture)
        return
    try:
        out.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise BadArgument(f"--out {out}: {error.strerror}.", hint="Give a file that can be written.") from error
    say(f"drawn: {out}")


@app.command("describe")
def describe_network(
    file: File,
    inputs: Inputs = None,
    tables: Tables = None,
    functions: Functions = None,
    as_json: Json = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
) -> None:
    """Say how the network will run: which boxes share a stage of the streaming query, and in what order.

    With a sample (--input for each source) it also measures the boxes, optimises the network and shows the gain.
    """
    from slipstream.squal import drawing, files
    from slipstream.squal.plan import is_agnostic, plan
    from slipstream.squal.schemas import check

    _register(functions)
    network = files.load(file)
    spark = spark_session("network describe", master, conf)
    made = plan(check(network, spark))
    if inputs:
        _optimised(spark, made.checked, _pairs("--input", inputs), _pairs("--table", tables), as_json)
        return
    rows = [
        {
            "stage": made.levels[node.name],
            "box": node.name,
            "kind": node.box.kind,
            "runs_as": "expression"
            if is_agnostic(node)
            else "table join"
            if made.checked.is_lookup(node)
            else "stateful",
            "what": drawing.what(node.box),
        }
        for node in sorted(made.checked.nodes, key=lambda node: made.levels[node.name])
    ]
    if as_json:
        print(json.dumps({"network": network.name, "stages": made.depth, "boxes": rows}))
        return
    table = Table("stage", "box", "kind", "runs as", "what", title=f"{network.name}: {made.depth} stages")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    Console().print(table)


def _optimised(spark: Any, checked: Checked, inputs: dict[str, Path], tables: dict[str, Path], as_json: bool) -> None:
    """Show what the optimiser does, and the measured cost of an input tuple before and after."""
    from slipstream.squal.analysis import analyse
    from slipstream.squal.optimiser import optimise
    from slipstream.squal.schemas import check

    rates = {source.name: 1.0 for source in checked.network.sources}
    cores = spark.sparkContext.defaultParallelism
    before = _measured(spark, checked, inputs, tables)
    better = optimise(checked, before, lambda network: check(network, spark))
    again = check(better.network, spark)
    after = _measured(spark, again, inputs, tables)
    costs = [
        analyse(one, figures, rates, cores=cores).min_cap / len(rates) * 1e6
        for one, figures in ((checked, before), (again, after))
    ]
    result = {"boxes_before": len(checked.nodes), "boxes_after": len(again.nodes), "steps": list(better.steps)}
    result |= {"microseconds_before": round(costs[0], 3), "microseconds_after": round(costs[1], 3)}
    show(result, as_json=as_json, title=f"{checked.network.name}: cost of an input tuple")


@app.command("run")
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
    functions: Functions = None,
    as_json: Json = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
) -> None:
    """Run the network over recorded inputs, train by train; run it again without --input to go on where it stopped.

    `slipstream network pause`, `resume` and `step` steer it from another terminal, `inspect` shows what came out.
    """
    from slipstream.squal import files
    from slipstream.squal.algebra import Arc
    from slipstream.squal.execution import Execution, replay

    _register(functions)
    if shed and not (rate and inputs):
        raise BadArgument("--shed needs --rate and --input.", hint="Load can only be too much for a rate.")
    network = files.load(file)
    execution = (
        Execution.prepare(out, network, _pairs("--input", inputs), train=train, rate=rate)
        if inputs
        else Execution.open(out)
    )
    if tap:
        (out / "taps.json").write_text(json.dumps(tap), encoding="utf-8")
    execution.taps = {f"tap_{text.replace('.', '_')}": Arc.parse(text) for text in _taps(out)}
    spark = spark_session(f"network {network.name}", master, conf)
    stored = _tables(spark, network, _pairs("--table", tables))
    if rate:
        controller = _controller(spark, network, rate, inputs, tables) if shed else None
        replay(spark, execution, stored, controller=controller)
    else:
        _drive(execution, spark, stored)
    _summary(execution, as_json)


def _controller(
    spark: Any, network: Network, rate: float, inputs: list[str] | None, tables: list[str] | None
) -> Controller:
    from slipstream.squal.schemas import check
    from slipstream.squal.shedding import Controller

    checked = check(network, spark)
    statistics = _measured(spark, checked, _pairs("--input", inputs), _pairs("--table", tables))
    rates = {source.name: rate for source in network.sources}
    return Controller(checked, statistics, rates, spark.sparkContext.defaultParallelism)


@app.command("attach")
def attach_query(
    folder: Folder,
    point: Annotated[str, typer.Argument(help="A connection point of the network that runs there.")],
    file: Annotated[Path, typer.Argument(help="The ad hoc query: a network whose one source is the point.")],
    out: Annotated[Path, typer.Option("--out", help="A new folder for the query's results.")],
    functions: Functions = None,
    as_json: Json = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
) -> None:
    """Ask an ad hoc query of a connection point: its history first, then what came since, nothing twice.

    `slipstream network run FILE --out OUT` goes on with what arrives later; to detach, just stop.
    """
    from slipstream.squal import files
    from slipstream.squal.execution import Execution, attach

    _register(functions)
    query, running = files.load(file), Execution.open(folder)
    spark = spark_session(f"network {query.name}", master, conf)
    if out.exists() and any(out.iterdir()):
        raise BadArgument(f"--out {out}: exists and is not empty.", hint="Give another folder.")
    attached = attach(spark, running, point, query, out)
    attached.run(spark)
    _summary(attached, as_json)


def _taps(out: Path) -> list[str]:
    place = out / "taps.json"
    return list(json.loads(place.read_text(encoding="utf-8"))) if place.exists() else []


def _tables(spark: Any, network: Any, paths: dict[str, Path]) -> dict[str, Any]:
    from slipstream.squal.inputs import read_table

    frames = {}
    for table in network.tables:
        if table.name not in paths:
            raise BadArgument(f"no data for the table {table.name}.", hint=f"Give --table {table.name}=FILE.")
        frames[table.name] = spark.createDataFrame(read_table(paths[table.name], table.schema))
    return frames


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


def _summary(execution: Execution, as_json: bool) -> None:
    totals: dict[str, Any] = {output.name: 0 for output in execution.network.outputs}
    for entry in execution.monitor():
        for name, line in entry["outputs"].items():
            totals[name] += line["tuples"]
    show(totals, as_json=as_json, title=f"tuples delivered by {execution.network.name}")


def _steer(folder: Path, wanted: str, message: str) -> None:
    from slipstream.squal.execution import Execution

    Execution.open(folder).control = wanted
    say(message)


@app.command("pause")
def pause_network(folder: Folder) -> None:
    """Let no more trains arrive; the batch under way ends normally."""
    _steer(folder, "pause", "paused: `slipstream network resume` or `step` goes on")


@app.command("resume")
def resume_network(folder: Folder) -> None:
    """Let trains arrive again."""
    _steer(folder, "run", "running")


@app.command("step")
def step_network(
    folder: Folder, trains: Annotated[int, typer.Option(min=1, help="How many trains to let in.")] = 1
) -> None:
    """Let one train of each source arrive, then pause."""
    _steer(folder, str(trains), f"{trains} to come, then paused")


@app.command("shed")
def shed_network(
    folder: Folder,
    drops: Annotated[
        list[str] | None,
        typer.Option("--drop", help='"PLACE=SHARE" of the tuples to come, such as "cars -> sort=0.3".'),
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="Drop nothing any more.")] = False,
    as_json: Json = False,
) -> None:
    """Drop a share of the tuples to come at some places, and show what has been dropped.

    Without options it shows the places. The choice is written into the trains as they arrive, so a restart drops the
    same tuples again.
    """
    from slipstream.squal.execution import Execution

    execution = Execution.open(folder)
    if drops or stop:
        execution.shares = {place: float(share) for place, share in (_share(drop) for drop in drops or [])}
    dropped: dict[str, int] = {}
    for line in execution.shed():
        for place, count in line["dropped"].items():
            dropped[place] = dropped.get(place, 0) + count
    shares = execution.shares
    result = {str(p): f"{shares.get(str(p), 0.0):.0%}, so far {dropped.get(str(p), 0):,}" for p in execution.places}
    show(result, as_json=as_json, title="dropped: now, and tuples so far")


def _share(text: str) -> tuple[str, float]:
    place, _, share = text.rpartition("=")
    try:
        return place, float(share)
    except ValueError as error:
        raise BadArgument(f"--drop {text}: not PLACE=SHARE.", hint='Write --drop "cars -> sort=0.3".') from error


@app.command("monitor")
def monitor_network(folder: Folder, as_json: Json = False) -> None:
    """Show each output's tuples, delay and utility, batch by batch."""
    from slipstream.squal.execution import Execution

    entries = Execution.open(folder).monitor()
    if as_json:
        print(json.dumps(entries))
        return
    table = Table("batch", "output", "tuples", "mean delay s", "worst s", "utility", "in the good zone")
    for entry in entries:
        for name, line in entry["outputs"].items():
            figures = (f"{line[key]:.2f}" for key in ("delay", "worst", "utility"))
            table.add_row(str(entry["batch"]), name, f"{line['tuples']:,}", *figures, f"{line['good']:.0%}")
    Console().print(table)


@app.command("inspect")
def inspect_network(
    folder: Folder,
    output: Annotated[str, typer.Argument(help="An output, a connection point, or a tapped arc (tap_BOX).")],
    last: Annotated[int, typer.Option(min=1, help="How many of the newest tuples to show.")] = 20,
    functions: Functions = None,
    as_json: Json = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
) -> None:
    """Show the newest tuples on an output or a tapped arc."""
    from slipstream.squal.algebra import Arc
    from slipstream.squal.execution import Execution

    _register(functions)
    execution = Execution.open(folder)
    execution.taps = {f"tap_{text.replace('.', '_')}": Arc.parse(text) for text in _taps(folder)}
    tuples = execution.results(spark_session("network inspect", master, conf), output)
    rows = [row.asDict() for row in tuples.tail(last)]
    if as_json:
        print(json.dumps(rows))
        return
    table = Table(*tuples.columns, title=f"{output}: the last {len(rows)}", title_justify="left")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    Console().print(table)


def add_to(root: typer.Typer) -> None:
    """Put the commands on the command line."""
    root.add_typer(app, name="network")
