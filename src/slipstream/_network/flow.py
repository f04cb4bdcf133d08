"""Trains of tuples on an arc, and their order.

A tuple's order key is the number of the arrival that caused it, then its position under that arrival, level by level.
Keys compare as rows of integers, so tuples that took different paths can be merged back into the order of arrival.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstream._tools.numba_tools import Bools, Longs, compiled

Array = npt.NDArray[Any]

#: the type of an atomic stream, the latest element first: queries return it to outputs, but no box accepts it
LIST = "list"


@dataclass(frozen=True)
class Train:
    """Tuples on an arc: arrival times, marks of where to drop them, order keys (a row each), and columns.

    >>> nothing = Train.nothing({"speed": "float"}, 1)
    >>> len(nothing), nothing["speed"].dtype.name
    (0, 'float64')
    """

    ts: Longs
    shed: Longs
    order: Longs
    columns: dict[str, Array]

    def __len__(self) -> int:
        return int(self.ts.size)

    def __getitem__(self, column: str) -> Array:
        """A column of the tuples."""
        return self.columns[column]

    def take(self, which: Longs | Bools) -> Train:
        """Some of the tuples."""
        if which.dtype == np.bool_:  # computes the positions once, not for every column
            which = np.flatnonzero(which)
            if which.size == len(self):
                return self
        columns = {name: values[which] for name, values in self.columns.items()}
        return Train(self.ts[which], self.shed[which], self.order[which], columns)

    def with_columns(self, columns: dict[str, Array]) -> Train:
        """The same tuples with other columns."""
        return Train(self.ts, self.shed, self.order, columns)

    def plus(self, **columns: Array) -> Train:
        """The same tuples with more columns."""
        return self.with_columns({**self.columns, **columns})

    @classmethod
    def concat(cls, trains: Sequence[Train]) -> Train:
        """Trains with the same columns as one."""
        if len(trains) == 1:
            return trains[0]
        columns = {name: np.concatenate([train.columns[name] for train in trains]) for name in trains[0].columns}
        ts, shed, order = (np.concatenate([getattr(t, part) for t in trains]) for part in ("ts", "shed", "order"))
        return cls(ts, shed, order, columns)

    @classmethod
    def nothing(cls, types: Mapping[str, str], width: int) -> Train:
        """No tuples, with columns of these types and order keys of this width."""
        empty = np.empty(0, np.int64)
        return cls(empty, empty, np.empty((0, width), np.int64), no_tuples(types))


def no_tuples(types: Mapping[str, str]) -> dict[str, Array]:
    """Columns of these types without a value."""
    dtypes: dict[str, Any] = {"float": np.float64, "text": object, LIST: object}
    return {name: np.empty(0, dtypes.get(type_, np.int64)) for name, type_ in types.items()}


def split_keys(order: Longs) -> list[Longs]:
    """The positions of order keys level by level, each contiguous; most levels of most tuples are zero.

    >>> [level.tolist() for level in split_keys(np.array([[7, 0], [8, 0]]))]
    [[7, 8], [0, 0]]
    """
    used = np.asarray(order.any(axis=0))
    return [
        np.ascontiguousarray(order[:, place]) if used[place] else np.zeros(len(order), np.int64)
        for place in range(order.shape[1])
    ]


def sort_train(train: Train) -> Train:
    """The tuples in their order."""
    return train if is_sorted(train.order) else train.take(sort_order(train.order, np.arange(len(train))))


@compiled
def is_sorted(order: Longs) -> bool:
    """Whether rows are in lexicographic order already."""
    for row in range(1, order.shape[0]):
        for column in range(order.shape[1]):
            before, now = order[row - 1, column], order[row, column]
            if before < now:
                break
            if before > now:
                return False
    return True


def sort_order(order: Longs, last: Longs) -> Longs:
    """The places of rows in lexicographic order; of equal ones, that with the smaller ``last`` first."""
    return np.lexsort((last, *order.T[::-1]))


def merge_order(orders: Sequence[Longs]) -> Longs | None:
    """The places of all rows in lexicographic order, of equal ones the earlier part's first; None if they are in it."""
    if not all(is_sorted(order) for order in orders):
        return sort_order(np.concatenate(orders), np.arange(sum(len(order) for order in orders)))
    if len(orders) == 1:
        return None
    found = np.arange(len(orders[0]))
    for done, order in enumerate(orders[1:], 1):
        before = orders[0] if done == 1 else np.concatenate(orders[:done])[found]
        found = merge(before, found, order, len(found))
    return found


@compiled
def merge(one: Longs, places: Longs, two: Longs, begin: int) -> Longs:
    """Merge sorted rows: the places of ``one``, and those of ``two`` from ``begin`` on, in the common order."""
    found = np.empty(one.shape[0] + two.shape[0], np.int64)
    i = k = 0
    while i < one.shape[0] and k < two.shape[0]:
        is_later = False
        for column in range(one.shape[1]):
            if one[i, column] != two[k, column]:
                is_later = one[i, column] > two[k, column]
                break
        if is_later:
            found[i + k] = begin + k
            k += 1
        else:
            found[i + k] = places[i]
            i += 1
    while i < one.shape[0]:
        found[i + k] = places[i]
        i += 1
    while k < two.shape[0]:
        found[i + k] = begin + k
        k += 1
    return found


def find_places(*trains: Train) -> list[Longs]:
    """The place of each tuple among those of all trains, by arrival; what one arrival caused, train by train."""
    lengths = [len(train) for train in trains]
    sorted_ = merge_order([np.ascontiguousarray(train.order[:, :1]) for train in trains])
    place = np.arange(sum(lengths))
    if sorted_ is not None:
        place[sorted_] = np.arange(sorted_.size)
    return np.split(place, np.cumsum(lengths)[:-1])


def count_ties(order: Longs) -> Longs:
    """For each of sorted order keys, the number of equal ones before it.

    >>> count_ties(np.array([[3, 0], [3, 0], [3, 1]])).tolist()
    [0, 1, 0]
    """
    same = np.r_[False, (order[1:] == order[:-1]).all(axis=1)][: len(order)]
    return ordinals(np.cumsum(~same))


def ordinals(trigger: Longs) -> Longs:
    """Number the tuples that the same arrival released.

    >>> ordinals(np.array([3, 3, 5, 8, 8, 8])).tolist()
    [0, 1, 0, 0, 1, 2]
    """
    begins = np.flatnonzero(np.r_[True, trigger[1:] != trigger[:-1]])[: trigger.size]
    lengths = np.diff(np.r_[begins, trigger.size])
    return np.arange(trigger.size) - np.repeat(begins, lengths)
