"""Options that the network commands share, and functions that read the files and feeds they name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream._cli.common.input_options import Reading
from slipstream._cli.common.user_functions import load_functions
from slipstream._errors import MALFORMED, BadArgument
from slipstream._io.required_inputs import check_given
from slipstream._tools.files.locations import local
from slipstream._tools.progress import say

if TYPE_CHECKING:
    import pyarrow as pa

    from slipstream._io.named_feeds import Feed
    from slipstream._network.algebra import Network
    from slipstream._network.quality.statistics import Statistics
    from slipstream._network.schemas import Checked

File = Annotated[Path, typer.Argument(help="The network file (YAML).", show_default=False)]
Folder = Annotated[Path, typer.Argument(help="The folder in which a network runs.", show_default=False)]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="SOURCE=WHERE",
        help="What a source reads: a CSV file with a header, JSON lines, Parquet, or a run. `network run` also reads "
        "feeds: kafka:HOST:PORT/TOPIC or tcp:HOST:PORT. Once per source.",
    ),
]
Rates = Annotated[
    list[str] | None,
    typer.Option(
        "--rate",
        metavar="N|SOURCE=N",
        help="Tuples per second, of every source or of one. Repeatable.",
    ),
]
To = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        metavar="OUTPUT=WHERE",
        help="Another destination of an output, in addition to its table: kafka:HOST:PORT/TOPIC (JSON; keyed by the "
        "columns that the output is grouped by, or by ?key=COLUMN), text:FILE (CSV) or console (JSON lines). "
        "Repeatable. A job that resumes keeps its destinations.",
    ),
]
Parallel = Annotated[
    int | None,
    typer.Option(
        "--parallel",
        min=1,
        max=1000,
        help="The number of partitions in which boxes run, fixed at the first start. By default 1; one per core for a "
        "long recording, or a topic of several partitions that is read to its end.",
        show_default=False,
    ),
]
Tables = Annotated[
    list[str] | None, typer.Option("--table", metavar="TABLE=FILE", help="The file of a stored table. Repeatable.")
]

#: tuples per second; below this a recording would never end
LEAST_RATE = 0.001

#: tuples of each source that are measured, and seconds that reading them from a feed may take
SAMPLE = 100_000
_SECONDS = 3.0


def parse_pairs(option: str, given: list[str] | None) -> dict[str, str]:
    """Parse NAME=FILE options."""
    found = {}
    for pair in given or []:
        name, separator, path = pair.partition("=")
        if not separator:
            raise BadArgument(
                f"{option} {pair}: not NAME=FILE.", hint=f"Write {option} soldiers=reports.csv.", code="malformed-value"
            )
        found[name] = path
    return found


def parse_rates(given: list[str] | None) -> dict[str, float]:
    """Parse ``--rate``: tuples per second by source; a rate for every source has the empty name.

    >>> parse_rates(["100", "cars=2.5"])
    {'': 100.0, 'cars': 2.5}
    """
    found = {}
    for text in given or []:
        source, _, number = text.rpartition("=")
        try:
            found[source] = float(number)
        except ValueError:
            found[source] = math.nan
        if not LEAST_RATE <= found[source] < math.inf:
            raise BadArgument(
                f"--rate {text}: not a number of tuples per second.",
                hint="Write --rate 1000 or --rate reports=1000.",
                code="malformed-value",
                found=text,
            )
    return found


def assign_rates(network: Network, given: Mapping[str, float]) -> dict[str, float]:
    """Return the rate of every source; none without ``--rate``."""
    sources = [source.name for source in network.sources]
    for name in given:
        if name and name not in sources:
            raise BadArgument(
                f"--rate {name}: no such source.",
                hint=f"Sources: {', '.join(sources)}.",
                code="unknown-name",
                found=name,
                expected=sources,
            )
    if not given:
        return {}
    if missing := [name for name in sources if name not in given and "" not in given]:
        raise BadArgument(
            f"no --rate for {', '.join(missing)}.",
            hint=f"Give --rate {missing[0]}=TUPLES_PER_SECOND.",
            code="missing-value",
        )
    return {name: given.get(name, given.get("", 0.0)) for name in sources}


def parse_destinations(given: list[str] | None) -> dict[str, list[str]]:
    """Parse --to: the destinations of outputs, by name."""
    from slipstream._io.outputs.destinations import parse

    found: dict[str, list[str]] = {}
    for pair in given or []:
        name, separator, where = pair.partition("=")
        if not separator:
            raise BadArgument(
                f"--to {pair}: not OUTPUT=WHERE.",
                hint="Write --to alerts=text:alerts.csv.",
                code="malformed-value",
                found=pair,
            )
        try:
            found.setdefault(name, []).append(parse(where))
        except BadArgument as error:
            raise error.within(f"--to {pair}") from error
    return found


def parse_paths(option: str, given: list[str] | None) -> dict[str, Path]:
    """Parse NAME=FILE options, with paths."""
    return {name: Path(local(path)) for name, path in parse_pairs(option, given).items()}


def is_feed(where: str, *, follow: bool, mapped: bool = False) -> bool:
    """Whether --input names a feed, not a recording.

    A folder of files, and files whose fields are ``mapped``, are read like feeds, to their end.
    """
    if follow or where.startswith(("kafka:", "tcp:")):
        return True
    path = Path(local(where))
    is_run = (path / "manifest.json").exists()
    return not is_run and (mapped or path.is_dir())


def check_inputs(file: Path, given: Mapping[str, str]) -> None:
    """Refuse a missing or misspelt --input at once: importing the modules that read networks takes a second.

    Errors in the file itself are left to them.
    """
    import yaml

    try:
        body = yaml.safe_load(file.read_bytes())
    except (OSError, yaml.YAMLError, *MALFORMED):
        return
    sources = body.get("sources") if isinstance(body, dict) else None
    if isinstance(sources, dict) and all(isinstance(name, str) for name in sources):
        check_given(str(body.get("network", file.stem)), "--input", "source", list(sources), given)


def make_feeds(network: Network, given: Mapping[str, str], reading: Reading) -> dict[str, Feed]:
    """Return the feeds that --input names, one for each source."""
    from slipstream._network.running.source_feeds import open_feeds

    return open_feeds(
        network,
        given,
        reading.columns,
        encoding=reading.format,
        fields=reading.fields,
        follow=reading.follow,
        settings=reading.kafka,
        definition=reading.definition,
    )


def load_network(file: Path, functions: Path | None) -> Network:
    """Load a network file, and check it as far as possible without Spark."""
    from slipstream._network import yaml_files
    from slipstream._network.schemas import check

    load_functions(functions)
    network = yaml_files.load(file)
    check(network, None)
    return network


def read_recordings(network: Network, given: list[str] | None) -> dict[str, pa.Table]:
    """Read the recordings that --input names, for every source."""
    from slipstream._network.running.recordings import read_inputs

    return read_inputs(network, parse_paths("--input", given))


def read_stored_tables(network: Network, given: list[str] | None) -> dict[str, pa.Table]:
    """Read the files that --table names, for every stored table."""
    from slipstream._network.running.recordings import read_tables

    return read_tables(network, parse_paths("--table", given))


def create_frames(spark: Any, tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """Convert tables to DataFrames."""
    return {name: spark.createDataFrame(table) for name, table in tables.items()}


def take_samples(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return the first tuples of every source; print a note if they are few."""
    from slipstream._network.quality.calibration import FEW

    few = min(table.num_rows for table in tables.values())
    if few < FEW:
        say(f"[yellow]note:[/] {few:,} tuples are few to measure costs; give {FEW:,} or more of each source")
    return {name: table.slice(0, SAMPLE) for name, table in tables.items()}


def sample_feeds(found: Mapping[str, Feed], settings: tuple[tuple[str, str], ...]) -> dict[str, pa.Table]:
    """Return the first tuples of the feeds, to measure boxes; if a feed is empty, print a note and return nothing."""
    from slipstream._io.sampling import sample

    tables = {name: sample(feed.with_settings(settings), SAMPLE, _SECONDS) for name, feed in found.items()}
    empty = [name for name, table in tables.items() if not table.num_rows]
    if empty:
        say(
            f"[yellow]note:[/] --optimise: {', '.join(empty)} has no tuples yet to measure; "
            "the network runs as it is written"
        )
        return {}
    counts = ", ".join(f"{table.num_rows:,} of {name}" for name, table in tables.items())
    most = f"at most {SAMPLE:,}, or {_SECONDS:g} s of reading"
    say(f"--optimise: measuring the tuples available now: {counts} ({most})")
    return tables


def measure_costs(
    spark: Any, checked: Checked, inputs: Mapping[str, pa.Table], tables: Mapping[str, pa.Table]
) -> Statistics:
    """Measure the cost of every box on a sample, and of reading and carrying."""
    from slipstream._network.quality.calibration import calibrate

    return calibrate(spark, checked, take_samples(inputs), create_frames(spark, tables))


def measure_again(
    spark: Any,
    checked: Checked,
    inputs: Mapping[str, pa.Table],
    tables: Mapping[str, pa.Table],
    known: Statistics,
) -> Statistics:
    """Measure the boxes of another form of a network; what a run adds to their costs is the same for both."""
    from slipstream._network.quality.calibration import number_tuples
    from slipstream._network.quality.statistics import measure

    numbers = {name: number_tuples(table) for name, table in take_samples(inputs).items()}
    found = measure(spark, checked, create_frames(spark, numbers), create_frames(spark, tables))
    return replace(found.scaled(known.scale), carrying=known.carrying, reading=known.reading)
