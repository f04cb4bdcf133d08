"""Boxes on cuboids: ``keep`` fills one from a stream, ``query`` evaluates a query at every arrival, ``lookup`` joins.

A cuboid is the state of its keep box alone: ``query`` and ``lookup`` borrow it. What they see does not depend on where
the stream is cut. A query sees every tuple that was kept, with the past of its key as it was then. A lookup sees the
row of its tuple's key as of that tuple's arrival, including everything from this arrival and earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slipstream._cuboid import declare
from slipstream._cuboid.fragment import EMPTY
from slipstream._cuboid.fragment_state import QUERY, FragmentState, make_empty_rows
from slipstream._cuboid.query import stream_functions
from slipstream._cuboid.query.access import Ring
from slipstream._cuboid.query.relations import ArrivedTuples, cast_values
from slipstream._cuboid.query.sql import Part, Query
from slipstream._cuboid.query.stream_functions import Pattern
from slipstream._cuboid.schema import AST, KEY, Schema
from slipstream._cuboid.snapshots.snapshot_files import Catalogue
from slipstream._errors import BadInput
from slipstream._feeds.text_ids import are_valid
from slipstream._network.boxes import operators
from slipstream._network.boxes.operators import Operator, require
from slipstream._network.boxes.windows.window_functions import NULL_INTEGER, nulls
from slipstream._network.flow import LIST, Array, Train
from slipstream._runtime.state.id_numbers import Names
from slipstream._runtime.state.store import Store
from slipstream._tools.numba_tools import Bools, Longs, compiled

NUMBERS = ("integer", "float", "boolean")
REASON = "reason"
_CREATE = "CREATE CUBOID car (vid INT KEY, speed AST(6))"


# --- the state


@dataclass
class KeptCuboid:
    """The fragment of a keep box and, during a batch, how its tuples changed it."""

    name: str
    schema: Schema
    is_read: bool = True  # whether another box borrows it
    before: npt.NDArray[np.void] | None = None  # the row of each arrival's key before the batch
    were_there: Bools | None = None
    fragment_state: FragmentState = field(init=False)

    def __post_init__(self) -> None:
        self.fragment_state = FragmentState(self.schema)

    @property
    def stores(self) -> tuple[str, ...]:
        """The rows, and the names of keys that are texts."""
        return ("rows", "names") if self.schema.text_key else ("rows",)

    def take(self, given: Array, columns: dict[str, Array]) -> None:
        """Take tuples in, in their order; the keys given are numbers or texts."""
        keys = self.fragment_state.number(pa.array(given, pa.string())) if self.schema.text_key else given
        if self.is_read:
            fragment = self.fragment_state.fragment
            rows = fragment.find(keys)
            self.were_there = rows != EMPTY
            self.before = np.zeros(keys.size, self.schema.dtype)
            self.before[self.were_there] = fragment.parts.rows.take(rows[self.were_there])
        self.fragment_state.append(keys, columns, show=self.is_read)

    def arrivals(self, count: int) -> ArrivedTuples | None:
        """The tuples that were appended last, of which there must be ``count``."""
        found = self.fragment_state.arrivals
        assert (found.size if found else 0) == count
        return found

    def as_of(self, given: Array, moments: Longs, stamps: Longs) -> tuple[Bools, ArrivedTuples]:
        """Which keys were known at their moments, and how those looked then.

        ``stamps`` are the moments of the tuples that were taken last. Both ascend.
        """
        fragment = self.fragment_state.fragment
        # no text stands for a null: no key is empty
        keys = given if fragment.names is None else fragment.names.find(pa.array(given, pa.string()).fill_null(""))
        rows = fragment.find(keys)
        known, held = rows != EMPTY, fragment.parts.rows
        arrivals = self.arrivals(stamps.size)
        if arrivals is None:
            return known, self._show_rows(held, rows[known])
        assert self.before is not None
        assert self.were_there is not None
        latest, first = find_latest(fragment.find(arrivals.plain(KEY)), stamps, rows, moments)
        known &= (latest >= 0) | (first < 0) | self.were_there[first]
        rows, latest, first = rows[known], latest[known], first[known]
        now = self._show_rows(held, rows)
        return known, _put(_put(now, first, self._show_rows(self.before)), latest, arrivals)

    def _show_rows(self, held: npt.NDArray[np.void], rows: Array | None = None) -> ArrivedTuples:
        """Some rows as a query sees them."""
        taken = held if rows is None else held.take(rows)
        rings = {a.name: Ring(taken[a.name], taken[a.count]) for a in self.schema.attributes if isinstance(a, AST)}
        plains = {a.name: taken[a.name] for a in self.schema.attributes if not isinstance(a, AST)}
        return ArrivedTuples({KEY: taken[KEY], **plains}, rings, self.fragment_state.fragment.names)

    def save(self, stores: Sequence[Store], batch: int) -> None:
        """Write what changed."""
        self.fragment_state.arrivals = self.before = self.were_there = None
        self.fragment_state.save(batch, stores[0])
        if self.fragment_state.fragment.names is not None:
            self.fragment_state.fragment.names.save(stores[1])

    def load(self, stores: Sequence[Store]) -> None:
        """Load the saved state."""
        self.fragment_state = FragmentState.load(self.schema, stores[0])
        if self.schema.text_key:
            self.fragment_state.fragment.names = Names.load(stores[1])

    def publish(self, snapshot: Path, number: int, batch: int) -> None:
        """Publish what the batch changed; it is visible when the batch is committed."""
        self.fragment_state.publish(snapshot, self.name, number, batch)

    def measure(self) -> tuple[int, int]:
        """Its keys, and the bytes they take."""
        return len(self.fragment_state.fragment), self.fragment_state.fragment.nbytes


def find_latest(rows: Array, stamps: Longs, wanted: Array, moments: Longs) -> tuple[Longs, Longs]:
    """Return, for each row wanted at a moment, its latest arrival by then and its first arrival; -1 if there is none.

    >>> latest, first = find_latest(np.array([5, 6, 5]), np.array([1, 2, 3]), np.array([5, 5, 6, 7]), np.full(4, 2))
    >>> latest.tolist(), first.tolist()
    ([0, 0, 1, -1], [0, 0, 1, -1])
    """
    _, codes = np.unique(np.concatenate([rows, wanted]), return_inverse=True)
    codes = codes.reshape(-1)
    return _find_latest(codes[: rows.size], stamps, codes[rows.size :], moments, int(codes.max(initial=-1)) + 1)


@compiled
def _find_latest(codes: Longs, stamps: Longs, wanted: Longs, moments: Longs, count: int) -> tuple[Longs, Longs]:
    last, first = np.full(count, -1), np.full(count, -1)
    for i in range(codes.size - 1, -1, -1):
        first[codes[i]] = i
    latest, earliest = np.empty(wanted.size, np.int64), np.empty(wanted.size, np.int64)
    done = 0
    for i in range(wanted.size):
        while done < codes.size and stamps[done] <= moments[i]:
            last[codes[done]] = done
            done += 1
        latest[i], earliest[i] = last[wanted[i]], first[wanted[i]]
    return latest, earliest


def _put(into: ArrivedTuples, places: Longs, given: ArrivedTuples) -> ArrivedTuples:
    """Replace rows by those of another view, where ``places`` has an index."""
    here = np.flatnonzero(places >= 0)
    at = places[here]
    plains = {name: _replace(column, here, given.plain(name)[at]) for name, column in into.plains.items()}
    rings = {
        name: Ring(*(_replace(old, here, new[at]) for old, new in zip(ring, given.ring(name), strict=True)))
        for name, ring in into.rings.items()
    }
    return ArrivedTuples(plains, rings, into.names)


def _replace(column: Array, here: Longs, values: Array) -> Array:
    column = np.array(column)
    column[here] = values
    return column


# --- the boxes


@lru_cache(maxsize=256)
def _parse_declaration(text: str) -> tuple[str, Schema, dict[str, Pattern]]:
    script = declare.parse(text)
    if len(script.cuboids) != 1 or script.queries or script.selects:
        raise BadInput(
            "a keep box must declare one cuboid, and may declare patterns.", hint=_CREATE, code="bad-expression"
        )
    ((name, schema),) = script.cuboids.items()
    return name, schema, script.patterns


@dataclass(frozen=True)
class Keep(Operator):
    """Fills a cuboid that ``CREATE CUBOID`` declares from a stream; emits the tuples that were kept, and rejects."""

    kind: ClassVar[str] = "keep"
    ports: ClassVar[tuple[str, ...]] = ("kept", "rejects")
    passes_key: ClassVar[bool] = True
    cuboid: str
    ranges: tuple[int, ...] = ()  # partitions by range of the key: the first key of each except the first

    def __post_init__(self) -> None:
        object.__setattr__(self, "ranges", tuple(self.ranges))
        if list(self.ranges) != sorted(set(self.ranges)):
            raise BadInput(
                f"ranges {self.ranges}: not in increasing order.",
                hint="Give the first key of each range.",
                code="out-of-range",
            )
        if self.ranges and self.schema.text_key:
            raise BadInput(
                f"ranges {self.ranges}: the key is text.",
                hint="Leave ranges out: the hash of a key decides.",
                code="bad-type",
            )

    @property
    def cuboid_name(self) -> str:
        """Its name in queries."""
        return _parse_declaration(self.cuboid)[0]

    @property
    def schema(self) -> Schema:
        """Its schema."""
        return _parse_declaration(self.cuboid)[1]

    @property
    def patterns(self) -> dict[str, Pattern]:
        """The patterns declared with it."""
        return _parse_declaration(self.cuboid)[2]

    @property
    def key(self) -> tuple[str, ...]:
        """The cuboid's key."""
        return (self.schema.key,)

    @property
    def bounds(self) -> tuple[int, ...]:
        """The first keys of partitions, if they are ranges."""
        return self.ranges

    def timed(self, state: operators.State, borrower: str) -> AbstractContextManager[None]:
        """Record how long a query takes, for the figures of real-time consistency."""
        return self._find_keeper(state).timed(QUERY + borrower)

    @staticmethod
    def _find_keeper(state: operators.State) -> FragmentState:
        kept: KeptCuboid = state["cuboid"]
        return kept.fragment_state

    def published(self, *inputs: operators.Schema) -> dict[str, Schema]:  # noqa: ARG002
        """The cuboid."""
        return {self.cuboid_name: self.schema}

    def outputs(self, tuples: operators.Schema) -> dict[str, operators.Schema]:
        """The tuples unchanged; rejects also have a reason."""
        require(tuples, self.schema.key, _find_key_type(self.schema))
        for name in self.schema.names:
            require(tuples, name, *NUMBERS)
        if REASON in tuples:
            raise BadInput(
                f"the column {REASON!r} is reserved for rejects.",
                hint="Rename it with a map box.",
                code="bad-name",
                found=REASON,
            )
        return {"kept": tuples, "rejects": {**tuples, REASON: "text"}}

    def fresh(self, tuples: operators.Schema) -> dict[str, KeptCuboid]:  # noqa: ARG002
        """An empty cuboid."""
        return {"cuboid": KeptCuboid(self.cuboid_name, self.schema)}

    def unshared(self, state: operators.State) -> None:
        """Do not keep arrivals: no other box reads them."""
        state["cuboid"].is_read = False

    def step(self, state: Mapping[str, KeptCuboid], tuples: Train) -> dict[str, Train]:
        """Append the tuples."""
        good, columns, reasons = self._judge(tuples)
        if not good.all():
            columns = {name: values[good] for name, values in columns.items()}
        state["cuboid"].take(columns.pop(KEY), columns)
        bad = tuples.take(~good).plus(**{REASON: reasons[~good]})
        return {"kept": tuples if good.all() else tuples.take(good), "rejects": bad}

    def _judge(self, tuples: Train) -> tuple[Bools, dict[str, Array], Array]:
        """Return which tuples can be kept, their columns in the cuboid's types, and why the others cannot be kept."""
        good = np.ones(len(tuples), np.bool_)
        reasons = np.full(len(tuples), None, dtype=object)
        columns = {}
        for name, source in ((KEY, self.schema.key), *((name, name) for name in self.schema.names)):
            given = tuples[source]
            missing = nulls(given)
            if name == KEY and self.schema.text_key:
                columns[name], unfit, why = given, ~are_valid(pa.array(given, pa.string())), "is empty or not one line"
            else:
                dtype = self.schema.dtype[name].base
                columns[name], unfit = cast_values(np.where(missing, 0, given), dtype)
                why = f"does not fit into {dtype}"
            for bad, reason in ((missing, f"no {source}"), (unfit, f"{source} {why}")):
                reasons[bad & good] = reason
                good &= ~bad
        return good, columns, reasons


def _find_key_type(schema: Schema) -> str:
    return "text" if schema.text_key else "integer"


@lru_cache(maxsize=256)
def _parse_query(keep: Keep, text: str) -> Query:
    """Parse a query over the cuboid of a keep box; it may declare its own patterns."""
    script = declare.parse(text)
    if len(script.selects) != 1 or script.queries or script.cuboids:
        raise BadInput("a query box must have one SELECT, after any CREATE PATTERN statements.", code="bad-expression")
    return Query.parse(script.selects[0], {keep.cuboid_name: keep.schema}, keep.patterns | script.patterns)


def _find_types(query: Query) -> operators.Schema:
    """The columns of a query's result."""
    found = {}
    for name, type_ in zip(query.names, make_empty_rows(query).schema.types, strict=True):
        found[name] = _type_of(type_)
    if len(found) < len(query.names):
        raise BadInput("two columns have the same name.", hint="Rename one with AS.", code="duplicate-name")
    return found


def _type_of(type_: pa.DataType) -> str:
    if pa.types.is_list(type_):
        return LIST
    return "text" if pa.types.is_string(type_) else "float" if pa.types.is_floating(type_) else "integer"


def _convert_result(part: Part, types: operators.Schema) -> dict[str, Array]:
    """Convert a query's result to the columns of a train."""
    return {name: _convert_column(np.asarray(column), types[name]) for name, column in part.items()}


def _convert_column(column: Array, type_: str) -> Array:
    if type_ == LIST:
        return np.fromiter(column.astype(np.float64), object, len(column))
    if type_ == "integer" and column.dtype.kind == "f":
        return np.where(np.isnan(column), NULL_INTEGER, column).astype(np.int64)
    return column


class _Asking(Operator):
    """A box that reads a cuboid; users' functions are pickled with it."""

    borrows: ClassVar[bool] = True

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (type(self), vars(self).copy(), stream_functions.list_user_functions())


def _arrived(kind: type[_Asking], parameters: dict[str, Any], added: dict[str, Any]) -> _Asking:
    stream_functions.add_functions(added)
    return kind(**parameters)


@dataclass(frozen=True)
class CuboidQuery(_Asking):
    """A continuous query in Streamonas-SQL over the cuboid of a keep box, evaluated at every tuple that it keeps."""

    kind: ClassVar[str] = "query"
    select: str

    def outputs(self, keep: Keep, kept: operators.Schema) -> dict[str, operators.Schema]:  # noqa: ARG002
        """The columns of the SELECT."""
        query = _parse_query(_is_keep(keep), self.select)
        query.check_continuous("this query")
        return {"out": _find_types(query)}

    def step(self, keep: Keep, state: Mapping[str, KeptCuboid], kept: Train) -> dict[str, Train]:
        """Evaluate the query at every arrival."""
        arrivals = state["cuboid"].arrivals(len(kept))
        if arrivals is None:
            return {}
        query = _parse_query(keep, self.select)
        rows, found = query.select(arrivals)
        return {"out": kept.take(rows).with_columns(_convert_result(found, _find_types(query)))}


@dataclass(frozen=True)
class CuboidLookup(_Asking):
    """Joins tuples of the second input with the row of their ``by`` in the cuboid of the keep box before it.

    ``columns`` are expressions of Streamonas-SQL over the row. Tuples whose key is unknown are dropped or, with
    ``outer``, get nulls.
    """

    kind: ClassVar[str] = "lookup"
    takes: ClassVar[int] = 2
    columns: dict[str, str]
    by: str
    outer: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """The column that is looked up: the key of the cuboid."""
        return (self.by,)

    def _query(self, keep: Keep) -> Query:
        wanted = ", ".join(f"{text} AS {name}" for name, text in self.columns.items())
        query = _parse_query(keep, f"SELECT {wanted} FROM {keep.cuboid_name}")
        if not query.keeps_all or query.names != list(self.columns):
            raise BadInput(
                "its columns must be expressions over one key.",
                hint="mean: avg(speed), last: speed[0]",
                code="bad-expression",
            )
        return query

    def outputs(
        self,
        keep: Keep,
        kept: operators.Schema,  # noqa: ARG002
        tuples: operators.Schema,
    ) -> dict[str, operators.Schema]:
        """The tuple's columns, and those looked up."""
        require(tuples, self.by, _find_key_type(_is_keep(keep).schema))
        if not self.columns:
            raise BadInput("no columns to look up.", hint="lookup: {mean: avg(speed)}", code="missing-value")
        for name in self.columns:
            if name in tuples:
                raise BadInput(
                    f"column {name!r} already exists in the tuple.",
                    hint="Rename the result.",
                    code="duplicate-name",
                    found=name,
                )
        found = _find_types(self._query(_is_keep(keep)))
        for name, type_ in found.items():
            if type_ == LIST:
                raise BadInput(
                    f"column {name!r} is an atomic stream.",
                    hint=f"Write {name}[0], or a function of it.",
                    code="bad-type",
                )
        return {"out": tuples | found}

    def step(self, keep: Keep, state: Mapping[str, KeptCuboid], kept: Train, tuples: Train) -> dict[str, Train]:
        """Look up rows as of each tuple's arrival."""
        known, rows = state["cuboid"].as_of(tuples[self.by], tuples.order[:, 0].copy(), kept.order[:, 0].copy())
        query = self._query(keep)
        found = _convert_result(query.compute(rows), _find_types(query))
        if not self.outer:
            return {"out": tuples.take(known).plus(**found)}
        return {"out": tuples.plus(**{name: _scatter(column, known) for name, column in found.items()})}


def _scatter(column: Array, where: Bools) -> Array:
    """Spread values over the places where ``where`` is true; the others are null."""
    null: Any = {"f": np.nan, "O": None}.get(column.dtype.kind, NULL_INTEGER)
    whole: Array = np.full(where.size, null, column.dtype)
    whole[where] = column
    return whole


def _is_keep(box: Any) -> Keep:
    if not isinstance(box, Keep):
        raise BadInput(
            "its first input is not a keep box.", hint="Give the name of a keep box first.", code="bad-network"
        )
    return box


# --- what a network publishes


def collect_cuboids(boxes: Iterable[tuple[Any, Sequence[operators.Schema]]]) -> Catalogue | None:
    """The cuboids that a network's boxes publish, given each with the schemas of its inputs; None without any."""
    found: dict[str, Schema] = {}
    patterns: dict[str, Pattern] = {}
    for box, inputs in boxes:
        for name, schema in box.published(*inputs).items() if isinstance(box, Operator) else ():
            if name in found:
                raise BadInput(
                    f"two boxes keep the cuboid {name!r}.", hint="Rename one.", code="duplicate-name", found=name
                )
            found[name] = schema
        patterns |= box.patterns if isinstance(box, Keep) else {}
    return Catalogue(found, patterns) if found else None
