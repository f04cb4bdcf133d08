"""``slipstream berlinmod``: generate or load movements, index them, run queries on them and on streams, draw them."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from slipstream._berlinmod.layout import check_data_set, check_files
from slipstream._cli import berlinmod_stream_command
from slipstream._cli.common.checks import check_folder, check_new, check_there, check_writable
from slipstream._cli.common.command_style import Family
from slipstream._cli.common.options import Conf, Json, Master, MaxRejects, check_rejects, show, start_spark
from slipstream._cli.common.overwriting import HINT, Overwrite, replacing
from slipstream._cli.common.printed_tables import count_nouns, print_table
from slipstream._errors import BadArgument
from slipstream._spark.session import LOCAL
from slipstream._tools.progress import bar, say

app = Family(
    name="berlinmod",
    help="Histories of moving vehicles: BerlinMOD's generator, both representations and 17 queries.",
    epilog="Start with: slipstream berlinmod generate --scale 0.005 --out data/small",
    no_args_is_help=True,
)

Data = Annotated[Path, typer.Argument(help="A data set, made by `generate` or `load`.")]
Out = Annotated[Path, typer.Option("--out", help="The folder to write.")]
Format = Annotated[
    str, typer.Option("--format", metavar="published|mobilitydb", help="The format of the files: units or instants.")
]
Metres = Annotated[bool, typer.Option("--metres", help="Read coordinates that look like degrees as metres.")]
As = Annotated[str, typer.Option("--as", metavar="oba|tba|both", help="The representation to use.")]


def add_to(root: typer.Typer) -> None:
    """Put the commands on the command line."""
    root.add_typer(app)
    berlinmod_stream_command.add_to(app)


@app.command()
def generate(
    out: Out,
    scale: Annotated[float, typer.Option("--scale", help="The size; 1.0 is 2,000 vehicles for 28 days.")] = 0.05,
    network: Annotated[
        Path | None,
        typer.Option("--network", help="Streets: any input or output of `roads import`; by default a synthetic city."),
    ] = None,
    regions: Annotated[
        bool, typer.Option("--regions", help="Choose homes and work places by the paper's regions.")
    ] = False,
    home_regions: Annotated[
        Path | None, typer.Option("--home-regions", help="Weighted regions for homes, a SECONDO nested list.")
    ] = None,
    work_regions: Annotated[
        Path | None, typer.Option("--work-regions", help="Weighted regions for work places, a SECONDO nested list.")
    ] = None,
    disturb: Annotated[bool, typer.Option("--disturb", help="Add a GPS error of up to 100 m.")] = False,
    script_odds: Annotated[
        bool, typer.Option("--script-odds", help="1, 2, 3 destinations with 80, 10, 10 %, as in the script.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same data.")] = 1,
    metres: Metres = False,
    overwrite: Overwrite = False,
    master: Master = LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Generate a data set: vehicles that commute and drive around town for several days.

    Example: `slipstream berlinmod generate --scale 0.005 --out data/small`
    """
    if not overwrite:
        check_new(out, hint=HINT)
    check_there(network, option="--network", hint="Leave it out for the synthetic city.")
    check_there(home_regions, option="--home-regions")
    check_there(work_regions, option="--work-regions")
    from slipstream._berlinmod import generator
    from slipstream._berlinmod.streets import read_network, secondo_regions

    odds = {"one": 0.8, "two": 0.1} if script_odds else {}
    plan = generator.GeneratorPlan(scale=scale, seed=seed, disturb=disturb, **odds)
    streets = read_network(network, metres=metres)
    weights = generator.region_weights(streets) if regions else generator.uniform_weights(streets)
    if home_regions:
        weights = weights._replace(home=generator.cumulate_by_region(streets, secondo_regions(home_regions)))
    if work_regions:
        weights = weights._replace(work=generator.cumulate_by_region(streets, secondo_regions(work_regions)))
    things = {"vehicle": plan.vehicles, "day": plan.days, "node": streets.nodes, "edge": streets.edges}
    say(", ".join(count_nouns(count, thing) for thing, count in things.items()))
    spark = start_spark("berlinmod generate", master, conf)
    started = time.perf_counter()
    with replacing(out, overwrite, "manifest.json"):
        made = generator.generate(spark, plan, streets, out, weights)
    show(_summarise(made) | {"seconds": round(time.perf_counter() - started, 1)}, as_json=as_json, title=str(out))


def _summarise(manifest: Any) -> dict[str, Any]:
    """Return the figures of table 5 for a data set."""
    vehicles, trips = max(1, manifest.vehicles), max(1, manifest.trips)
    return {
        "vehicles": manifest.vehicles,
        "trips": manifest.trips,
        "units": manifest.units,
        "trips_per_vehicle": round(trips / vehicles, 2),
        "units_per_vehicle": round(manifest.units / vehicles, 1),
        "km_per_vehicle": round(manifest.metres / vehicles / 1000, 2),
        "mean_trip_metres": round(manifest.metres / trips, 1),
        "nodes": manifest.nodes,
        "edges": manifest.edges,
        "begin": manifest.begin,
        "end": manifest.end,
    }


@app.command()
def load(
    folder: Annotated[Path, typer.Argument(help="The folder with the CSV files.")],
    out: Out,
    format_: Format = "published",
    metres: Metres = False,
    max_rejects: MaxRejects = 1.0,
    overwrite: Overwrite = False,
    master: Master = LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Load a data set from CSV files; rows that cannot be used go to OUT/rejects with the reason.

    Example: `slipstream berlinmod load csv --format mobilitydb --out data/loaded`
    """
    if not overwrite:
        check_new(out, hint=HINT)
    check_files(folder, format_)
    from slipstream._berlinmod.exchange import load as exchange

    files = exchange.ForeignFiles.open(folder, format_, metres=metres)
    with replacing(out, overwrite, "manifest.json"):
        made = exchange.load(start_spark("berlinmod load", master, conf), files, out)
    show(_summarise(made.manifest) | {"rejected": made.rejected}, as_json=as_json, title=str(out))
    check_rejects(made.rejected, made.rows, max_rejects, out / "rejects")


@app.command()
def export(
    data: Data,
    out: Out,
    format_: Format = "published",
    srid: Annotated[
        int | None,
        typer.Option(
            "--srid", metavar="N", help="The SRID to write into geometries (mobilitydb); coordinates are not converted."
        ),
    ] = None,
    overwrite: Overwrite = False,
    master: Master = LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Write a data set as CSV files that other systems read.

    Geometries have an SRID only if the reference system of the data set is known: from streets in degrees, or from
    files with an SRID. `--srid` sets another.

    Example: `slipstream berlinmod export data/small --format mobilitydb --out csv`
    """
    if not overwrite:
        check_new(out, hint=HINT)
    check_data_set(data)
    from slipstream._berlinmod.dataset import Dataset
    from slipstream._berlinmod.exchange import export as outgoing

    outgoing.check_format(format_, srid)
    opened = Dataset.open(data)
    with replacing(out, overwrite, "*.csv", "*/*.csv"):
        files = outgoing.export(start_spark("berlinmod export", master, conf), opened, format_, out, srid)
    show({"out": str(out), "files": ", ".join(files)}, as_json=as_json)


@app.command()
def index(data: Data, master: Master = LOCAL, conf: Conf = None, as_json: Json = False) -> None:
    """Build the index structures that the queries use: pieces by place, and a grid over space and time.

    Example: `slipstream berlinmod index data/small`
    """
    check_data_set(data)
    from slipstream._berlinmod import index as structures
    from slipstream._berlinmod.dataset import Dataset

    opened = Dataset.open(data)
    spark = start_spark("berlinmod index", master, conf)
    started = time.perf_counter()
    built = structures.build(spark, opened)
    show({**built, "seconds": round(time.perf_counter() - started, 1)}, as_json=as_json, title=f"{data}/index")


@app.command()
def run(
    data: Data,
    numbers: Annotated[
        str, typer.Option("--only", metavar="QUERIES", help="Only these queries, such as 1-5,17.")
    ] = "1-17",
    as_: As = "both",
    out: Annotated[
        Path | None, typer.Option("--out", help="The folder for the answers. [default: DATA/answers]")
    ] = None,
    master: Master = LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Run queries: answers as Parquet, response times and result sizes as in the paper's table 6.

    Example: `slipstream berlinmod run data/small --only 1-5,17 --as tba`
    """
    from slipstream._berlinmod import queries
    from slipstream._berlinmod.dataset import Dataset

    wanted, forms = queries.parse_numbers(numbers), queries.parse_representations(as_)
    opened = Dataset.open(data)
    if out is not None:
        check_folder(out)
    check_data_set(data)
    spark = start_spark("berlinmod run", master, conf, quick=opened.manifest.units < queries.SMALL)
    queries.prepare(spark, opened)
    answers = []
    with bar("queries", len(wanted) * len(forms)) as advance:
        for form in forms:
            for number in wanted:
                answers.append(queries.run(spark, number, form, out or data / "answers"))
                advance(1)
    if as_json:
        print(json.dumps([asdict(answer) for answer in answers]))
    else:
        print_table(_make_table6(answers, wanted, list(forms)))


def _make_table6(answers: list[Any], wanted: list[int], forms: list[str]) -> Table:
    found = {(answer.query, answer.representation): answer for answer in answers}
    table = Table(title="Response time (s) and result size", title_justify="left")
    for head in ("query", *(f"{form.upper()} s" for form in forms), *(f"{form.upper()} rows" for form in forms)):
        table.add_column(head, justify="right")
    for number in wanted:
        row = [found[number, form] for form in forms]
        table.add_row(f"Q{number}", *(f"{a.seconds:.2f}" for a in row), *(f"{a.rows:,}" for a in row))
    totals = [sum(a.seconds for a in answers if a.representation == form) for form in forms]
    table.add_row("total", *(f"{total:.2f}" for total in totals), *("" for _ in forms))
    return table


@app.command()
def explain(
    data: Data,
    query: Annotated[int, typer.Option("--query", help="Which query, 1 to 17.")],
    as_: As = "tba",
    master: Master = LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Show a query's text and Spark's plan for it: tables in memory, or the partitions of the index that it prunes.

    Example: `slipstream berlinmod explain data/small --query 4`
    """
    from slipstream._berlinmod import queries
    from slipstream._berlinmod.dataset import Dataset

    (number,), forms = queries.parse_numbers(str(query)), queries.parse_representations(as_)
    opened = Dataset.open(data)
    check_data_set(data)
    spark = start_spark("berlinmod explain", master, conf)
    queries.prepare(spark, opened)
    plans = [(form, queries.query_text(number, form), queries.explain(spark, number, form)) for form in forms]
    if as_json:
        print(json.dumps([dict(zip(("representation", "sql", "plan"), each, strict=True)) for each in plans]))
        return
    for _, text, found in plans:
        print(f"{text}\n{found}")


@app.command()
def draw(
    data: Data,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The picture: .png, .svg or .pdf.")] = Path(
        "berlinmod.png"
    ),
    query: Annotated[
        int | None, typer.Option("--query", help="Also draw this query's points, regions and answers.")
    ] = None,
    trips: Annotated[int, typer.Option("--trips", help="How many trips to draw.")] = 200,
    master: Master = LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Draw the network, trips, query points and regions, and the answers of a query.

    Example: `slipstream berlinmod draw data/small --query 4 --out query4.png`
    """
    check_writable(out, "--out")
    from slipstream._berlinmod import draw as pictures
    from slipstream._berlinmod import queries
    from slipstream._berlinmod.dataset import Dataset

    if query is not None:
        queries.parse_numbers(str(query))
    if trips < 0:
        raise BadArgument(f"--trips {trips}: below 0.", hint="0 draws none.", code="out-of-range", found=trips)
    pictures.check_picture(out)
    opened = Dataset.open(data)
    check_data_set(data)
    spark = start_spark("berlinmod draw", master, conf)
    queries.prepare(spark, opened)
    pictures.picture(spark, opened, query=query, trips=trips).savefig(out, dpi=130)
    if as_json:
        print(json.dumps({"out": str(out)}))
    else:
        say(f"Picture: {out}")
