"""Boxes as classes: what an operator must define, and the state it can keep.

An operator is a frozen dataclass. Its fields are its parameters; ``outputs`` derives the schemas of its outputs from
those of its inputs, ``fresh`` creates its state, and ``step`` takes a train of every input, updates the state and
returns a train for every output. An output tuple inherits the order key of the tuple it was made from, so an operator
that depends only on its state and its tuples, in order, gives the same results however the stream is cut into trains.

>>> @register
... @dataclass(frozen=True)
... class Changed(Operator):
...     '''Lets a tuple pass when ``column`` is not what it was in the last tuple with the same ``id``.'''
...     name = "changed"
...     id: str
...     column: str
...
...     def outputs(self, tuples):
...         return {"out": tuples}
...
...     def fresh(self, tuples):
...         return {"last": KeyedTable({self.id: tuples[self.id]}, {"value": ("integer", -1)})}
...
...     def step(self, state, tuples):
...         rows = state["last"].rows(tuples.columns)
...         before = state["last"].swap("value", rows, tuples[self.column])
...         return {"out": tuples.take(before != tuples[self.column])}
>>> find("changed") is Changed
True
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from slipstream._cuboid.schema import Schema as CuboidSchema
from slipstream._errors import BadArgument, BadInput
from slipstream._network.column_types import plain_type, spark_type
from slipstream._network.flow import LIST, Train, count_ties, sort_train
from slipstream._network.state.groups import Groups
from slipstream._network.state.tracked_tables import FLOAT, INTEGER, TEXT, StateTable
from slipstream._runtime.state.store import Store
from slipstream._tools.numba_tools import Longs, compiled

Array: TypeAlias = npt.NDArray[Any]
Schema: TypeAlias = dict[str, str]

#: the type of an expression before Spark has analysed it
UNKNOWN = "unknown"
_ORDINAL = "#"
#: the place of what leaves when all input has come, in the order keys: behind everything that its last tuple caused
_AFTER = 1 << 56
_NUMPY: dict[str, Any] = {FLOAT: np.float64, TEXT: object, LIST: object}


# --- state


@compiled
def swap(column: Array, rows: Longs, values: Array) -> Array:
    """Put values in rows, one after the other; returns what each replaced."""
    before = np.empty_like(values)
    for i in range(rows.size):
        before[i] = column[rows[i]]
        column[rows[i]] = values[i]
    return before


class KeyedTable:
    """Rows of numbers found by a key; every column has an initial value.

    Key columns have any type; other columns are ``integer``, ``float`` or ``boolean``. Rows that were looked up count
    as changed, and a batch saves only these.

    >>> cars = KeyedTable({"vid": "integer"}, {"pos": ("integer", -1)})
    >>> rows = cars.rows({"vid": np.array([7, 8, 7])})
    >>> cars.swap("pos", rows, np.array([10, 20, 30])).tolist()
    [-1, -1, 10]
    >>> cars["pos"][rows].tolist()
    [30, 20, 30]
    """

    def __init__(self, key: Mapping[str, str], columns: Mapping[str, tuple[str, float]]) -> None:
        for name, (type_, _) in columns.items():
            if plain_type(type_) == TEXT:
                raise BadArgument(
                    f"column {name}: only the key of a keyed table can be text.",
                    hint="Store a number instead.",
                    code="bad-type",
                )
        known = {name: (_choose_kind(type_), value) for name, (type_, value) in columns.items()}
        self._groups = Groups({name: _choose_kind(type_) for name, type_ in key.items()}, known)

    def rows(self, columns: Mapping[str, Array]) -> Longs:
        """The row of each tuple's key, added if there is none.

        Get columns (``table[name]``) after this, not before: new rows may have moved them.
        """
        found = self._groups.codes(columns)
        self._groups.table.touch(found)
        return found

    def codes(self, columns: Mapping[str, Array]) -> Longs:
        """The row of each tuple's key, as a number for the key; existing rows do not count as changed."""
        return self._groups.codes(columns)

    def keys(self, column: str, rows: Longs) -> Array:
        """A column of the key, in some rows."""
        return self._groups.table.take(column, rows)

    def __getitem__(self, column: str) -> Array:
        """A column as an array over all rows, to read and write."""
        return self._groups.table.values(column)

    def swap(self, column: str, rows: Longs, values: Any) -> Array:
        """Put values in rows, tuple by tuple; returns what was there before each."""
        held = self[column]
        return swap(held, rows, np.ascontiguousarray(np.broadcast_to(values, rows.shape), dtype=held.dtype))

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def table(self) -> StateTable:
        """The rows, to be stored."""
        return self._groups.table

    def restore(self) -> None:
        """Make the index for rows that were loaded."""
        self._groups.restore()


class RowTable:
    """Rows without a key, in the order of arrival, such as tuples that wait for something.

    Columns are integers, or have the types of a mapping.

    >>> waiting = RowTable(("time", "vid"))
    >>> waiting.add({"time": np.array([1, 2, 3]), "vid": np.array([7, 8, 9])})
    >>> slots = waiting.slots()
    >>> waiting.pop(slots[waiting.table.take("time", slots) < 3])["vid"].tolist()
    [7, 8]
    >>> len(waiting.table)
    1
    """

    def __init__(self, columns: Sequence[str] | Mapping[str, str]) -> None:
        self.columns = tuple(columns)
        types = columns if isinstance(columns, Mapping) else dict.fromkeys(columns, INTEGER)
        self.table = StateTable({_ORDINAL: INTEGER, **{name: _choose_kind(type_) for name, type_ in types.items()}})
        self._next = 0

    def add(self, columns: Mapping[str, Array]) -> None:
        """Append rows."""
        count = len(next(iter(columns.values())))
        ordinal = np.arange(self._next, self._next + count)
        self._next += count
        self.table.add({_ORDINAL: ordinal, **columns}, count)

    def slots(self) -> Longs:
        """All rows, in order."""
        slots = self.table.slots()
        return slots[np.argsort(self.table.take(_ORDINAL, slots))]

    def pop(self, slots: Longs) -> dict[str, Array]:
        """Take rows out."""
        found = {name: self.table.take(name, slots) for name in self.columns}
        self.table.remove(slots)
        return found

    def restore(self) -> None:
        """Continue numbering after the rows that were loaded."""
        self._next = int(self.table.take(_ORDINAL, self.table.slots()).max(initial=-1)) + 1


def _choose_kind(type_: str) -> str:
    plain = plain_type(type_)
    return plain if plain in (FLOAT, TEXT) else INTEGER


_TABLES = (KeyedTable, RowTable)


class StoredState(Protocol):
    """State with its own representation and its own stores, such as a cuboid's fragment."""

    @property
    def stores(self) -> tuple[str, ...]:
        """The names of the stores it needs."""

    def save(self, stores: Sequence[Store], batch: int) -> None:
        """Write what changed; ``batch`` grows."""

    def load(self, stores: Sequence[Store]) -> None:
        """Load the saved state."""

    def publish(self, snapshot: Path, number: int, batch: int) -> None:
        """Write what readers see of the state, if anything; ``number`` is that of the partition."""

    def measure(self) -> tuple[int, int]:
        """Its rows, and the bytes they take."""


State: TypeAlias = Mapping[str, Any]  # of KeyedTable, RowTable or StoredState


@dataclass
class OperatorState:
    """The state of an operator, by name."""

    parts: State

    @property
    def tables(self) -> list[StateTable]:
        """The tables that are saved in the log of all boxes."""
        return [part.table for part in self.parts.values() if isinstance(part, _TABLES)]

    @property
    def kept(self) -> dict[str, StoredState]:
        """The parts with their own stores."""
        return {name: part for name, part in self.parts.items() if not isinstance(part, _TABLES)}

    def restore(self) -> None:
        """Rebuild what is derived from loaded tables."""
        for part in self.parts.values():
            if isinstance(part, _TABLES):
                part.restore()


# --- operators


@dataclass(frozen=True)
class Operator:
    """A box of your own: a frozen dataclass that defines its output columns and how it processes a batch of tuples.

    ``outputs`` gets the schema of every input and returns those of the outputs, ``fresh`` returns the state of the box
    (tables by name), and ``step`` gets the state and a train of every input and returns a train for every output.

    >>> @dataclass(frozen=True)
    ... class Fast(Operator):
    ...     name = "fast"
    ...     limit: float
    ...
    ...     def outputs(self, tuples):
    ...         return {"out": tuples}
    ...
    ...     def step(self, state, tuples):
    ...         return {"out": tuples.take(tuples["speed"] > self.limit)}
    >>> import slipstream as ss
    >>> ss.read("kafka://broker:9092/cars", {"id": "string", "speed": "double"}).through(Fast(90)).columns
    ['id', 'speed']
    """

    kind: ClassVar[str] = "operator"
    #: its name in networks
    name: ClassVar[str] = ""
    #: the number of inputs
    takes: ClassVar[int] = 1
    #: its outputs, in the order of their numbers
    ports: ClassVar[tuple[str, ...]] = ("out",)
    #: whether it uses the state of the box that its first input comes from; ``outputs`` and ``step`` get that box first
    borrows: ClassVar[bool] = False
    #: whether it outputs the columns of its key unchanged, so that boxes after it can use its partitions
    passes_key: ClassVar[bool] = False

    @property
    def key(self) -> tuple[str, ...]:
        """Columns of every input such that tuples with different values never interact; none if all tuples may.

        Of a box that works on the state of another: of its inputs but the first, the columns that must equal that key.
        """
        return ()

    @property
    def bounds(self) -> tuple[int, ...]:
        """The first key of each partition except the first; empty if partitions are by hash."""
        return ()

    def timed(self, state: State, borrower: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Record how long a box that borrows the state takes."""
        return nullcontext()

    def outputs(self, *args: Any, **kwargs: Any) -> Mapping[str, Schema]:
        """The schema of each output, from those of the inputs; raises ``BadInput`` if they do not fit."""
        raise NotImplementedError(f"{type(self).__name__}.outputs")

    def fresh(self, *args: Any, **kwargs: Any) -> State:  # noqa: ARG002
        """The state before the first tuple, from the schemas of the inputs: tables by name."""
        return {}

    def unshared(self, state: State) -> None:
        """Called if no other box borrows the state, so nothing must be kept for one."""

    def step(self, *args: Any, **kwargs: Any) -> Mapping[str, Train]:
        """Process a train of every input; returns the trains of the outputs that have tuples."""
        raise NotImplementedError(f"{type(self).__name__}.step")

    def published(self, *inputs: Schema) -> Mapping[str, CuboidSchema]:  # noqa: ARG002
        """The cuboids that readers see of its state, by name, given the schemas of the inputs."""
        return {}

    def finish(self, state: State, width: int) -> Mapping[str, Train]:  # noqa: ARG002
        """The tuples to emit when the input has ended, in trains whose order keys have this width."""
        return {}

    def port(self, output: str) -> int:
        """The number of an output."""
        if output not in self.ports:
            raise BadInput(
                f"{self.name or self.kind} has no output {output!r}.",
                hint=f"It has: {', '.join(self.ports)}.",
                code="unknown-name",
                found=output,
                expected=[*self.ports],
            )
        return self.ports.index(output)


def require(schema: Schema, column: str, *types: str) -> None:
    """Refuse a schema that lacks a column or has it with another type; types that are not yet known pass.

    >>> require({"vid": "string"}, "vid", "bigint")
    Traceback (most recent call last):
        ...
    slipstream._errors.BadInput: column 'vid' is string.
    It must be: bigint.
    """
    if column not in schema:
        raise BadInput(
            f"no column {column!r}.",
            hint=f"The input has: {', '.join(schema)}.",
            code="unknown-column",
            found=column,
            expected=[*schema],
        )
    kinds = [plain_type(type_) for type_ in types]
    if types and plain_type(schema[column]) not in (*kinds, UNKNOWN):
        wanted = ", ".join(map(spark_type, kinds))
        raise BadInput(
            f"column {column!r} is {spark_type(schema[column])}.", hint=f"It must be: {wanted}.", code="bad-type"
        )


_registered: dict[str, type[Operator]] = {}
OperatorClass = TypeVar("OperatorClass", bound=type[Operator])


def register(operator: OperatorClass) -> OperatorClass:
    """Make an operator class known under its ``name``."""
    label = operator.__name__
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", operator.name):
        raise BadArgument(
            f"operator {label}: {operator.name!r} is not a valid name.",
            hint='Set name = "..." in the class, with lower-case letters, digits and underscores.',
            code="bad-name",
            found=operator.name,
        )
    if not dataclasses.is_dataclass(operator) or not operator.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise BadArgument(
            f"operator {label}: not a frozen dataclass.",
            hint="Write @dataclass(frozen=True) above it.",
            code="user-code",
        )
    if not operator.ports or len(set(operator.ports)) != len(operator.ports):
        raise BadArgument(
            f"operator {label}: invalid ports {operator.ports}.", hint="Name each output once.", code="user-code"
        )
    _registered[operator.name] = operator
    return operator


def find(name: str) -> type[Operator]:
    """The operator class registered under a name."""
    if name not in _registered:
        raise _report_unknown(name)
    return _registered[name]


def _report_unknown(name: str) -> BadInput:
    near = difflib.get_close_matches(name, _registered, 1)
    guess = f"Did you mean {near[0]!r}?" if near else "Give the Python file that registers it with --functions."
    return BadInput(f"no operator {name!r}.", hint=guess, code="unknown-name", found=name)


def list_operators() -> list[type[Operator]]:
    """Return the operator classes that networks can name, in the order in which they were registered."""
    return list(_registered.values())


@dataclass(frozen=True)
class Unloaded(Operator):
    """An operator whose class is not registered: it can be drawn and written, but not checked or run."""

    given: Mapping[str, Any]

    def outputs(self, *args: Any, **kwargs: Any) -> Mapping[str, Schema]:  # noqa: ARG002
        """Refuse, as :func:`find` does."""
        raise _report_unknown(self.name)


@lru_cache(maxsize=256)
def make_unloaded(name: str, takes: int, named: tuple[str, ...]) -> type[Unloaded]:
    """Return the class of an unloaded operator: all that is known is how a file uses it.

    >>> make_unloaded("braking", 1, ("slower",))({"by": 30}).port("slower")
    1
    """
    return type("Unloaded", (Unloaded,), {"name": name, "takes": takes, "ports": ("", *named)})


# --- running one


def run(
    operator: Operator,
    state: State,
    inputs: Sequence[Train],
    schemas: Sequence[Schema],
    level: int,
    lender: Operator | None = None,
    *,
    last: bool = False,
) -> list[Train]:
    """Run one step of an operator; returns the train of each port, checked and sorted.

    Tuples are numbered at ``level`` of their order keys. With ``last``, the input has ended.
    """
    width = inputs[0].order.shape[1]
    lent = () if lender is None else (lender,)
    steps = [(operator.step(*lent, state, *inputs), 0)] if any(map(len, inputs)) or not last else []
    steps += [(operator.finish(state, width), _AFTER)] if last else []
    released: dict[str, list[Train]] = {output: [] for output in operator.ports}
    for found, after in steps:
        for output, train in found.items():
            schema = schemas[operator.port(output)]
            released[output].append(_delay(_check_train(operator, output, train, schema), level, after))
    return [
        _place(Train.concat(trains), level) if trains else Train.nothing(schema, width)
        for trains, schema in zip(released.values(), schemas, strict=True)
    ]


def _delay(train: Train, level: int, after: int) -> Train:
    """Tuples that leave after others of the same arrival, wherever the stream was cut."""
    if not after:
        return train
    order = train.order.copy()
    order[:, level] += after
    return Train(train.ts, train.shed, order, train.columns)


def _place(train: Train, level: int) -> Train:
    """Sort tuples and number those with equal keys: the tuples of ``finish`` follow those of ``step``."""
    train = sort_train(train)
    order = train.order.copy()
    order[:, level] += count_ties(train.order)
    return Train(train.ts, train.shed, order, train.columns)


def _check_train(operator: Operator, output: str, train: Train, schema: Schema) -> Train:
    """Check and convert a train to the columns that the boxes after an operator expect."""
    columns = {}
    for name, type_ in schema.items():
        values = train.columns.get(name)
        if values is None or np.shape(values) != (len(train),):
            got = "is missing" if values is None else f"has the shape {np.shape(values)}, not ({len(train)},)"
            raise BadInput(
                f"operator {operator.name or operator.kind}, output {output}: column {name!r} {got}.",
                hint="step must return the columns that outputs declares.",
                code="user-code",
            )
        columns[name] = np.asarray(values, _NUMPY.get(type_, np.int64))
    return train.with_columns(columns)


def list_parameters(operator: Operator) -> dict[str, Any]:
    """The parameters that differ from their defaults, as plain values."""
    found = {}
    for field in dataclasses.fields(operator):
        value = getattr(operator, field.name)
        if field.default is dataclasses.MISSING or value != field.default:
            found[field.name] = list(value) if isinstance(value, tuple) else value
    return found


def emits_at_end(box: Any) -> bool:
    """Whether a box emits tuples when the input has ended."""
    return isinstance(box, Operator) and type(box).finish is not Operator.finish


def list_stores(states: Mapping[str, Any]) -> Iterable[tuple[str, StoredState]]:
    """The parts of boxes' state that have their own stores, by the names of these."""
    for box, state in states.items():
        if isinstance(state, OperatorState):
            yield from ((f"{box}__{name}", part) for name, part in state.kept.items())
