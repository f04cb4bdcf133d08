"""``slipstream cuboid``: fill cuboids from streams, look keys up, run queries, follow results, measure the cost."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from slipstream._cli.common.checks import check_new, check_writable
from slipstream._cli.common.command_style import Family
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
from slipstream._cli.common.overwriting import HINT, Afresh, Overwrite, clear_job, replacing
from slipstream._cli.common.printed_tables import format_cell, print_table
from slipstream._cli.common.toll_jobs import CompactEvery
from slipstream._cli.common.user_functions import Functions, load_functions
from slipstream._errors import BadArgument, Unavailable, classify
from slipstream._spark import session

if TYPE_CHECKING:
    import pyarrow as pa

    from slipstream._cuboid.declare import Script
    from slipstream._io.named_feeds import Feed

app = Family(
    help="Cuboids: the state of a stream as a database that you can query while it runs.",
    epilog="Start with: slipstream cuboid ticks --out ticks",
    no_args_is_help=True,
)

#: bytes of input below which starting Spark takes most of the time
SMALL = 8 << 20

Folder = Annotated[Path, typer.Argument(help="The --out folder of `cuboid run` or `toll --snapshot`.")]


def _read_text(given: str) -> str:
    """Return the given text, or the contents of the file of that name."""
    if len(given) < 250 and "\n" not in given and Path(given).is_file():
        return Path(given).read_text(encoding="utf-8")
    if given and not any(map(str.isspace, given)):
        raise BadArgument(
            f"{given}: no such file.",
            hint="Give a file with SQL in it, or the SQL itself in quotes.",
            code="no-such-file",
        )
    return given


@app.command()
def ticks(
    out: Annotated[Path, typer.Option("--out", help="The folder for the CSV files: time, stock_id, price.")],
    number: Annotated[int, typer.Option("--ticks", min=1, help="Ticks per stock; there are seven stocks.")] = 10_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same prices.")] = 1,
    files: Annotated[int, typer.Option(min=1, help="The number of files to write; a job reads one per batch.")] = 4,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Generate sample data: stock-like series, seven random walks in which a W pattern occurs now and then.

    Example: `slipstream cuboid ticks --ticks 5000 --out ticks`
    """
    if not overwrite:
        check_new(out, hint=HINT)
    from slipstream._cuboid.example_series import STOCKS, write

    with replacing(out, overwrite, "*.csv"):
        write(out, number, seed, files)
    show({"out": str(out), "ticks": number * STOCKS, "files": files}, as_json=as_json, title="Ticks")


@app.command()
def run(
    source: Annotated[
        str,
        typer.Option(
            "--input", metavar="WHERE", help="A run, a file, a folder of files, kafka:HOST:PORT/TOPIC or tcp:HOST:PORT."
        ),
    ],
    schema: Annotated[
        str,
        typer.Option(
            "--schema", metavar="FILE|TEXT", help="CREATE CUBOID, PATTERN and QUERY: a file, or the text itself."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder for the snapshot, results, rejects and checkpoint.")],
    follow: Follow = False,
    format_: Format = "",
    columns: Columns = None,
    fields: Fields = "",
    kafka_config: KafkaConfig = None,
    message_schema: MessageSchema = None,
    schema_registry: SchemaRegistry = "",
    pseudonyms: Pseudonyms = None,
    pseudonym_columns: PseudonymColumns = None,  # noqa: ARG001  (its callback)
    fragments: Annotated[
        int,
        typer.Option(
            "--parallel", "--fragments", min=0, help="The number of fragments, by hash of the key; 0 for one per core."
        ),
    ] = 0,
    ranges: Annotated[
        str,
        typer.Option(
            metavar="KEY,...", help="Divide the keys by ranges instead: the first key of every fragment but the first."
        ),
    ] = "",
    batch_files: Annotated[int, typer.Option(min=1, help="Files of a folder in one batch.")] = 1,
    compact_every: CompactEvery = 500,
    max_rejects: MaxRejects = 1.0,
    metrics: Metrics = "",  # noqa: ARG001  (its callback)
    overwrite: Afresh = False,
    functions: Functions = None,
    master: Master = session.LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Fill a cuboid from a stream, and evaluate its continuous queries at every arrival.

    The schema declares the cuboid, patterns, and named queries. The results of a query are an output of its name; rows
    that cannot be kept go to the output rejects, with the reason. After a crash the same command resumes.

    Examples:

    `slipstream cuboid run --input ticks --schema stocks.sql --out stocks`

    `slipstream cuboid run --input kafka:127.0.0.1:9092/ticks --follow --columns stock_id=id --schema stocks.sql --out
    stocks` # a live topic of JSON

    In stocks.sql: `CREATE CUBOID stock (stock_id INT KEY, price AST(10))`
    """
    from slipstream._cuboid import declare
    from slipstream._network.running import filling

    load_functions(functions)
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
    script = declare.parse(_read_text(schema))
    given = _open_source(source, script, reading, batch_files)
    network = filling.build_network(script, _parse_bounds(ranges))
    clear_job(out, overwrite)
    filling.open_existing(out, network)
    small = not filling.is_run(source) and not follow and _count_bytes(source) < SMALL
    spark = start_spark("cuboid run", master, conf, quick=small)
    result = filling.fill(
        spark, given, network, out, fragments=fragments, settings=reading.kafka, compact_every=compact_every
    )
    found = result.pop("found")
    show(result | {f"found_by_{name}": rows for name, rows in found.items()}, as_json=as_json, title=f"Filled {out}")
    check_rejects(result["rejected"], result["rows"], max_rejects, f"{out} (output rejects)")


def _open_source(source: str, script: Script, reading: Reading, batch_files: int) -> Feed | pa.Table:
    """Open what fills the cuboid: a run is read whole, anything else as a feed."""
    from slipstream._cuboid.cuboid_feeds import list_source_columns, make_cuboid_feed
    from slipstream._io.formats import pseudonyms
    from slipstream._io.formats.decoding import parse_columns
    from slipstream._io.sampling import warn_of_empty_columns
    from slipstream._network.running import filling

    _, cuboid = filling.find_cuboid(script)
    columns = parse_columns(reading.columns, "", list_source_columns(cuboid), strict=True)
    if filling.is_run(source):
        pseudonyms.refuse(
            source, "is a run, whose vehicles are numbers", "Leave them out: simulated cars are nobody's."
        )
        return filling.read_run(source, cuboid, columns)
    feed = make_cuboid_feed(
        source,
        cuboid,
        encoding=reading.format,
        columns=columns,
        fields=reading.fields,
        follow=reading.follow,
        settings=reading.kafka,
        definition=reading.definition,
    )
    warn_of_empty_columns(feed)
    return replace(feed, most_files=batch_files)


def _parse_bounds(ranges: str) -> tuple[int, ...]:
    try:
        return tuple(int(bound) for bound in ranges.split(",") if bound)
    except ValueError as error:
        raise BadArgument(
            f"--ranges {ranges}: not numbers.", hint="Write --ranges 1000,2000.", code="malformed-value", found=ranges
        ) from error


def _count_bytes(source: str) -> int:
    """Return the size of the files that exist now."""
    path = Path(source)
    inside = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in inside if file.is_file())


@app.command()
def get(
    folder: Folder,
    reference: Annotated[
        str,
        typer.Argument(help="A cuboid's name, or a full reference: 'CAR[100].speed[0]', [-5], [:]; \"CAR['WVW123']\"."),
    ],
    key: Annotated[str | None, typer.Argument(help="The key, if REFERENCE is a cuboid's name.")] = None,
    as_json: Json = False,  # noqa: ARG001  (the result is JSON anyway)
) -> None:
    """Look up a key as of the last committed batch, as JSON: all of it, the past of an attribute, or one element.

    Examples:

    `slipstream cuboid get tolls car 100`

    `slipstream cuboid get tolls 'CAR[100].speed[-5]'`

    `slipstream cuboid get fleet car WVW123`
    """
    from slipstream._cuboid.query.access import Reference
    from slipstream._cuboid.snapshots.snapshot import Snapshot

    wanted = Reference.parse(reference) if key is None else Reference(reference, key)
    cuboid = Snapshot.open(folder)[wanted.cuboid]
    print(json.dumps(_to_plain(wanted.of(cuboid[wanted.key]))))


@app.command()
def query(
    folder: Folder,
    text: Annotated[
        str,
        typer.Argument(
            help="SELECT ... FROM cuboid ..., with any CREATE PATTERN before it, or a file that contains it."
        ),
    ],
    every: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Query again after each new batch, polling at this interval; 0 to query once.",
            min=0,
        ),
    ] = 0.0,
    on_spark: Annotated[bool, typer.Option("--spark", help="Run the query on Spark, a task per fragment.")] = False,
    functions: Functions = None,
    master: Master = session.LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Run a query in Streamonas-SQL; the result is as of the last committed batch, in all fragments.

    Examples:

    `slipstream cuboid query tolls "SELECT xway, count(*), avg(speed[0]) FROM car GROUP BY xway"`

    `slipstream cuboid query tolls "SELECT vid, slope(speed) FROM car WHERE speed[0] < 20 LIMIT 5"`
    """
    from slipstream._cuboid.query.one_off import parse_query, run_query, run_query_in_spark
    from slipstream._cuboid.snapshots.snapshot import Snapshot

    load_functions(functions)
    snapshot = Snapshot.open(folder)
    parse_query(snapshot, _read_text(text))
    spark = start_spark("cuboid query", master, conf) if on_spark else None
    while True:
        answer = (
            run_query_in_spark(spark, snapshot, _read_text(text))
            if spark is not None
            else run_query(snapshot, _read_text(text))
        )
        _print_rows({name: column.tolist() for name, column in answer.items()}, snapshot.batch, as_json)
        if not every:
            return
        while snapshot.committed() <= snapshot.batch:
            time.sleep(every)
        snapshot.refresh()


@app.command()
def results(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="The continuous query; or rejects, the rows that could not be kept.")],
    follow: Annotated[bool, typer.Option("--follow", help="Keep printing new results.")] = False,
    as_json: Json = False,  # noqa: ARG001  (the result is JSON anyway)
) -> None:
    """Print the results of a continuous query as JSON lines, from committed batches only.

    Example: `slipstream cuboid results stocks members --follow`
    """
    from slipstream._cuboid.snapshots.snapshot import Snapshot

    snapshot, since = Snapshot.open(folder, refresh=False), -1
    while True:
        snapshot.batch = snapshot.committed()
        for row in snapshot.results(name, since).to_pylist():
            print(json.dumps(_to_plain(row)), flush=True)
        since = snapshot.batch
        if not follow:
            return
        time.sleep(0.5)


@app.command()
def metrics(
    folder: Folder,
    png: Annotated[
        Path | None, typer.Option("--png", metavar="FILE", help="Also draw the QoS map into this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the cost of real-time consistency: arrival rate, commit time, time per query, remaining capacity.

    Example: `slipstream cuboid metrics tolls --png qos.png`
    """
    from slipstream._cuboid import consistency

    check_writable(png, "--png")
    found = consistency.read_moments(folder)
    if not found:
        raise Unavailable(
            f"{folder}: no batch has been measured yet.", hint="Try again when one is committed.", code="not-ready"
        )
    measured = consistency.compute_figures(found)
    if png is not None:
        try:
            consistency.plot_qos_map(found).savefig(png, format="png")
        except OSError as error:
            raise Unavailable(
                f"--png {png}: {error.strerror}.", hint="Give a file that can be written.", code=classify(error)
            ) from error
    if not as_json:
        measured |= {f"query_{name}_us": value for name, value in measured.pop("query_us").items()}
    show(measured, as_json=as_json, title=f"Real-time consistency of {folder}")


def _to_plain(value: Any) -> Any:
    """Replace NaN, which JSON does not have, by null."""
    if isinstance(value, dict):
        return {name: _to_plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_to_plain(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _print_rows(columns: dict[str, list[Any]], batch: int, as_json: bool) -> None:
    if as_json:
        rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        print(json.dumps({"batch": batch, "rows": _to_plain(rows)}), flush=True)
        return
    table = Table(*map(escape, columns), title=f"as of batch {batch}")
    for values in zip(*columns.values(), strict=True):
        table.add_row(*(escape(format_cell(value)) for value in values))
    print_table(table, nothing="no rows")


def add_to(parent: typer.Typer) -> None:
    """Put the family on the command line."""
    parent.add_typer(app, name="cuboid")
