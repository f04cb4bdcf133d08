"""Streamonas-SQL: queries over cuboids, compiled once and evaluated on columns.

    SELECT vid, avg(speed), correlation(speed, w) AS r FROM car WHERE correlation(speed, w) > 0.95 AND speed[0] < 20
    SELECT xway, count(*), avg(speed[0]) FROM car GROUP BY xway HAVING count(*) > 10 ORDER BY 3 LIMIT 5

A function over an atomic stream (``avg(speed)``) gives a number per key; the same function over numbers
(``avg(speed[0])``, ``avg(avg(speed))``) is an aggregate over keys. sqlglot parses; what is compiled here is a subset,
and what is outside is refused with its place in the text: one cuboid, no joins, no subqueries, no text but keys.

A query is evaluated on each fragment on its own (``part``), wherever that fragment is, and the parts are merged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlglot import exp, parse_one
from sqlglot.errors import ParseError

from slipstream._cuboid.declare import complain, tokenise
from slipstream._cuboid.query import stream_functions
from slipstream._cuboid.query.access import Ring, order_latest_first
from slipstream._cuboid.query.expressions import (
    NUMBER,
    STREAM,
    TEXT,
    Array,
    Compiler,
    KeyAggregate,
    Value,
    to_plain_column,
)
from slipstream._cuboid.query.relations import View
from slipstream._cuboid.query.stream_functions import Pattern
from slipstream._cuboid.schema import AST, Schema
from slipstream._errors import BadArgument, BadInput
from slipstream._feeds.text_ids import ranks
from slipstream._sql.parsing import UNREADABLE, check_depth, check_size
from slipstream._tools.numba_tools import Floats, Ints, Longs

Part = dict[str, Array]


@dataclass(frozen=True)
class GroupView:
    """Merged groups as a view: ``$0`` and so on are the groups' keys, then the aggregates."""

    columns: list[Array]

    @property
    def size(self) -> int:
        """The number of groups."""
        return int(self.columns[0].size)

    def plain(self, name: str) -> Array:
        """A column."""
        return self.columns[int(name[1:])]

    def ring(self, name: str) -> Ring:
        """Groups have no streams."""
        raise KeyError(name)

    def take(self, rows: npt.NDArray[np.int64]) -> GroupView:
        """Some of them."""
        return GroupView([column[rows] for column in self.columns])


@dataclass(frozen=True)
class Query:
    """A SELECT over one cuboid; it is sent as text and compiled where it is used."""

    text: str
    schema: Schema
    patterns: dict[str, Pattern] = field(default_factory=dict)
    functions: dict[str, Callable[..., Any]] = field(default_factory=stream_functions.list_user_functions)

    @classmethod
    def parse(cls, text: str, cuboids: Mapping[str, Schema], patterns: Mapping[str, Pattern] | None = None) -> Query:
        """Parse and check a query over one of these cuboids."""
        tree = _parse_tree(text)
        source = tree.args["from_"].this
        name = source.name if isinstance(source, exp.Table) else ""
        by_name = {known.lower(): schema for known, schema in cuboids.items()}
        if name.lower() not in by_name:
            mark = next((found.meta for found in source.walk() if "start" in found.meta), {"start": 0, "end": 0})
            complain(text, mark["start"], mark["end"], f"no cuboid '{name}'; there are {', '.join(cuboids)}")
        query = cls(text, by_name[name.lower()], dict(patterns or {}))
        query.names  # noqa: B018  compiled here, so that mistakes show here
        return query

    def __getstate__(self) -> dict[str, Any]:
        """Pickle only those users' functions that the text names."""
        words = set(re.findall(r"\w+", self.text.lower()))
        used = {name: function for name, function in self.functions.items() if name in words}
        return {"text": self.text, "schema": self.schema, "patterns": self.patterns, "functions": used}

    @cached_property
    def _plan(self) -> _Plan:
        return _Plan.of(self)

    @property
    def names(self) -> list[str]:
        """The columns of the result."""
        return self._plan.names

    @property
    def streams(self) -> list[bool]:
        """Which columns are atomic streams."""
        return [value.kind == STREAM for value in self._plan.values]

    def check_continuous(self, name: str) -> None:
        """Refuse a query that cannot be evaluated per arrival."""
        if self._plan.grouped or self._plan.order or self._plan.limit is not None:
            raise BadArgument(
                f"Query '{name}' cannot run continuously: aggregates over keys, ORDER BY and LIMIT need all keys.",
                hint="Run it on a snapshot: slipstream cuboid query.",
                code="bad-expression",
            )

    @property
    def keeps_all(self) -> bool:
        """Whether the result has a row for every row of a view."""
        plan = self._plan
        conditions = (plan.where, plan.having, plan.limit)
        return all(condition is None for condition in conditions) and not (plan.grouped or plan.order)

    def select(self, view: View) -> tuple[Longs, Part]:
        """Return the indexes of the rows of a view that a continuous query selects, and the result."""
        rows = self._plan.select(view)
        return rows, self.compute(view.take(rows))

    def compute_part(self, view: View) -> Part:
        """Compute the result on one fragment, to be merged."""
        return self._plan.compute_part(view)

    def merge(self, parts: list[Part]) -> Part:
        """Merge the parts of all fragments; returns columns by name, with rows in order."""
        return self._plan.merge(parts)

    def compute(self, view: View) -> Part:
        """Compute the result on a single view."""
        return self.merge([self.compute_part(view)])


def _parse_tree(text: str) -> exp.Select:
    try:
        check_size(text, [token.text for token in tokenise(text)])
        tree = parse_one(text, dialect="spark")
        check_depth(text, tree)
    except BadInput as error:
        raise error.within(kind=BadArgument) from error
    except ParseError as error:
        found = error.errors[0] if error.errors else {"description": "a query must be a SELECT"}
        lines = text.splitlines() or [""]
        line = min(int(found.get("line") or 1), len(lines))
        highlight = str(found.get("highlight") or "")
        ahead = sum(len(before) + 1 for before in lines[: line - 1])
        at = ahead + max(int(found.get("col") or 1) - max(len(highlight), 1), 0)
        complain(text, at, at + max(len(highlight), 1) - 1, str(found.get("description")))
    except UNREADABLE as error:
        raise BadArgument(
            f"Not SQL: {error}", hint="A quote, comment or bracket is not closed.", code="bad-expression"
        ) from error
    if not isinstance(tree, exp.Select):
        raise BadArgument("A query must be a SELECT.", hint="SELECT ... FROM cuboid WHERE ...", code="bad-expression")
    if tree.args.get("from_") is None:
        complain(text, 0, len(text) - 1, "no FROM: a query needs a cuboid")
    for part in ("joins", "with_", "distinct", "laterals", "windows", "qualify", "offset"):
        if tree.args.get(part):
            complain(text, 0, len(text) - 1, f"{part.strip('_').upper()} is not part of Streamonas-SQL")
    return tree


@dataclass
class _Plan:
    """A compiled query."""

    schema: Schema
    names: list[str]
    values: list[Value]
    where: Value | None
    grouped: bool
    groups: list[Value]
    aggregates: list[KeyAggregate]
    having: Value | None
    order: list[tuple[Value, bool]]
    limit: int | None

    @classmethod
    def of(cls, query: Query) -> _Plan:
        """Compile."""
        tree = _parse_tree(query.text)
        compiler = Compiler(query.text, query.schema, query.patterns, query.functions)
        where = compiler.compile_truth(tree.args["where"].this) if tree.args.get("where") else None
        items = _list_items(tree, query.schema)
        named = {item.alias.lower(): item.this for item in items if isinstance(item, exp.Alias)}
        keys = [
            _resolve(node, items, named) for node in (tree.args["group"].expressions if tree.args.get("group") else [])
        ]
        groups = [compiler.compile_plain(node) for node in keys]
        everywhere = [*items, tree.args.get("having"), tree.args.get("order")]
        grouped = bool(groups) or any(_has_aggregate(node, query.schema) for node in everywhere)
        if grouped:
            compiler.groups = [node.sql("spark") for node in keys]
            compiler.kinds = [group.kind for group in groups]
            # a slot that nothing is called by: from here on, attributes must be grouped by
            compiler.slots = {"": -1} | {text: place for place, text in enumerate(compiler.groups)}
        values = [compiler.compile_value(item) for item in items]
        for item, value in zip(items, values, strict=True):
            if value.kind not in (NUMBER, TEXT, STREAM):
                compiler.complain(item, f"{value.kind} cannot be selected")
        having = compiler.compile_truth(tree.args["having"].this) if tree.args.get("having") else None
        order = [
            (compiler.compile_plain(_resolve(node.this, items, named)), bool(node.args.get("desc")))
            for node in (tree.args["order"].expressions if tree.args.get("order") else [])
        ]
        names = [
            item.alias_or_name if isinstance(item, exp.Alias | exp.Column) else item.sql("spark").lower()
            for item in items
        ]
        limit = _limit(compiler, tree.args["limit"]) if tree.args.get("limit") else None
        return cls(query.schema, names, values, where, grouped, groups, compiler.aggregates, having, order, limit)

    def compute_part(self, view: View) -> Part:
        """The result on one fragment: selected rows, or groups with partial aggregates."""
        with np.errstate(all="ignore"):
            if self.where is not None:
                rows = _find_true(self.where, view)
                view = view.take(rows) if rows.size < view.size else view
            return self._group_rows(view) if self.grouped else self._cut(self._select_rows(view))

    def select(self, view: View) -> Longs:
        """The indexes of the rows that satisfy the conditions of a query without groups."""
        rows = np.arange(view.size)
        with np.errstate(all="ignore"):
            for condition in (self.where, self.having):
                if condition is not None:
                    rows = rows[_find_true(condition, view.take(rows))]
        return rows

    def merge(self, parts: list[Part]) -> Part:
        """The result from all parts."""
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        with np.errstate(all="ignore"):
            if self.grouped:
                joined = self._select_rows(self._merge_groups(joined))
            joined = self._cut(joined)
        return {name: joined[f"c{place}"] for place, name in enumerate(self.names)}

    def _select_rows(self, view: View) -> Part:
        """The selected columns of a view, and those to order by."""
        if self.having is not None:
            view = view.take(_find_true(self.having, view))
        columns = {f"c{place}": _evaluate(value, view) for place, value in enumerate(self.values)}
        return columns | {f"o{place}": _evaluate(value, view) for place, (value, _) in enumerate(self.order)}

    def _cut(self, rows: Part) -> Part:
        """Apply ORDER BY and LIMIT."""
        columns = [_rank(rows[f"o{p}"]) for p in range(len(self.order))]
        keys = [-c.astype(np.float64) if down else c for c, (_, down) in zip(columns, self.order, strict=True)]
        if keys:
            order = np.lexsort(keys[::-1])
            rows = {name: column[order] for name, column in rows.items()}
        return rows if self.limit is None else {name: column[: self.limit] for name, column in rows.items()}

    def _group_rows(self, view: View) -> Part:
        keys = [_evaluate(group, view) for group in self.groups]
        distinct, inverse = _find_distinct(keys, view.size)
        part = {f"g{place}": column for place, column in enumerate(distinct)}
        size = distinct[0].size if distinct else 1
        for place, aggregate in enumerate(self.aggregates):
            argument = None if aggregate.argument is None else _evaluate(aggregate.argument, view)
            part |= {f"a{place}{name}": column for name, column in _collect(aggregate, argument, inverse, size).items()}
        return part

    def _merge_groups(self, part: Part) -> GroupView:
        """Merge the groups of all fragments that have the same key."""
        first = next(iter(part.values())) if part else np.empty(0)
        distinct, inverse = _find_distinct([part[f"g{place}"] for place in range(len(self.groups))], first.size)
        size = distinct[0].size if distinct else 1
        columns = list(distinct)
        for place, aggregate in enumerate(self.aggregates):
            mine = {name.removeprefix(f"a{place}"): part[name] for name in part if name.startswith(f"a{place}")}
            columns.append(_finish(aggregate, mine, inverse, size))
        return GroupView(columns or [np.empty(size)])


def _find_true(condition: Value, view: View) -> Longs:
    """Return the rows for which a condition is true."""
    return np.flatnonzero(np.broadcast_to(condition.of(view).true, view.size))


def _limit(compiler: Compiler, node: exp.Expr) -> int:
    """The value of LIMIT."""
    given = node.expression
    if not isinstance(given, exp.Literal) or given.is_string or not given.this.isdecimal() or len(given.this) > 18:
        compiler.complain(node, "LIMIT takes an integer, 0 or more")
    return int(given.this)


def _list_items(tree: exp.Select, schema: Schema) -> list[exp.Expr]:
    found: list[exp.Expr] = []
    for item in tree.expressions:
        if isinstance(item, exp.Star):
            found += [exp.column(name) for name in (schema.key, *schema.names)]
        else:
            found.append(item)
    return found


def _resolve(node: exp.Expr, items: list[exp.Expr], named: dict[str, exp.Expr]) -> exp.Expr:
    """Resolve a name or a number in GROUP BY or ORDER BY."""
    if (
        isinstance(node, exp.Literal)
        and not node.is_string
        and node.this.isdecimal()
        and len(node.this) < 10
        and 1 <= int(node.this) <= len(items)
    ):
        return items[int(node.this) - 1].unalias()
    if isinstance(node, exp.Column) and node.name.lower() in named:
        return named[node.name.lower()]
    return node


def _has_aggregate(node: exp.Expr | None, schema: Schema) -> bool:
    """Whether an expression contains an aggregate over keys: one whose argument is not just an atomic stream."""
    streams = {attribute.name.lower() for attribute in schema.attributes if isinstance(attribute, AST)}
    for found in node.find_all(exp.AggFunc) if node is not None else ():
        inner = found.this.unnest() if isinstance(found.this, exp.Expr) else None
        if not (isinstance(inner, exp.Column) and inner.name.lower() in streams):
            return True
    return False


def _evaluate(value: Value, view: View) -> Array:
    """Evaluate to a column as long as the view; streams to a table, latest first, NaN where there is no element."""
    given = value.of(view)
    if value.kind != STREAM:
        return np.broadcast_to(to_plain_column(given), view.size)
    everything: Ints = np.arange(view.size, dtype=np.int32)
    table = order_latest_first(given.values, given.counts, everything).astype(np.float64)
    table[np.arange(table.shape[1])[None, :] >= np.asarray(given.counts)[:, None]] = np.nan
    return table


def _rank(values: Array) -> Array:
    """Return numbers unchanged, and texts as their rank among the column's values."""
    return ranks(values) if values.dtype == object else values


def _find_distinct(keys: list[Array], size: int) -> tuple[list[Array], npt.NDArray[np.int64]]:
    """Return the distinct rows of some columns, and the index of each row among them."""
    if not keys:
        return [], np.zeros(size, np.int64)
    if len(keys) == 1 and keys[0].dtype.kind == "i" and keys[0].size:
        low, high = int(keys[0].min()), int(keys[0].max())
        if high - low < max(1 << 16, size):
            # few integers: counting is faster than sorting
            there = np.flatnonzero(np.bincount(keys[0] - low))
            place = np.zeros(high - low + 1, np.int64)
            place[there] = np.arange(there.size)
            return [there + low], place[keys[0] - low]
    # rows as bytes, so that NaN equals NaN; adding 0 makes -0 and 0 one
    table = np.ascontiguousarray(np.stack([_rank(key).astype(np.float64) + 0.0 for key in keys], axis=1))
    rows = table.view(np.dtype((np.void, table.itemsize * table.shape[1]))).reshape(-1)
    _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    return [key[first] for key in keys], inverse.reshape(-1)


def _collect(aggregate: KeyAggregate, argument: Array | None, inverse: npt.NDArray[np.int64], size: int) -> Part:
    """The partial results of an aggregate on one fragment, by group."""
    if argument is None:
        return {"n": np.bincount(inverse, minlength=size)}
    known = ~np.isnan(argument)
    argument, inverse = argument[known], inverse[known]
    part: Part = {"n": np.bincount(inverse, minlength=size)}
    if aggregate.function in ("sum", "avg"):
        part["s"] = np.bincount(inverse, weights=argument, minlength=size)
    if aggregate.function in ("min", "max"):
        part["e"] = _reduce_extreme(aggregate.function, argument.astype(np.float64), inverse, size)
    return part


def _reduce_extreme(function: str, values: Floats, inverse: npt.NDArray[np.int64], size: int) -> Floats:
    out = np.full(size, np.inf if function == "min" else -np.inf)
    if size == 1 and values.size:
        out[0] = values.min() if function == "min" else values.max()
    else:
        (np.minimum if function == "min" else np.maximum).at(out, inverse, values)
    return out


def _finish(aggregate: KeyAggregate, part: Part, inverse: npt.NDArray[np.int64], size: int) -> Array:
    """Merge the partial results of an aggregate, by group; NaN over no rows."""
    count = np.bincount(inverse, weights=part["n"], minlength=size)
    if aggregate.function == "count":
        return count.astype(np.int64)
    if aggregate.function in ("sum", "avg"):
        total = np.bincount(inverse, weights=part["s"], minlength=size)
        divided = total / count if aggregate.function == "avg" else total
        return np.asarray(np.where(count > 0, divided, np.nan))
    return np.asarray(np.where(count > 0, _reduce_extreme(aggregate.function, part["e"], inverse, size), np.nan))
