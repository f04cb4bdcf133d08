"""Filling a cuboid from a stream, as a network: a keep box, and a query box per continuous query.

    stream --> keep --> query members --> OUT/outputs/members
                    --> query rising  --> OUT/outputs/rising
                    --> rejects       --> OUT/outputs/rejects

``slipstream cuboid run`` builds this network from a script of declarations; it runs like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from slipstream._cuboid import consistency, declare
from slipstream._cuboid.cuboid_feeds import list_source_columns
from slipstream._cuboid.declare import Script
from slipstream._cuboid.query.sql import Query
from slipstream._cuboid.schema import AST, Schema
from slipstream._cuboid.snapshots import snapshot_files
from slipstream._cuboid.snapshots.snapshot import Snapshot
from slipstream._errors import BadArgument
from slipstream._feeds.run import Run
from slipstream._feeds.tuples import FIELDS, POSITION
from slipstream._io import outputs
from slipstream._io.formats.decoding import TYPES
from slipstream._io.named_feeds import Feed
from slipstream._io.outputs import CHECKPOINT, COMPACT_EVERY, JOURNAL, REJECTS
from slipstream._network.algebra import Builder, Network
from slipstream._network.boxes.cuboids import CuboidQuery, Keep
from slipstream._network.running.driving import drive
from slipstream._network.running.run_folder import FILE, KIND, STATE_VERSION, Execution
from slipstream._network.schemas import check
from slipstream._runtime import job
from slipstream._spark.session import RESUMES
from slipstream._tools.files.remote_paths import remove_tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: the tuples of a run in one train
TRAIN = 50_000


def find_cuboid(script: Script) -> tuple[str, Schema]:
    """Return the one cuboid that a script declares."""
    if len(script.cuboids) != 1:
        raise BadArgument(
            f"--schema declares {len(script.cuboids)} cuboids; a stream fills one.",
            hint="CREATE CUBOID stock (stock_id INT KEY, price AST(10))",
            code="bad-expression",
        )
    if script.selects:
        raise BadArgument(
            "A continuous query needs a name.", hint="CREATE QUERY name AS SELECT ...", code="missing-value"
        )
    return next(iter(script.cuboids.items()))


def build_network(script: Script, ranges: tuple[int, ...] = ()) -> Network:
    """Return the network that fills the cuboid of a script; with ``ranges``, partitions are ranges of its key.

    >>> net = build_network(declare.parse("CREATE CUBOID s (id INT KEY, x AST(3)); CREATE QUERY q AS SELECT id FROM s"))
    >>> [node.name for node in net.nodes], [output.name for output in net.outputs]
    (['s', 'q'], ['q'])
    """
    name, schema = find_cuboid(script)
    _check_queries(script)
    if list(ranges) != sorted(set(ranges)):
        raise BadArgument(
            f"--ranges {ranges}: not in increasing order.",
            hint="Give the first key of each range.",
            code="out-of-range",
            found=ranges,
        )
    builder = Builder(name)
    box = _find_unused(name, script.queries)
    source = builder.source(_find_unused("stream", [*script.queries, box]), **list_source_columns(schema))
    kept = source.through(Keep(declare.format_declarations(name, schema, script.patterns), ranges), name=box)
    for label, text in script.queries.items():
        kept.through(CuboidQuery(text.strip()), name=label).to(label)
    network = builder.build()
    check(network, None)
    return network


def _check_queries(script: Script) -> None:
    for label, text in script.queries.items():
        Query.parse(text, script.cuboids, script.patterns).check_continuous(label)
    if REJECTS in script.queries:
        raise BadArgument(f"A query cannot be named {REJECTS}.", hint="Choose another name.", code="bad-name")


def _find_unused(name: str, names: Mapping[str, Any] | list[str]) -> str:
    return _find_unused(f"{name}_", names) if name in names else name


def _keep_of(network: Network) -> Keep:
    (keep,) = [node.box for node in network.nodes if isinstance(node.box, Keep)]
    return keep


def open_existing(out: Path, network: Network) -> Execution | None:
    """Return the execution in a folder, or None if it is new; refuse a folder with something else."""
    snapshot = out / snapshot_files.FOLDER
    if (snapshot / snapshot_files.FILE).exists() and snapshot_files.Catalogue.read(snapshot).cuboids != _keep_of(
        network
    ).published():
        raise BadArgument(
            f"--out {out}: has another cuboid.",
            hint="Give another folder, or the schema it was started with.",
            code="different-job",
        )
    if _is_unfinished(out):
        remove_tree(out)
    if job.check(out, KIND, STATE_VERSION, {}) is None:
        return None
    found = Execution.open(out)
    if found.network != network:
        raise BadArgument(
            f"--out {out}: was started with other queries, patterns or ranges.",
            hint="Give another folder, or the original ones.",
            code="different-job",
        )
    return found


def _is_unfinished(out: Path) -> bool:
    """Whether an earlier start was killed while it created the folder."""
    laid_out = any((out / name).exists() for name in (FILE, CHECKPOINT, JOURNAL))
    return (out / job.FILE).exists() and not laid_out and job.JobFile.read(out).kind == KIND


def is_run(where: str) -> bool:
    """Whether a source is a simulated run."""
    return (Path(where) / "manifest.json").is_file()


def read_run(where: str, schema: Schema, columns: Mapping[str, str]) -> pa.Table:
    """Return the tuples of a run for a cuboid: its position reports, or all if the cuboid has their ``type``."""
    wanted = list_source_columns(schema)
    fields = {name: columns.get(name, name) for name in wanted}
    for name, field in fields.items():
        if field not in FIELDS:
            raise BadArgument(
                f"{where}: no column '{field}'; it has: {', '.join(FIELDS)}.",
                hint=f"Map one of them: --columns {name}=FIELD.",
                code="unknown-column",
                expected=[*FIELDS],
            )
    run = Run.open(where)
    tuples = run.tuples(run.minutes)
    if "type" not in fields.values():
        tuples = tuples.filter(pc.field("type") == POSITION)
    return pa.table({name: tuples[field].cast(TYPES[wanted[name]]) for name, field in fields.items()})


def lay_out(out: Path, network: Network, given: Feed | pa.Table, parallel: int) -> Execution:
    """Set up a new folder to fill a cuboid in, from a feed or from a table."""
    source = network.sources[0].name
    if isinstance(given, Feed):
        return Execution.on_feeds(out, network, {source: given}, parallel=parallel)
    return Execution.record(out, network, {source: given}, train=TRAIN, parallel=parallel)


def fill(
    spark: SparkSession,
    given: Feed | pa.Table,
    network: Network,
    out: Path,
    *,
    fragments: int = 0,
    settings: tuple[tuple[str, str], ...] = (),
    compact_every: int = COMPACT_EVERY,
) -> dict[str, Any]:
    """Fill a cuboid to the end of its source, or until it is stopped; returns a summary.

    A job that was started in the folder resumes. ``settings`` are for the brokers of a topic.
    """
    execution = open_existing(out, network)
    if execution is None:
        ranges = _keep_of(network).ranges
        parts = len(ranges) + 1 if ranges else fragments or spark.sparkContext.defaultParallelism
        execution = lay_out(out, network, given, parts)
    elif isinstance(given, Feed):
        execution.read_from({network.sources[0].name: given})
    execution.kafka = settings
    drive(spark, execution, trains=1, compact_every=compact_every, again=RESUMES)
    return summary(execution)


def summary(execution: Execution) -> dict[str, Any]:
    """Summarise a filled cuboid and what its queries found."""
    snapshot = Snapshot.open(execution.folder)
    found = Counter[str]()
    for line in outputs.read_journal(execution.folder):
        found.update(line.outputs)
    rejected, rows = execution.monitor.rejected()
    cuboid = snapshot[snapshot.names[0]]
    streams = [a for a in cuboid.schema.attributes if isinstance(a, AST)]
    ticks = int(cuboid.scan([streams[0].count])[streams[0].count].sum()) if streams and len(cuboid) else 0
    counts = {"batches": snapshot.batch + 1, "rows": rows, "rejected": rejected, "keys": len(cuboid)}
    names = [output.name for output in execution.network.outputs]
    return {**counts, "elements": ticks, "found": {n: found[n] for n in names if found[n]}, **_rtc(execution.folder)}


def _rtc(out: Path) -> dict[str, Any]:
    measured = consistency.compute_figures(consistency.read_moments(out))
    return {name: measured[name] for name in ("arrival_rate_per_s", "commit_us", "stable") if name in measured}
