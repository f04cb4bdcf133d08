"""From a plan to one Structured Streaming query.

A network whose expressions can all be computed where the tuples are (``vector``) is one operator (``superbox``):
nothing is exchanged, planned or generated for its boxes.

Where Spark itself has to compute one, the network runs in levels, and a tuple is a row of the plan's common shape. Each
level is: the stateful stage, the look-ups in stored tables, and one projection that takes the tuples the level's boxes
released along all their paths of Filter, Map and Union at once and explodes them into the rows that the next boxes and
the outputs take. So no box runs twice, whatever shares it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from slipstream.errors import BadArgument, BadInput
from slipstream.network import expressions, intake, stored
from slipstream.network.algebra import TYPES, Arc, Filter, Join, Map, Source
from slipstream.network.operators import Operator
from slipstream.network.plan import Delivery, Layout, Plan, Runner, Way, plan
from slipstream.network.schemas import Checked, joined
from slipstream.network.sink import COLUMNS, Sink
from slipstream.network.stage import Stage, StagedBox, SuperboxStage, write_outputs
from slipstream.network.superbox import PATHS, Superbox
from slipstream.network.trains import SEQ, SHED, TS
from slipstream.network.values import Untranslatable
from slipstream.network.windows import encoded
from slipstream.runtime import state_cache
from slipstream.session import keeping_state, using

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


#: a stored table with more rows is joined by Spark; one that has a folder to lie in may have more than one that
#: travels with the stage
MOST_ROWS, MOST_SENT = 10_000_000, 1_000_000

_WHOLE_STAGE = "spark.sql.codegen.wholeStage"

_NULL = "(-9223372036854775807L - 1L)"
_ENCODE = {
    "integer": f"coalesce(cast({{0}} as bigint), {_NULL})",
    "boolean": f"coalesce(cast({{0}} as bigint), {_NULL})",
    "float": "coalesce(cast({0} as double), double('NaN'))",
    "text": "cast({0} as string)",
}
_DECODE = {
    "integer": f"nullif({{0}}, {_NULL})",
    "boolean": f"cast(nullif({{0}}, {_NULL}) as boolean)",
    "float": "if(isnan({0}), null, {0})",
    "text": "{0}",
}
_EMPTY = {"int": "0", "bigint": "0L", "double": "0D", "string": "cast(null as string)"}


@dataclass(frozen=True)
class Compiled:
    """A network as a DataFrame.

    With a folder to deliver into, a row stands for each file in which a batch left what an output, a point or a tap
    gets. Without one it is a delivered tuple, with the output's name, its values in a struct of that name, ``ts`` (the
    QoS timestamp) and the order key ``q0``, ``q1``...
    """

    plan: Plan
    rows: DataFrame
    warm: ExitStack
    fused: bool  # one operator, with one key

    def output(self, name: str) -> DataFrame:
        """One output's tuples with their own columns, and the hidden ones."""
        return self.rows.where(f"output = '{name}'").select("ts", *self.plan.keys, f"{name}.*")

    def start(
        self,
        deliver: Callable[[DataFrame, int], None],
        checkpoint: Path,
        *,
        available_now: bool = False,
        partitions: int | None = None,
    ) -> StreamingQuery:
        """Start the query: ``deliver`` gets each batch and its number.

        ``partitions`` is how many tasks a new query in levels has for each, unless as many as the session says.
        """
        writer = self.rows.writeStream.foreachBatch(deliver).option("checkpointLocation", str(checkpoint))
        if available_now:
            writer = writer.trigger(availableNow=True)
        with self._settings(1 if self.fused else partitions):
            query = writer.queryName(self.plan.checked.network.name).start()
        # a query is stopped by whoever started it; its warm state is of no use to any other
        weakref.finalize(query, self.warm.close)
        return query

    @contextmanager
    def _settings(self, partitions: int | None) -> Iterator[None]:
        """The session's settings while a query starts, which keeps them; they are put back at once."""
        spark = self.rows.sparkSession
        # a route's projection in one generated method would pass the 64 KB that Java allows: let Spark split it
        with keeping_state(spark, partitions), using(spark, {_WHOLE_STAGE: "false"}):
            yield


def compile_network(
    checked: Checked,
    inputs: Mapping[str, DataFrame],
    tables: Mapping[str, DataFrame] | None = None,
    *,
    folder: Path | None = None,
    buckets: int = 4,
) -> Compiled:
    """Compile a checked network over its input streams, any DataFrames with the sources' columns.

    A stream may bring arrival numbers and times (microseconds) as ``_seq`` and ``_ts``; without them its tuples count
    as they come. With a ``folder`` its tasks write what it delivers there.
    """
    rows = {}
    for place, source in enumerate(checked.network.sources):
        if source.name not in inputs:
            raise BadArgument(f"no input for the source {source.name}.", hint="Give one DataFrame for each source.")
        rows[place] = intake.packed(inputs[source.name], source.name, source.schema, place)
    return compile_rows(checked, rows, tables, folder=folder, buckets=buckets)


def compile_rows(
    checked: Checked,
    inputs: Mapping[int, DataFrame],
    tables: Mapping[str, DataFrame] | None = None,
    *,
    folder: Path | None = None,
    buckets: int = 4,
    taps: dict[str, Arc] | None = None,
    drops: Mapping[tuple[str, int, bool], int] | None = None,
    shared: bool = False,
    live: bool = False,
) -> Compiled:
    """Compile a checked network over rows that carry the trains of its sources (``intake``), by the sources' numbers.

    ``drops`` gives a bit to a side of a box or (True) to an output: tuples that have it in ``_shed`` go no further.
    When reading is ``shared`` by several tasks, they hand over to the one in which the boxes are. A ``live`` network
    must be one stage: what its feeds bring that is no tuple has no way through levels.
    """
    made, warm = plan(checked, taps), ExitStack()
    sink = Sink(str(folder.absolute()), checked.network) if folder else None
    compiler = _Compiler(made, dict(tables or {}), buckets, dict(drops or {}), warm, sink)
    superbox = compiler.superbox()
    if superbox is None and (live or any(isinstance(node.box, Operator) for node in checked.nodes)):
        raise BadArgument(
            f"network {checked.network.name}: {only_in_spark(made)} needs Spark itself, and a network with feeds or "
            "operators runs outside of it.",
            hint="Use a function that `slipstream network describe` shows in one stage, or one of your own "
            "(--functions).",
        )
    rows = compiler.fused(inputs, superbox, shared) if superbox else compiler.in_levels(inputs)
    return Compiled(made, rows, warm, fused=superbox is not None)


def superbox_of(made: Plan, drops: Mapping[tuple[str, int, bool], int] | None = None) -> Superbox | None:
    """The network as one operator, if all its expressions can be computed where the tuples are."""
    try:
        return Superbox(made, {}, drops or {})
    except Untranslatable:
        return None


def only_in_spark(made: Plan) -> str:
    """What keeps a network from being one operator."""
    try:
        Superbox(made)
    except Untranslatable as error:
        return str(error)
    return f"a table of more than {MOST_ROWS:,} rows"


class _Compiler:
    def __init__(
        self,
        plan: Plan,
        tables: dict[str, DataFrame],
        buckets: int,
        drops: dict[tuple[str, int, bool], int],
        warm: ExitStack,
        sink: Sink | None,
    ) -> None:
        self._warm = warm
        self._sink = sink
        self._drops = drops
        self._plan = plan
        self._checked = plan.checked
        self._tables = tables
        self._buckets = buckets

    def in_levels(self, inputs: Mapping[int, DataFrame]) -> DataFrame:
        """The network with a stage for each level of its boxes."""
        sources = self._checked.network.sources
        rows = intake.all_rows({place: self._source(inputs[place], sources[place], place) for place in inputs})
        rows = self._route(rows, 0)
        for level in range(1, self._plan.depth + 1):
            runners = [r for r in self._plan.runners if self._plan.levels[r.node.name] == level]
            rows = self._stage(rows, [r for r in runners if r.kernel], level)
            for runner in runners:
                if not runner.kernel:
                    rows = self._lookup(rows, runner, level)
            rows = self._route(rows, level)
        if self._sink is None:
            return self._delivered(rows)
        return rows.coalesce(1).mapInPandas(partial(write_outputs, self._plan, self._sink), COLUMNS)

    # --- everything in one operator

    def superbox(self) -> Superbox | None:
        """The network as one operator, with its stored tables, if they are not too large to go with it."""
        superbox = superbox_of(self._plan, self._drops)
        if superbox is None:
            return None
        tables, most = {}, MOST_ROWS if self._sink else MOST_SENT
        for table in self._checked.network.tables:
            found = self._table(table.name).orderBy(*table.schema).limit(most + 1).toArrow()
            if len(found) > most:
                return None
            tables[table.name] = {name: encoded(found[name], type_) for name, type_ in table.schema.items()}
        return replace(superbox, tables=stored.store(Path(self._sink.folder), tables) if self._sink else tables)

    def fused(self, inputs: Mapping[int, DataFrame], superbox: Superbox, shared: bool) -> DataFrame:
        """All boxes in one stage; with one task from the source to the sink, unless reading is ``shared`` by several.

        An exchange would cost a small batch more than it gains.
        """
        rows = intake.all_rows(inputs)
        stage = SuperboxStage(self._warm.enter_context(state_cache.engine()), superbox, self._sink)
        schema = COLUMNS if self._sink else ", ".join(f"{name} {type_}" for name, type_ in self._plan.row)
        rows = rows if shared else rows.coalesce(1)
        found = rows.groupBy("key").transformWithStateInPandas(stage, schema, "Append", "None")
        return found if self._sink else self._delivered(found)

    # --- what comes in, what goes out

    def _source(self, rows: DataFrame, source: Source, place: int) -> DataFrame:
        frame = intake.unpacked(rows, place, source.schema)
        layout = self._plan.origins[Arc(source.name)]
        keys = dict.fromkeys(self._plan.keys, "0L") | {"q0": SEQ, self._plan.keys[-1]: f"{place}L"}
        head = {"arc": str(layout.id), "bucket": "0", "ts": TS, "shed": f"coalesce({SHED}, 0L)", **keys}
        return frame.selectExpr(*_aliased(self._row(head, layout, {name: name for name in source.schema})))

    def _delivered(self, rows: DataFrame) -> DataFrame:
        names, structs = [], []
        for name, delivery in self._plan.outputs.items():
            layout = delivery.layout
            fields = ", ".join(f"{_decoded(layout, column)} as {column}" for column in layout.columns)
            structs.append(f"if(arc = {layout.id}, struct({fields}), null) as {name}")
            names.append(f"when arc = {layout.id} then '{name}'")
        return rows.selectExpr(f"case {' '.join(names)} end as output", "ts", *self._plan.keys, *structs)

    def _row(self, head: dict[str, str], layout: Layout, values: dict[str, str]) -> dict[str, str]:
        """A row of the common shape: column -> expression."""
        slots = {layout.slots[c]: _ENCODE[layout.types[c]].format(text) for c, text in values.items()}
        return {name: head.get(name) or slots.get(name) or _EMPTY[type_] for name, type_ in self._plan.row}

    # --- order-sensitive boxes

    def _stage(self, rows: DataFrame, runners: list[Runner], level: int) -> DataFrame:
        if not runners:
            return rows
        boxes = [self._staged(runner) for runner in runners]
        schema = ", ".join(f"{name} {type_}" for name, type_ in self._plan.row)
        stage = Stage(boxes, self._plan.row, self._plan.keys, f"q{level}")
        return rows.groupBy("bucket").transformWithStateInPandas(stage, schema, "Append", "None")

    @staticmethod
    def _staged(runner: Runner) -> StagedBox:
        assert runner.kernel is not None
        return StagedBox(
            runner.node.name,
            runner.kernel,
            tuple(side.layout.id for side in runner.sides),
            tuple(side.layout.slots for side in runner.sides),
            runner.origin.id,
            dict(zip(runner.results, runner.origin.slots.values(), strict=True)),
        )

    def _lookup(self, rows: DataFrame, runner: Runner, level: int) -> DataFrame:
        """Join with a stored table: every match of the whole table, in the order of the table's rows."""
        from pyspark.sql import Window
        from pyspark.sql import functions as sf

        box, side = runner.node.box, runner.sides[0].layout
        assert isinstance(box, Join)
        stored = 1 - runner.sides[0].side
        table = self._table(runner.node.inputs[stored].origin)
        number = sf.row_number().over(Window.orderBy(*table.columns)) - 1
        table = table.select(*(sf.col(c).alias(f"t_{c}") for c in table.columns), number.cast("bigint").alias("t_row"))
        name = ("left", "right")[stored]
        predicate = _renamed(box.predicate, lambda q, c: f"t_{c}" if q == name else _decoded(side, c))
        met = rows.join(table, sf.expr(f"arc = {side.id} and ({predicate})"), "left")
        if not box.outer:
            met = met.where(f"arc <> {side.id} or t_row is not null")
        values = {}
        for out, (which, column) in joined(*self._checked.inputs(runner.node)).items():
            values[out] = f"t_{column}" if which == stored else f"({_decoded(side, column)})"
        head = {"arc": str(runner.origin.id), "bucket": "0", "ts": "ts", "shed": "shed"} | {
            key: key for key in self._plan.keys
        }
        head[f"q{level}"] = f"(q{level} + coalesce(t_row, 0L))"
        row = self._row(head, runner.origin, values)
        return met.selectExpr(*(f"if(arc = {side.id}, {text}, {name}) as {name}" for name, text in row.items()))

    def _table(self, name: str) -> DataFrame:
        if name not in self._tables:
            raise BadArgument(f"no data for the table {name}.", hint="Give one DataFrame for each stored table.")
        schema = next(table.schema for table in self._checked.network.tables if table.name == name)
        frame = self._tables[name]
        missing = [column for column in schema if column not in frame.columns]
        if missing:
            raise BadInput(f"table {name}: no column {missing[0]!r}.", hint=f"It has: {', '.join(frame.columns)}.")
        return frame.selectExpr(*(f"cast({c} as {TYPES[t]}) as {c}" for c, t in schema.items()))

    # --- order-agnostic boxes

    def _route(self, rows: DataFrame, level: int) -> DataFrame:
        """Take what the level's boxes released to wherever it goes; let all else pass."""
        from pyspark.sql import functions as sf

        here = {arc: layout for arc, layout in self._plan.origins.items() if self._plan.levels[arc.origin] == level}
        ways = _Ways(self._checked, self._drops)
        names = [name for name, _ in self._plan.row]
        for arc, layout in here.items():
            rows = rows.withColumn(ways.start(arc), sf.expr(_tuple(layout, self._condition(arc, layout))))
        targets = []
        for delivery in self._plan.deliveries:
            for place, path in enumerate(delivery.paths):
                if path.origin in here:
                    rows, name = ways.follow(rows, path)
                    targets.append(self._target(name, delivery, place))
        origins = ", ".join(str(layout.id) for layout in here.values())
        passing = f"if(arc in ({origins}), null, struct({', '.join(names)}))"
        rows = rows.withColumn(
            "_targets", sf.expr(f"filter(array({', '.join([passing, *targets])}), t -> t is not null)")
        )
        return rows.select(sf.explode("_targets").alias("t")).select("t.*")

    def _condition(self, arc: Arc, layout: Layout) -> str:
        """What a join asks beyond the window and the equalities that its kernel has seen to."""
        node = next((node for node in self._checked.nodes if node.name == arc.origin), None)
        if node is None or not isinstance(node.box, Join) or self._checked.is_lookup(node):
            return "true"
        names = {source: out for out, source in joined(*self._checked.inputs(node)).items()}
        return _renamed(node.box.predicate, lambda q, c: f"({_decoded(layout, names[int(q == 'right'), c])})")

    def _target(self, name: str, delivery: Delivery, place: int) -> str:
        """A row for one consumer, or null when the tuple does not go there."""
        layout = delivery.layout
        values = {column: f"({_qualified(text, name)})" for column, text in layout.columns.items()}
        keys = {key: key for key in self._plan.keys}
        keys[f"q{delivery.level}"] = f"({keys[f'q{delivery.level}']} + {place * PATHS}L)"
        spread = [_qualified(column, name) for column in delivery.group_by] or ["0"]
        if delivery.is_output:
            spread = ["q0"]
        bucket = f"cast(pmod(hash('{delivery.name}', {', '.join(spread)}), {self._buckets}) as int)"
        row = self._row({"arc": str(layout.id), "bucket": bucket, "ts": "ts", "shed": "shed", **keys}, layout, values)
        fields = ", ".join(f"{text} as {column}" for column, text in row.items())
        kept = _kept(self._drops.get((delivery.name, delivery.side, delivery.is_output)))
        return f"if({name} is null or not {kept}, null, struct({fields}))"


class _Ways:
    """Follows paths through Filter and Map as columns of structs; a tuple that is not on an arc is null there."""

    def __init__(self, checked: Checked, drops: dict[tuple[str, int, bool], int]) -> None:
        self._nodes = {node.name: node for node in checked.nodes}
        self._drops = drops
        self._names: dict[tuple[Arc, ...], str] = {}

    def start(self, arc: Arc) -> str:
        return self._names.setdefault((arc,), f"_w{len(self._names)}")

    def follow(self, rows: DataFrame, path: Way) -> tuple[DataFrame, str]:
        for length in range(2, len(path.arcs) + 1):
            way = path.arcs[:length]
            if way not in self._names:
                before = self._names[way[:-1]]
                self._names[way] = f"_w{len(self._names)}"
                rows = rows.withColumn(self._names[way], self._step(before, way[-2], way[-1]))
        return rows, self._names[path.arcs]

    def _step(self, name: str, before: Arc, arc: Arc) -> Column:
        from pyspark.sql import functions as sf

        node = self._nodes[arc.origin]
        box, bit = node.box, self._drops.get((arc.origin, node.inputs.index(before), False))
        if bit is not None:
            name = f"if({_kept(bit)}, {name}, null)"
        if isinstance(box, Filter):
            tests = [f"coalesce({_qualified(p, name)}, false)" for p in box.predicates[: arc.port + 1]]
            wanted = [f"not {test}" for test in tests[: arc.port]] + tests[arc.port :]
            return sf.expr(f"if({' and '.join([f'{name} is not null', *wanted])}, {name}, null)")
        if isinstance(box, Map):
            fields = ", ".join(f"{_qualified(text, name)} as {column}" for column, text in box.columns.items())
            return sf.expr(f"if({name} is null, null, struct({fields}))")
        return sf.expr(name)


def _tuple(layout: Layout, condition: str) -> str:
    """An origin's tuple as a struct, null for the rows of others."""
    fields = ", ".join(f"{_decoded(layout, column)} as {column}" for column in layout.columns)
    return f"if(arc = {layout.id} and ({condition}), struct({fields}), null)"


def _kept(bit: int | None) -> str:
    """Whether a tuple is not to be dropped at the place of this bit."""
    return "true" if bit is None else f"((shed & {1 << bit}L) = 0)"


def _decoded(layout: Layout, column: str) -> str:
    return _DECODE[layout.types[column]].format(layout.slots[column])


def _qualified(text: str, name: str) -> str:
    return _renamed(text, lambda _, column: f"{name}.{column}")


_renamed = expressions.renamed


def _aliased(row: dict[str, str]) -> list[str]:
    return [f"{text} as {name}" for name, text in row.items()]
