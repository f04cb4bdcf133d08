"""Compiles a plan to one Structured Streaming query.

    sources --> [carrier] --> stage 1 --> [projection] --> stage 2 --> ... --> files, and rows that report them

A stage is one stateful operator, in which trains pass through all boxes of the stage (``superbox``). Before the first
stage, the tasks that read tuples do the work that needs no state; a network with one partition that is read by one task
skips this. Between stages Spark exchanges rows of parcels (``parcels``) and computes what only it can (``projection``).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from slipstream._errors import BadArgument, BadInput
from slipstream._network.algebra import TYPES, Arc
from slipstream._network.boxes.windows.window_functions import encode_table
from slipstream._network.column_types import DELIVERED_TYPES
from slipstream._network.planning.plan import Plan, plan
from slipstream._network.planning.stages import Stages, output_keys
from slipstream._network.quality.shedding import Marker
from slipstream._network.schemas import Checked
from slipstream._network.sql.projection import project
from slipstream._network.state.stored import TableInFiles, store_tables
from slipstream._network.tasks import train_intake
from slipstream._network.tasks.operators_in_spark import Carrier, SuperboxStage, TupleCounter, Unpacker
from slipstream._network.tasks.parcels import COLUMNS
from slipstream._network.tasks.sink import COLUMNS as REPORT_COLUMNS
from slipstream._network.tasks.sink import Sink
from slipstream._network.tasks.superbox import Superbox
from slipstream._runtime.stages.deferred import DeferredStage
from slipstream._runtime.state import state_cache
from slipstream._spark.session import stateful_settings, with_settings
from slipstream._tools.files import temporary
from slipstream._tools.files.locations import spark_uri

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


#: code generation for a projection pays off only for more rows than pass between stages
_WHOLE_STAGE = "spark.sql.codegen.wholeStage"


@dataclass(frozen=True)
class Compiled:
    """A network as a DataFrame.

    With a folder to deliver into, each row reports a file that a batch wrote for an output, a point or a tap. Without
    one, each row is a delivered tuple, with the output's name, its values in a struct of that name, ``ts`` (the
    QoS timestamp) and the order key ``q0``, ``q1``...
    """

    plan: Plan
    stages: Stages
    keys: Mapping[str, tuple[str, ...]]  # the columns by which the tuples of each output are grouped
    rows: DataFrame
    warm: ExitStack

    def output(self, name: str) -> DataFrame:
        """One output's tuples with their own columns, and the hidden ones."""
        return self.rows.where(f"output = '{name}'").select("ts", *self.plan.keys, f"{name}.*")

    def start(
        self, deliver: Callable[[DataFrame, int], None], checkpoint: Path, *, available_now: bool = False
    ) -> StreamingQuery:
        """Start the query: ``deliver`` gets each batch and its number."""
        writer = self.rows.writeStream.foreachBatch(deliver).option("checkpointLocation", spark_uri(checkpoint))
        if available_now:
            writer = writer.trigger(availableNow=True)
        with self._settings():
            query = writer.queryName(self.plan.checked.network.name).start()
        # the caller stops the query; its cached state is of no use to any other
        weakref.finalize(query, self.warm.close)
        return query

    @contextmanager
    def _settings(self) -> Iterator[None]:
        """Apply the settings of a query while it starts, which keeps them, then restore the session's."""
        spark = self.rows.sparkSession
        with stateful_settings(spark, self.stages.parallel), with_settings(spark, {_WHOLE_STAGE: "false"}):
            yield


def compile_network(
    checked: Checked,
    inputs: Mapping[str, DataFrame],
    tables: Mapping[str, DataFrame] | None = None,
    *,
    folder: Path | None = None,
    parallel: int = 1,
) -> Compiled:
    """Compile a checked network over its input streams, any DataFrames with the sources' columns.

    A stream may have arrival numbers and times (microseconds) as ``_seq`` and ``_ts``; without them its tuples are
    numbered as they arrive. With a ``folder``, tasks write the results there. Boxes run in ``parallel`` partitions.
    """
    rows = {}
    for place, source in enumerate(checked.network.sources):
        if source.name not in inputs:
            raise BadArgument(
                f"no input for the source {source.name}.", hint="Give one DataFrame per source.", code="missing-value"
            )
        rows[place] = train_intake.pack_frame(inputs[source.name], source.name, source.schema, place)
    return compile_rows(checked, rows, tables, folder=folder, parallel=parallel)


def compile_rows(
    checked: Checked,
    inputs: Mapping[int, DataFrame],
    tables: Mapping[str, DataFrame] | None = None,
    *,
    folder: Path | None = None,
    parallel: int = 1,
    taps: dict[str, Arc] | None = None,
    drops: Mapping[tuple[str, int, bool], int] | None = None,
    shared: bool = False,
    counted: bool = False,
) -> Compiled:
    """Compile a checked network over rows with the trains of its sources (``intake``), by the sources' numbers.

    Its boxes run in ``parallel`` partitions. ``drops`` assigns a bit to a side of a box or (True) to an output, where
    tuples with that bit in ``_shed`` are dropped. When several tasks read (``shared``), each does its part of the work
    that needs no state. With ``counted``, rows are the numbers of tuples of outputs instead of the tuples.
    """
    rows = train_intake.union_rows(inputs)
    # without a folder of its own, the tables of a network are stored in this process's temporary folder
    stored = _store_tables(checked, dict(tables or {}), folder or temporary.folder() / uuid4().hex)
    superbox = Superbox(plan(checked, taps), stored, dict(drops or {}), parallel)
    warm = ExitStack()
    sink = Sink(str(folder.absolute()), checked.network) if folder else None
    made = _assemble(rows, superbox, sink, warm.enter_context(state_cache.open_cache()), shared)
    if counted:
        made = made.mapInArrow(TupleCounter(superbox.plan), "output string, count bigint")
    elif sink is None:
        made = made.mapInArrow(Unpacker(superbox.plan), _delivered_columns(superbox.plan))
    keys = output_keys(superbox.plan, superbox.translations)
    return Compiled(superbox.plan, superbox.stages, keys, made, warm)


def _assemble(rows: DataFrame, superbox: Superbox, sink: Sink | None, engine: str, shared: bool) -> DataFrame:
    """Append the stages to the rows of the sources."""
    stages = superbox.stages
    if stages.parallel == 1 and not shared:
        # one task from the source to the sink: an exchange would cost a small batch more than it gains
        rows = rows.coalesce(1)
    if stages.is_read_apart or shared:
        rows = rows.mapInArrow(Carrier(superbox, Marker(sink.folder, sink.network) if sink else None), COLUMNS)
    for number in range(1, stages.count + 1):
        for _ in range(stages.rounds[number - 1]):
            rows = project(rows, superbox, number)
        stage = SuperboxStage(engine, superbox, sink, number)
        schema = REPORT_COLUMNS if sink and number == stages.count else COLUMNS
        rows = rows.groupBy("key").transformWithStateInPandas(DeferredStage(stage), schema, "Append", "None")
    return rows


def _delivered_columns(plan: Plan) -> str:
    """The Spark columns of a delivered tuple."""
    columns = {"output": "string", "ts": "bigint", **dict.fromkeys(plan.keys, "bigint")}
    for name, delivery in plan.outputs.items():
        columns[name] = f"struct<{', '.join(f'`{c}`: {DELIVERED_TYPES[t]}' for c, t in delivery.layout.types.items())}>"
    return ", ".join(f"`{name}` {type_}" for name, type_ in columns.items())


def _store_tables(checked: Checked, tables: Mapping[str, DataFrame], folder: Path) -> Mapping[str, TableInFiles]:
    """The stored tables, as files that tasks map into memory."""
    found = {}
    for table in checked.network.tables:
        arrow = _table(checked, tables, table.name).orderBy(*(f"`{column}`" for column in table.schema)).toArrow()
        found[table.name] = encode_table(arrow, table.schema)
    return store_tables(folder, found)


def _table(checked: Checked, tables: Mapping[str, DataFrame], name: str) -> DataFrame:
    if name not in tables:
        raise BadArgument(
            f"no data for the table {name}.", hint="Give one DataFrame per stored table.", code="missing-value"
        )
    schema = next(table.schema for table in checked.network.tables if table.name == name)
    frame = tables[name]
    missing = [column for column in schema if column not in frame.columns]
    if missing:
        raise BadInput(
            f"table {name}: no column {missing[0]!r}.",
            hint=f"It has: {', '.join(frame.columns)}.",
            code="unknown-column",
            found=missing[0],
            expected=[*frame.columns],
        )
    return frame.selectExpr(*(f"cast(`{c}` as {TYPES[t]}) as `{c}`" for c, t in schema.items()))
