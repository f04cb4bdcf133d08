"""``slipstream network check|draw|describe``: check a network before it runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from slipstream._cli.common.checks import check_there, check_writable
from slipstream._cli.common.options import Conf, Json, Master, show, start_spark
from slipstream._cli.common.printed_tables import count_nouns, print_table
from slipstream._cli.common.user_functions import Functions
from slipstream._cli.network.network_options import (
    File,
    Inputs,
    Parallel,
    Rates,
    Tables,
    assign_rates,
    load_network,
    measure_again,
    measure_costs,
    parse_pairs,
    parse_rates,
    read_recordings,
    read_stored_tables,
)
from slipstream._errors import BadArgument, CheckFailed, classify
from slipstream._spark import session
from slipstream._tools.progress import say

if TYPE_CHECKING:
    import pyarrow as pa

    from slipstream._network.algebra import Node
    from slipstream._network.quality.analysis import Analysis
    from slipstream._network.quality.statistics import Statistics
    from slipstream._network.schemas import Checked
    from slipstream._network.tasks.superbox import Superbox


def check_network(
    file: File,
    rates: Rates = None,
    inputs: Inputs = None,
    tables: Tables = None,
    headroom: Annotated[
        float, typer.Option(min=0.01, max=1.0, help="The share of the machine that the network may use.")
    ] = 1.0,
    functions: Functions = None,
    as_json: Json = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
) -> None:
    """Infer the schema of every arc, and report the box and column of an error.

    With --rate and a sample (--input for each source), it also measures every box and reports whether this machine
    sustains that rate.
    Exits with code 3 if the network is refused, 5 if the load is too high.

    Examples:

    `slipstream network check examples/networks/border.yaml`

    `slipstream network check examples/networks/border.yaml --input soldiers=examples/networks/soldiers.csv --rate 10`
    """
    from slipstream._network.schemas import check

    asked = parse_rates(rates)
    network = load_network(file, functions)
    wanted = assign_rates(network, asked)
    check_there(*parse_pairs("--input", inputs).values(), *parse_pairs("--table", tables).values())
    recorded = read_recordings(network, inputs) if wanted else {}
    stored = read_stored_tables(network, tables) if wanted else {}
    spark = start_spark("network check", master, conf, quick=not wanted)
    checked = check(network, spark)
    if wanted:
        _hold(checked, measure_costs(spark, checked, recorded, stored), wanted, _count_cores(spark), headroom, as_json)
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
    print_table(table)


def _count_cores(spark: Any) -> int:
    return int(spark.sparkContext.defaultParallelism)


def _hold(
    checked: Checked, statistics: Statistics, rates: dict[str, float], cores: int, headroom: float, as_json: bool
) -> None:
    """Print whether the machine sustains the rates."""
    from slipstream._network.quality.analysis import analyse

    found = analyse(checked, statistics, rates, cores=cores, headroom=headroom)
    if as_json:
        boxes = {load.box: {"rate": load.rate, "cost": load.cost, "cores": load.cores} for load in found.loads}
        verdict = {"min_cap": found.min_cap, "cores": cores, "holds": found.holds, "factor": found.factor}
        print(json.dumps({"network": checked.network.name, "boxes": boxes, **verdict}))
    else:
        print_table(_make_load_table(checked, statistics, found))
    verdict_text = f"{found.min_cap:.2f} cores needed, {cores * headroom:.2f} available"
    if not found.holds:
        _propose(checked, statistics, rates, cores, headroom)
        raise CheckFailed(
            f"network {checked.network.name}: too much load: {verdict_text}.",
            hint=f"It sustains {found.factor:.2f} times these rates. Use more cores, or shed load.",
            code="overload",
        )
    say(f"sustained: {verdict_text}; up to {found.factor:.1f} times these rates")


def _make_load_table(checked: Checked, statistics: Statistics, found: Analysis) -> Table:
    boxes = {node.name for node in checked.nodes}
    table = Table("box", "tuples/s", "µs per tuple", "passes on", "cores", title=checked.network.name)
    for load in sorted(found.loads, key=lambda load: -load.cores):
        share = f"{statistics.of(load.box).selectivity:.3f}" if load.box in boxes else ""
        table.add_row(load.box, f"{load.rate:,.0f}", f"{load.cost * 1e6:.2f}", share, f"{load.cores:.3f}")
    return table


def _propose(checked: Checked, statistics: Statistics, rates: dict[str, float], cores: int, headroom: float) -> None:
    """Print what load shedding would drop."""
    from slipstream._network.quality.shedding import plan, plan_evenly

    shed = plan(checked, statistics, rates, cores=cores, headroom=headroom)
    even = plan_evenly(checked, statistics, rates, cores=cores, headroom=headroom)
    for place, share in shed.shares.items():
        if share > 0:
            say(f"shed {share:.0%} at {place}")
    most = len(checked.network.outputs)
    say(f"utility {shed.utility:.2f} of {most}; dropping evenly would leave {even.utility:.2f}")


def draw_network(
    file: File,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The SVG file to write; without it, standard output.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw the network as SVG: boxes, arcs, groups as frames, connection points as dots.

    Example: `slipstream network draw examples/networks/border.yaml --out border.svg`
    """
    from slipstream._network import drawing, yaml_files

    check_writable(out, "--out")
    picture = drawing.draw(yaml_files.load(file))
    if out is None:
        print(json.dumps({"svg": picture}) if as_json else picture)
        return
    try:
        out.write_text(picture, encoding="utf-8")
    except OSError as error:
        raise BadArgument(
            f"--out {out}: {error.strerror}.", hint="Give a file that can be written.", code=classify(error)
        ) from error
    if as_json:
        print(json.dumps({"out": str(out)}))
    else:
        say(f"drawn: {out}")


def describe_network(
    file: File,
    inputs: Inputs = None,
    tables: Tables = None,
    parallel: Parallel = None,
    functions: Functions = None,
    as_json: Json = False,
    master: Master = session.LOCAL,
    conf: Conf = None,
) -> None:
    """Show how the network will run: which boxes share a stage of the streaming query, and by which keys.

    Defaults that the file leaves out are shown, too: an aggregate's advance is its size unless given.

    With a sample (--input for each source) it also measures the boxes, optimises the network, and shows the boxes
    before and after, and the cost of an input tuple.

    Example: `slipstream network describe examples/networks/border.yaml --parallel 2`
    """
    from slipstream._network.planning.plan import plan
    from slipstream._network.schemas import check
    from slipstream._network.tasks.superbox import Superbox

    network = load_network(file, functions)
    recorded = read_recordings(network, inputs) if inputs else {}
    stored = read_stored_tables(network, tables) if inputs else {}
    spark = start_spark("network describe", master, conf, quick=not inputs)
    checked = check(network, spark)
    if inputs:
        _show_optimised(spark, checked, recorded, stored, as_json)
        return
    made = Superbox(plan(checked), parallel=parallel or 1)
    if as_json:
        stages = [asdict(stage) for stage in made.stages.listed]
        print(json.dumps({"network": network.name, "stages": stages, "boxes": _list_rows(made)}))
        return
    count = made.stages.count
    print_table(_make_box_table(made, f"{network.name}: {count_nouns(count, 'stage')}"))
    for stage in made.stages.listed if count > 1 or parallel else ():
        say(stage.summary)


def _list_rows(made: Superbox) -> list[dict[str, Any]]:
    """Every box, in the order of the stages: how it runs and what it does."""
    from slipstream._network import drawing

    levels, places = made.plan.levels, made.stages.places
    ordered = sorted(made.plan.checked.nodes, key=lambda node: (places[node.name], levels[node.name]))
    return [
        {
            "stage": places[node.name],
            "level": levels[node.name],
            "box": node.name,
            "kind": node.box.kind,
            "runs_as": _name_execution(made, node),
            "what": drawing.describe_box(node.box),
        }
        for node in ordered
    ]


def _name_execution(made: Superbox, node: Node) -> str:
    from slipstream._network.planning.plan import is_agnostic

    if made.translations.asks_spark(node):
        return "in Spark" if is_agnostic(node) else "stateful, and in Spark"
    if is_agnostic(node):
        return "expression"
    return "table join" if made.plan.checked.is_lookup(node) else "stateful"


def _make_box_table(made: Superbox, title: str) -> Table:
    table = Table("stage", "level", "box", "kind", "runs as", "what", title=title, title_justify="left")
    for row in _list_rows(made):
        table.add_row(*(str(value) for value in ({**row, "stage": row["stage"] or "source"}).values()))
    return table


def _show_optimised(
    spark: Any, checked: Checked, inputs: dict[str, pa.Table], tables: dict[str, pa.Table], as_json: bool
) -> None:
    """Show what the optimiser does, and the measured cost of an input tuple before and after."""
    from slipstream._network.planning.plan import plan
    from slipstream._network.quality.optimiser import optimise
    from slipstream._network.schemas import check
    from slipstream._network.tasks.superbox import Superbox

    before = measure_costs(spark, checked, inputs, tables)
    better = optimise(checked, before, lambda network: check(network, spark))
    again = check(better.network, spark)
    after = measure_again(spark, again, inputs, tables, before)
    costs = [_compute_cost(one, figures, _count_cores(spark)) for one, figures in ((checked, before), (again, after))]
    if not as_json:
        print_table(_make_box_table(Superbox(plan(checked)), "before"))
        print_table(_make_box_table(Superbox(plan(again)), "after"))
    result = {"boxes_before": len(checked.nodes), "boxes_after": len(again.nodes), "steps": list(better.steps)}
    result |= {"microseconds_before": round(costs[0], 3), "microseconds_after": round(costs[1], 3)}
    result["gain"] = round(costs[0] / costs[1], 2) if costs[1] else 1.0
    show(result, as_json=as_json, title=f"{checked.network.name}: cost of an input tuple")


def _compute_cost(checked: Checked, figures: Statistics, cores: int) -> float:
    """Microseconds of a core that a tuple of each source costs, on the average."""
    from slipstream._network.quality.analysis import analyse

    rates = {source.name: 1.0 for source in checked.network.sources}
    return analyse(checked, figures, rates, cores=cores).min_cap / len(rates) * 1e6


def add_to(app: typer.Typer) -> None:
    """Put these commands on the command line."""
    app.command("check")(check_network)
    app.command("draw")(draw_network)
    app.command("describe")(describe_network)
