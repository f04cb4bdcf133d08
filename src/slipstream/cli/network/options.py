"""What the network commands share: their arguments, and the reading of what those name."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slipstream.errors import BadArgument
from slipstream.progress import say

if TYPE_CHECKING:
    import pyarrow as pa

    from slipstream.squal.algebra import Network
    from slipstream.squal.schemas import Checked
    from slipstream.squal.statistics import Statistics

File = Annotated[Path, typer.Argument(help="The network file (YAML).", show_default=False)]
Folder = Annotated[Path, typer.Argument(help="The folder in which a network runs.", show_default=False)]
Functions = Annotated[
    Path | None,
    typer.Option("--functions", help="A Python file that registers the network's own functions. It is executed."),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", help="SOURCE=FILE: CSV with a header, JSON lines, Parquet, or a run. Once a source."),
]
Tables = Annotated[list[str] | None, typer.Option("--table", help="TABLE=FILE for a stored table.")]

#: tuples of each source that are looked at to measure the boxes, and how few make a rough guess
SAMPLE, FEW = 100_000, 20_000


def pairs(option: str, given: list[str] | None) -> dict[str, Path]:
    """NAME=FILE options."""
    found = {}
    for pair in given or []:
        name, separator, path = pair.partition("=")
        if not separator:
            raise BadArgument(f"{option} {pair}: not NAME=FILE.", hint=f"Write {option} soldiers=reports.csv.")
        found[name] = Path(path)
    return found


def register(functions: Path | None) -> None:
    """Run the user's own file; only when the command line names it."""
    if functions is None:
        return
    from pyspark import cloudpickle

    if not functions.is_file():
        raise BadArgument(f"--functions {functions}: no such file.", hint="Give a Python file.")
    spec = importlib.util.spec_from_file_location(functions.stem, functions)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[functions.stem] = module
    spec.loader.exec_module(module)
    # workers cannot import the file, so its functions travel whole
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def stored_tables(spark: Any, network: Network, given: list[str] | None) -> dict[str, Any]:
    """The network's stored tables."""
    from slipstream.squal.inputs import read_table

    paths, frames = pairs("--table", given), {}
    for table in network.tables:
        if table.name not in paths:
            raise BadArgument(f"no data for the table {table.name}.", hint=f"Give --table {table.name}=FILE.")
        frames[table.name] = spark.createDataFrame(read_table(paths[table.name], table.schema))
    return frames


def samples(network: Network, given: list[str] | None) -> dict[str, pa.Table]:
    """The first tuples of every source."""
    from slipstream.squal.inputs import read_table

    paths, found = pairs("--input", given), {}
    for source in network.sources:
        if source.name not in paths:
            raise BadArgument(f"no sample for the source {source.name}.", hint=f"Give --input {source.name}=FILE.")
        found[source.name] = read_table(paths[source.name], source.schema).slice(0, SAMPLE)
    few = min(table.num_rows for table in found.values())
    if few < FEW:
        say(f"[yellow]note:[/] {few:,} tuples are few to measure costs by; give {FEW:,} or more of each source")
    return found


def measured(spark: Any, checked: Checked, inputs: list[str] | None, tables: list[str] | None) -> Statistics:
    """The cost of every box on a sample, and of reading and carrying."""
    from slipstream.squal.rehearsal import rehearse

    return rehearse(spark, checked, samples(checked.network, inputs), stored_tables(spark, checked.network, tables))


def measured_again(
    spark: Any, checked: Checked, inputs: list[str] | None, tables: list[str] | None, known: Statistics
) -> Statistics:
    """The boxes of another form of a network; what reading and carrying cost is known and the same for both."""
    from slipstream.squal.rehearsal import numbered
    from slipstream.squal.statistics import measure

    frames = {name: spark.createDataFrame(numbered(table)) for name, table in samples(checked.network, inputs).items()}
    found = measure(spark, checked, frames, stored_tables(spark, checked.network, tables))
    return replace(found, carrying=known.carrying, reading=known.reading)
