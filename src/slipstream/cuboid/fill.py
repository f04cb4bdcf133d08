"""Run a feed into a cuboid: `slipstream cuboid run`.

It is a job (``runtime.job``): the cuboid is in its snapshot, results of continuous queries are outputs of their names,
and rows that could not be kept are the output ``rejects``, with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slipstream.cuboid import files, rtc, stream
from slipstream.cuboid.declare import Script
from slipstream.cuboid.keeper import no_rows
from slipstream.cuboid.schema import AST, Schema
from slipstream.cuboid.snapshot import Snapshot
from slipstream.cuboid.sql import Query
from slipstream.errors import BadArgument
from slipstream.io import outputs
from slipstream.io.outputs import CHECKPOINT, COMPACT_EVERY, JOURNAL, REJECTS, Outputs, Written
from slipstream.io.sources import Feed, has_ended, is_open, places_of
from slipstream.runtime import job
from slipstream.session import keeping_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

#: how ``job.json`` calls it, and the version of the bytes in its state store
KIND, STATE_VERSION = "cuboid", 3
#: empty batches before a feed is connected: by then Spark has the query planned and compiled
REHEARSALS = 5


@dataclass(frozen=True)
class Filling:
    """How to run."""

    follow: bool = False
    fragments: int = 0
    bounds: tuple[int, ...] = ()
    compact_every: int = COMPACT_EVERY  # batches between two compactions of the tables; 0 for never
    watch: Callable[[int], None] = lambda _: None  # called with the batch after every commit


def declared(script: Script) -> tuple[str, Schema]:
    """The one cuboid that a script declares."""
    if len(script.cuboids) != 1:
        raise BadArgument(
            f"--schema declares {len(script.cuboids)} cuboids; a stream fills one.",
            hint="CREATE CUBOID stock (stock_id INT KEY, price AST(10))",
        )
    if script.selects:
        raise BadArgument("A continuous query has a name.", hint="CREATE QUERY name AS SELECT ...")
    return next(iter(script.cuboids.items()))


def check_start(script: Script, out: Path, how: Filling) -> dict[str, Query]:
    """Refuse what cannot be started, without Spark; the continuous queries, ready to be asked."""
    name, schema = declared(script)
    queries = {label: Query.parse(text, {name: schema}, script.patterns) for label, text in script.queries.items()}
    for label, query in queries.items():
        query.check_continuous(label)
    if REJECTS in queries:
        raise BadArgument(f"A query cannot be named {REJECTS}.", hint="Choose another name.")
    _schemas(queries)
    stream.check_bounds(how.bounds)
    snapshot = out / files.FOLDER
    if (snapshot / files.FILE).exists() and files.Catalogue.read(snapshot).cuboids != {name: schema}:
        raise BadArgument(
            f"--out {out}: holds another cuboid.", hint="Give another folder, or the schema it was begun with."
        )
    job.check(out, KIND, STATE_VERSION, {})
    return queries


def _schemas(queries: dict[str, Query]) -> dict[str, pa.Schema]:
    """The columns of the outputs."""
    schemas = {name: no_rows(query).schema for name, query in queries.items()} | {REJECTS: stream.REJECT_SCHEMA}
    for schema in schemas.values():
        outputs.stored(schema)
    return schemas


def start(spark: SparkSession, source: DataFrame | Feed, script: Script, out: Path, how: Filling) -> StreamingQuery:
    """Start filling a cuboid from a streaming DataFrame or a feed; what was begun in the folder resumes."""
    name, schema = declared(script)
    queries = check_start(script, out, how)
    cores = spark.sparkContext.defaultParallelism
    begun = job.begin(
        out,
        KIND,
        STATE_VERSION,
        {},
        lambda: asdict(stream.Fragmentation.new(how.fragments or cores, how.bounds)),
    )
    fragmentation = stream.Fragmentation(*(tuple(begun.layout[part]) for part in ("labels", "bounds")))
    files.Catalogue({name: schema}, script.patterns, journal=f"../{JOURNAL}").write(out / files.FOLDER)
    committed = Outputs(out, begun.id, _schemas(queries))
    made = stream.CuboidStream(name, schema, queries, str(out.absolute()))
    if isinstance(source, Feed):
        found = made.over_feed(_opened(spark, source, out), fragmentation)
    else:
        found = made.over(source, fragmentation)
    writer = found.writeStream.foreachBatch(partial(_commit, committed, how.watch)).outputMode("append")
    writer = writer.option("checkpointLocation", str(out / CHECKPOINT))
    with keeping_state(spark, len(fragmentation.labels)):
        return (writer if how.follow else writer.trigger(availableNow=True)).start()


def _commit(committed: Outputs, watch: Callable[[int], None], batch: DataFrame, number: int) -> None:
    """Do the batch and commit what its tasks wrote: only then is the cuboid of this batch visible, too."""
    written = [Written.of(row) for row in batch.collect()]
    kept = sum(one.note["kept"] for one in written if not one.output)
    rejected = sum(one.rows for one in written if one.output == REJECTS)
    if committed.commit(number, written, tuples=kept, rejects=rejected) and (kept or rejected):
        job.control(committed.folder).step_done()
    watch(number)


def _opened(spark: SparkSession, feed: Feed, out: Path) -> DataFrame:
    control = str((out / job.CONTROL).absolute())
    return feed.open(spark, out / CHECKPOINT, openings=_openings(feed), alone=True, control=control)


def _openings(feed: Feed) -> int:
    return REHEARSALS if feed.has_no_end else 0


class _Filling(job.Life):
    """A feed: what is there, or all that comes."""

    def __init__(self, feed: Feed, cuboid: str, out: Path) -> None:
        self._feed, self._out = feed, out
        self.source, self.doing = feed.where, f"filling {cuboid}"

    def is_warm(self, query: StreamingQuery) -> bool:
        """Whether a feed that will go on is past its openings."""
        places = places_of(query)
        return not _openings(self._feed) or bool(places and is_open(REHEARSALS)(places[0]))

    def connect(self, query: StreamingQuery) -> None:
        """Let it come."""
        places = places_of(query)
        if not (places and has_ended(places[0])):
            self._feed.connect(self._out / CHECKPOINT)

    def has_ended(self, query: StreamingQuery) -> bool:
        """Whether a feed that goes on has said that it is over; any other ends the query."""
        places = places_of(query) if self._feed.has_no_end else []
        return bool(places and has_ended(places[0]))


def fill(spark: SparkSession, feed: Feed, script: Script, out: Path, how: Filling) -> dict[str, Any]:
    """Fill a cuboid from a feed to its end, or for as long as it is let run; returns what there is then."""
    name, _ = declared(script)
    check_start(script, out, how)
    job.run(
        out,
        _Filling(feed, name, out),
        lambda: start(spark, feed, script, out, replace(how, follow=feed.has_no_end)),
        compact_every=how.compact_every,
    )
    return summary(out, name)


def summary(out: Path, name: str) -> dict[str, Any]:
    """What a filled cuboid holds, and what its queries found."""
    snapshot = Snapshot.open(out)
    lines = outputs.journal(out)
    found = Counter[str]()
    for line in lines:
        found.update(line.outputs)
    rejected = found.pop(REJECTS, 0)
    rows = sum(line.tuples for line in lines) + rejected
    cuboid = snapshot[name]
    streams = [a for a in cuboid.schema.attributes if isinstance(a, AST)]
    ticks = int(cuboid.scan([streams[0].count])[streams[0].count].sum()) if streams and len(cuboid) else 0
    counts = {"batches": snapshot.batch + 1, "rows": rows, "rejected": rejected, "keys": len(cuboid)}
    return {**counts, "elements": ticks, "found": dict(found), **_rtc(out)}


def _rtc(out: Path) -> dict[str, Any]:
    measured = rtc.figures(rtc.moments(out))
    return {name: measured[name] for name in ("arrival_rate_per_s", "commit_us", "stable") if name in measured}
