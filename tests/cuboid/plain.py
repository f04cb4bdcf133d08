"""Oracles for cuboids, without arrays: dictionaries of deques, and Pearson's r by NumPy, window by window."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

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


class PlainCars:
    """The cars that an engine with so many fragments publishes, report by report: fields of text, in dictionaries.

    A car is a vehicle on an expressway. It is forgotten when it was silent for more than 90 s before its minute, by the
    clock of its fragment, and so is its past.
    """

    def __init__(self, fragments: int) -> None:
        self.fragments = fragments
        self.cars: dict[tuple[int, int], list[list[int]]] = {}
        self.minute: dict[int, int] = {}

    def take(self, line: str) -> list[list[int]]:
        """Take a report; returns the past of its car with it, the latest first."""
        report = list(map(int, line.split(",")))
        _, time, vid, _, xway = report[:5]
        self.minute[xway % self.fragments] = time // 60
        past = self.cars.setdefault((xway, vid), [])
        if past and past[0][1] < time // 60 * 60 - 90:
            past.clear()
        past.insert(0, report)
        del past[6:]
        return past

    def rows(self) -> dict[int, dict[str, Any]]:
        """What is seen of each vehicle that is not forgotten: its newest car."""
        seen: dict[int, list[list[int]]] = {}
        for (xway, vid), past in self.cars.items():
            horizon = self.minute[xway % self.fragments] * 60 - 90
            if past[0][1] >= horizon and past[0][1] > seen.get(vid, [[0, -1]])[0][1]:
                seen[vid] = past
        return {vid: _row(past) for vid, past in seen.items()}


def _row(past: list[list[int]]) -> dict[str, Any]:
    _, time, vid, _, xway, lane, direction, _, pos = past[0][:9]
    pasts = {"speed": [report[3] for report in past], "segment": [report[7] for report in past]}
    return {"vid": vid, "time": time, "xway": xway, "lane": lane, "dir": direction, "pos": pos, **pasts}
