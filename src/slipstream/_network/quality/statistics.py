"""The cost and selectivity of the boxes of a network, measured on a sample of its inputs.

The cost c(b) of a box is in seconds of one core per tuple, its selectivity s(b) in output tuples per input tuple.
Boxes are timed as they will run: expressions over columns or, if only Spark can compute them, in Spark, and
order-sensitive boxes by their kernels. The costs of reading a tuple and of carrying it between boxes are measured by a
run of the whole network (``calibration``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slipstream._network import box_functions
from slipstream._network.algebra import TYPES, Arc, Filter, Join, Map, Node, Schema, Union
from slipstream._network.boxes.operators import Operator, State, run
from slipstream._network.boxes.windows.kernels import ARRIVAL, INSTANT, TS, Released
from slipstream._network.boxes.windows.window_functions import Values, encode_column, encode_table, nulls
from slipstream._network.column_types import spark_schema
from slipstream._network.flow import Train
from slipstream._network.planning.plan import Runner, plan
from slipstream._network.schemas import join_columns
from slipstream._network.state.groups import Columns
from slipstream._network.state.stored import StoredTable
from slipstream._network.tasks.superbox import Superbox

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from slipstream._network.schemas import Checked


@dataclass(frozen=True)
class Figures:
    """One box: seconds of a core per tuple, and tuples per input tuple of each output."""

    cost: float
    shares: tuple[float, ...]

    @property
    def selectivity(self) -> float:
        """The share of the first output, a filter's own."""
        return self.shares[0]


@dataclass(frozen=True)
class Statistics:
    """Figures of boxes by name; by default a box costs a microsecond and emits everything.

    ``carrying`` is the seconds of a core to carry one tuple to an order-sensitive box or out of the network,
    ``reading`` those to read one. ``scale`` is by how much boxes cost more in a run than when they are timed alone.
    """

    figures: Mapping[str, Figures] = field(default_factory=dict)
    carrying: float = 0.0
    reading: float = 0.0
    scale: float = 1.0

    def of(self, name: str) -> Figures:
        """The figures of a box."""
        return self.figures.get(name, Figures(1e-6, (1.0,)))

    def scaled(self, scale: float) -> Statistics:
        """The same with all boxes' costs multiplied."""
        figures = {name: replace(one, cost=one.cost * scale) for name, one in self.figures.items()}
        return replace(self, figures=figures, scale=self.scale * scale)

    def worth(self, name: str) -> float:
        """(1 - s) / c: how much work a box saves those after it per cost of its own."""
        found = self.of(name)
        return (1 - found.selectivity) / max(found.cost, 1e-12)


def measure(
    spark: SparkSession,
    checked: Checked,
    samples: Mapping[str, DataFrame],
    tables: Mapping[str, DataFrame] | None = None,
) -> Statistics:
    """Run every box once over the sample that reaches it; sources' samples have ``_seq`` and ``_ts``."""
    return _Meter(spark, checked, dict(tables or {})).measure(samples)


def time_best(work: Any, times: int = 3) -> float:
    """The shortest of a few runs, which is the least disturbed one."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


class _Meter:
    def __init__(self, spark: SparkSession, checked: Checked, tables: dict[str, DataFrame]) -> None:
        self._spark = spark
        self._checked = checked
        self._tables = tables
        stored = self._collect_stored()
        box_functions.install(spark, box_functions.with_tables(), stored)
        self._superbox = Superbox(plan(checked), stored)
        self._runners = {runner.node.name: runner for runner in self._superbox.plan.runners}
        self._arcs: dict[Arc, pa.Table] = {}
        self._states: dict[str, State] = {}

    def _collect_stored(self) -> box_functions.Stored:
        """The tables that users' functions read."""
        wanted = {name for function in box_functions.with_tables() for name in box_functions.find_tables(function)}
        found: dict[str, StoredTable] = {}
        for table in self._checked.network.tables:
            if table.name in wanted and table.name in self._tables:
                rows = self._tables[table.name].orderBy(*table.schema).toArrow()
                found[table.name] = encode_table(rows, table.schema)
        return found

    def measure(self, samples: Mapping[str, DataFrame]) -> Statistics:
        for name, frame in samples.items():
            self._arcs[Arc(name)] = frame.toArrow()
        figures = {}
        for node in self._checked.nodes:
            runner = self._runners.get(node.name)
            if isinstance(node.box, Operator):
                figures[node.name] = self._operator(node, node.box)
            else:
                figures[node.name] = (
                    self._measure_stateful(runner) if runner and runner.kernel else self._expression(node)
                )
        return Statistics(figures)

    def _operator(self, node: Node, box: Operator) -> Figures:
        """Time one step over the whole sample; a second would begin with the state of the first."""
        checked = self._checked
        inputs = [_train(self._arcs[arc], checked.schemas[arc]) for arc in node.inputs]
        schemas = [checked.schemas[arc] for arc in checked.ports[node.name]]
        lender: Any = checked.network.node(node.inputs[0].origin).box if box.borrows else None
        self._states[node.name] = (
            self._states[node.inputs[0].origin] if box.borrows else box.fresh(*map(spark_schema, checked.inputs(node)))
        )
        begin = time.perf_counter()
        released = run(box, self._states[node.name], inputs, schemas, 1, lender)
        taken = time.perf_counter() - begin
        count = max(sum(map(len, inputs)), 1)
        for arc, train, schema in zip(checked.ports[node.name], released, schemas, strict=True):
            self._arcs[arc] = _table(train, schema)
        return Figures(taken / count, tuple(len(train) / count for train in released))

    def _expression(self, node: Node) -> Figures:
        if isinstance(node.box, Filter | Map) and not self._superbox.translations.asks_spark(node):
            return self._measure_over_columns(node)
        return self._measure_in_spark(node)

    def _measure_over_columns(self, node: Node) -> Figures:
        """Time a filter or a map for each of its outputs that something takes."""
        before, schemas = node.inputs[0], self._checked.schemas
        train = _train(self._arcs[before], schemas[before])
        count, cost = max(len(train), 1), 0.0
        for arc in (ports := self._checked.ports[node.name]):
            released = self._superbox.pass_through(train, before, arc)
            self._arcs[arc] = _table(released, schemas[arc])
            if arc in self._taken:
                cost += time_best(partial(self._superbox.pass_through, train, before, arc)) / count
        return Figures(cost, tuple(len(self._arcs[arc]) / count for arc in ports))

    @cached_property
    def _taken(self) -> set[Arc]:
        """The arcs that a box, an output or a connection point takes."""
        network = self._checked.network
        return {arc for node in network.nodes for arc in node.inputs} | {end.arc for end in network.ends}

    def _measure_in_spark(self, node: Node) -> Figures:
        """Time the box in Spark, less an empty pass."""
        frame = self._frame(node.inputs[self._checked.table_side(node) == 0]).cache()
        count = max(frame.count(), 1)
        outputs = self._outputs(node, frame)
        first = outputs[Arc(node.name)]
        idle = time_best(lambda: frame.write.format("noop").mode("overwrite").save())
        busy = time_best(lambda: first.write.format("noop").mode("overwrite").save())
        for arc, output in outputs.items():
            self._arcs[arc] = output.toArrow()
        cores = self._spark.sparkContext.defaultParallelism
        frame.unpersist()
        taken = count if not isinstance(node.box, Union) else sum(len(self._arcs[arc]) for arc in node.inputs)
        shares = tuple(len(self._arcs[arc]) / max(taken, 1) for arc in outputs)
        return Figures(max(busy - idle, 0.0) * cores / count, shares)

    def _outputs(self, node: Node, frame: DataFrame) -> dict[Arc, DataFrame]:
        hidden = ["_seq", "_ts"]
        box = node.box
        if isinstance(box, Filter):
            outputs, rest = {}, frame
            for port, predicate in enumerate(box.predicates):
                outputs[Arc(node.name, port)] = rest.where(predicate)
                rest = rest.where(f"not coalesce({predicate}, false)")
            return outputs | {Arc(node.name, len(box.predicates)): rest}
        if isinstance(box, Map):
            return {Arc(node.name): frame.selectExpr(*hidden, *(f"{t} as `{n}`" for n, t in box.columns.items()))}
        if isinstance(box, Join):
            return {Arc(node.name): self._look_up(node, box, frame)}
        merged = frame
        for arc in node.inputs[1:]:
            merged = merged.unionByName(self._frame(arc))
        return {Arc(node.name): merged}

    def _look_up(self, node: Node, box: Join, frame: DataFrame) -> DataFrame:
        """Join a stream with a stored table."""
        stored = self._checked.table_side(node) or 0
        names = ("right", "left") if stored == 0 else ("left", "right")
        table, how = self._tables[node.inputs[stored].origin].alias(names[1]), "left" if box.outer else "inner"
        met = frame.alias(names[0]).join(table, _expr(box.predicate), how)
        columns = (
            f"{('left', 'right')[side]}.`{column}` as `{out}`"
            for out, (side, column) in join_columns(*self._checked.inputs(node)).items()
        )
        return met.selectExpr("_seq", "_ts", *columns)

    def _frame(self, arc: Arc) -> DataFrame:
        types = {"_seq": "bigint", "_ts": "bigint"} | {n: TYPES[t] for n, t in self._checked.schemas[arc].items()}
        ddl = ", ".join(f"`{name}` {type_}" for name, type_ in types.items())
        return self._spark.createDataFrame(self._arcs[arc], ddl)

    def _measure_stateful(self, runner: Runner) -> Figures:
        inputs = self._inputs(runner)
        count = max(sum(part[TS].size for part in inputs), 1)
        assert runner.kernel is not None
        kernel = runner.kernel
        released = kernel.step(kernel.fresh(), inputs)
        taken = time_best(lambda: kernel.step(kernel.fresh(), inputs), 2)
        self._arcs[Arc(runner.node.name)] = self._release(runner, released)
        return Figures(taken / count, (released[TS].size / count,))

    def _inputs(self, runner: Runner) -> list[Columns]:
        arcs = [runner.node.inputs[side.side] for side in runner.sides]
        order = np.argsort(np.concatenate([self._arcs[arc]["_seq"].to_numpy() for arc in arcs]), kind="stable")
        arrival = np.empty(order.size, np.int64)
        arrival[order] = np.arange(order.size)
        inputs: list[Columns] = []
        taken = 0
        for side, arc in zip(runner.sides, arcs, strict=True):
            wanted = (f"{text} as `{name}`" for name, text in side.layout.columns.items())
            columns = self._frame(arc).selectExpr("_ts as ts", "_seq", *wanted).toArrow()
            here = arrival[taken : taken + columns.num_rows]
            taken += columns.num_rows
            typed = {name: encode_column(columns[name], side.layout.types[name]) for name in side.layout.columns}
            sorted_ = np.argsort(here)
            part = {TS: columns["ts"].to_numpy(), ARRIVAL: here, INSTANT: columns["_seq"].to_numpy(), **typed}
            inputs.append({name: values[sorted_] for name, values in part.items()})
        return inputs

    def _release(self, runner: Runner, released: Released) -> pa.Table:
        names = dict(zip(runner.results, runner.origin.columns, strict=True))
        columns = {"_seq": pa.array(np.arange(released[TS].size)), "_ts": pa.array(released[TS])}
        return pa.table(columns | {new: _arrow(released[old], runner.origin.types[new]) for old, new in names.items()})


def _arrow(values: Values, type_: str) -> pa.Array:
    plain = pa.array(values, mask=nulls(values))
    return plain.cast(pa.bool_()) if type_ == "boolean" else plain


def _train(table: pa.Table, schema: Schema) -> Train:
    """Convert a sample for an operator; its order keys have only the arrival number."""
    table = table.sort_by("_seq")
    order = np.zeros((table.num_rows, 2), np.int64)
    order[:, 0] = table["_seq"].to_numpy()
    columns = {name: encode_column(table[name], type_) for name, type_ in schema.items()}
    return Train(table["_ts"].to_numpy(), np.zeros(table.num_rows, np.int64), order, columns)


def _table(train: Train, schema: Schema) -> pa.Table:
    columns = {"_seq": pa.array(train.order[:, 0]), "_ts": pa.array(train.ts)}
    return pa.table(columns | {name: _arrow(train[name], type_) for name, type_ in schema.items()})


def _expr(predicate: str) -> Any:
    from pyspark.sql import functions as sf

    return sf.expr(predicate)
