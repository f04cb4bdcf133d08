"""What compiled kernels share: arrays that are passed on without counting references."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from slipstream._tools.numba_tools import Longs, borrow, compiled


class Pair(NamedTuple):
    """Two arrays."""

    one: Longs
    two: Longs


@compiled
def add_up(pair: Any, rows: Longs) -> int:
    """Add to the second array of a borrowed pair what is in its first one, and return the sum."""
    pair, rows = borrow((pair, rows))
    for row in rows:
        pair.two[row] += pair.one[row]
    return int(pair.two.sum())


def test_borrowed_arrays_are_the_same_arrays() -> None:
    pair = Pair(np.arange(5), np.zeros(5, np.int64))
    before = sys.getrefcount(pair.one)
    total = add_up(pair, np.array([1, 3]))
    after = sys.getrefcount(pair.one)  # not in the assertion, which pytest rewrites to one that holds it
    assert after == before
    assert total == 4
    assert pair.two.tolist() == [0, 1, 0, 3, 0]
