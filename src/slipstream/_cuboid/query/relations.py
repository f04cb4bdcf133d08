"""The rows that a query is evaluated on: the keys of a fragment, or the arrivals of a batch, with the same interface.

A one-off query sees every key once, as of a batch. A continuous query sees every arrival once, with the past as it was
then; so its results do not depend on where batches are cut, and keys without arrivals cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from slipstream._cuboid.fragment import Fragment, append_all
from slipstream._cuboid.query.access import Ring
from slipstream._cuboid.schema import AST, KEY, KEY_TEXT, Schema
from slipstream._runtime.state.id_numbers import Names
from slipstream._tools.numba_tools import Bools, Ints, Longs, compiled


class View(Protocol):
    """Rows to evaluate a query on."""

    @property
    def size(self) -> int:
        """How many rows there are."""

    def plain(self, name: str) -> npt.NDArray[Any]:
        """A plain attribute, or the key."""

    def ring(self, name: str) -> Ring:
        """An atomic stream."""

    def take(self, rows: Longs) -> View:
        """Some of the rows."""


def find_key_texts(names: Names, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The texts of keys by their numbers."""
    return np.asarray(names.texts.take(numbers.astype(np.int64)).to_numpy(zero_copy_only=False))


@dataclass(frozen=True)
class Rows:
    """Rows of a fragment, all or some."""

    schema: Schema
    rows: npt.NDArray[np.void]
    names: Names | None = None

    @classmethod
    def of(cls, fragment: Fragment) -> Rows:
        """All rows of a fragment."""
        return cls(fragment.schema, fragment.rows, fragment.names)

    @property
    def size(self) -> int:
        """How many rows there are."""
        return int(self.rows.size)

    def plain(self, name: str) -> npt.NDArray[Any]:
        """A plain attribute, or the key."""
        if name == KEY_TEXT and self.names is not None:
            return find_key_texts(self.names, self.rows[KEY])
        return np.asarray(self.rows[name])

    def ring(self, name: str) -> Ring:
        """An atomic stream."""
        stream = self.schema.stream(name)
        return Ring(self.rows[stream.name], self.rows[stream.count])

    def take(self, rows: Longs) -> Rows:
        """Some of the rows."""
        return Rows(self.schema, self.rows.take(rows), self.names)


@dataclass(frozen=True)
class ArrivedTuples:
    """The tuples of a batch in order, each with the streams of its key as they were after it."""

    plains: dict[str, npt.NDArray[Any]]
    rings: dict[str, Ring]
    names: Names | None = None

    @property
    def size(self) -> int:
        """The number of arrivals."""
        return int(self.plains[KEY].size)

    def plain(self, name: str) -> npt.NDArray[Any]:
        """A plain attribute as it arrived, or the key."""
        if name == KEY_TEXT and self.names is not None:
            return find_key_texts(self.names, self.plains[KEY])
        return self.plains[name]

    def ring(self, name: str) -> Ring:
        """An atomic stream."""
        return self.rings[name]

    def take(self, rows: Longs) -> ArrivedTuples:
        """Some of them."""
        rings = {name: Ring(ring.values[rows], ring.counts[rows]) for name, ring in self.rings.items()}
        return ArrivedTuples({name: column[rows] for name, column in self.plains.items()}, rings, self.names)


@compiled
def append_and_show(
    ring: npt.NDArray[Any], counts: npt.NDArray[Any], rows: Ints, values: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Append elements in arrival order; returns a copy of the stream after each."""
    depth = ring.shape[1]
    shown, ticks = np.empty((rows.size, depth), dtype=ring.dtype), np.empty(rows.size, dtype=counts.dtype)
    for i in range(rows.size):
        row = rows[i]
        ring[row, counts[row] % depth] = values[i]
        counts[row] += 1
        ticks[i] = counts[row]
        for k in range(depth):
            shown[i, k] = ring[row, k]
    return shown, ticks


def concat_columns(
    schema: Schema, parts: list[dict[str, npt.NDArray[Any]]]
) -> tuple[Longs, dict[str, npt.NDArray[Any]]]:
    """Concatenate parts, of which there may be none; returns the keys and the columns."""
    names = (KEY, *schema.names)
    empty = {name: np.empty(0, schema.dtype[name].base) for name in names}
    columns = {name: np.concatenate([part[name] for part in [empty, *parts]]) for name in names}
    return columns.pop(KEY), columns


def cast_values(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> tuple[npt.NDArray[Any], Bools]:
    """Convert values to the type of an attribute; also returns which of them do not fit.

    >>> held, unfit = cast_values(np.array([7, 300]), np.dtype(np.uint8))
    >>> unfit.tolist()
    [False, True]
    """
    with np.errstate(invalid="ignore", over="ignore"):
        held = values.astype(dtype)
        unfit = (held != values) if dtype.kind in "iu" else (np.isfinite(values) & ~np.isfinite(held))
    return held, unfit


def append_rows(
    fragment: Fragment, keys: Longs, columns: dict[str, npt.NDArray[Any]], *, show: bool
) -> ArrivedTuples | None:
    """Append tuples to a fragment, in order: streams grow, plain attributes get their latest value.

    With ``show``, returns them as arrivals for continuous queries.
    """
    rows = fragment.upsert(keys)
    rings = {}
    for attribute in fragment.schema.attributes:
        values = np.ascontiguousarray(columns[attribute.name])
        held = fragment.parts.rows[attribute.name]
        if not isinstance(attribute, AST):
            # the last value of a key wins, as NumPy assigns in order
            held[rows] = values
        elif show:
            rings[attribute.name] = Ring(*append_and_show(held, fragment.parts.rows[attribute.count], rows, values))
        else:
            append_all(held, fragment.parts.rows[attribute.count], rows, values)
    plains = {a.name: columns[a.name] for a in fragment.schema.attributes if not isinstance(a, AST)}
    return ArrivedTuples({KEY: keys, **plains}, rings, fragment.names) if show else None
