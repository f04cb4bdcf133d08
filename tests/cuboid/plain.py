"""Oracles for cuboids, without arrays: dictionaries of deques, and Pearson's r by NumPy, window by window."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import numpy as np


def pearson(window: Sequence[float], pattern: Sequence[float]) -> float | None:
    """None for a constant."""
    if len(set(window)) < 2 or len(set(pattern)) < 2:
        return None
    return float(np.corrcoef(window, pattern)[0, 1])


def members(
    ticks: Iterable[tuple[int, float]], pattern: Sequence[float], least: float
) -> Iterator[tuple[int, int, float]]:
    """Key, tick and r whenever the latest elements of a key correlate with the pattern."""
    past: dict[int, deque[float]] = {}
    count: dict[int, int] = {}
    for key, value in ticks:
        window = past.setdefault(key, deque(maxlen=len(pattern)))
        window.append(value)
        count[key] = count.get(key, 0) + 1
        if len(window) == len(pattern):
            r = pearson(list(window), pattern)
            if r is not None and r > least:
                yield key, count[key], r
