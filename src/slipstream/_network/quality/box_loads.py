"""What each box of a network costs and remembers, over time.

The tasks of a stage measure their boxes in every batch. The journal gets a line for every few seconds, so that it does
not grow with the number of boxes times the number of batches:

    {"boxes": {NAME: [MS, ROWS, BYTES]}, "boxes_ms": SPAN}

MS is the time that the box worked in the SPAN milliseconds up to that commit, over all partitions; ROWS and BYTES are
what it remembers. The box with the largest share of the time is the one that holds the others up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

#: in notes and in the journal: the boxes, and the milliseconds that their line covers
BOXES, SPAN = "boxes", "boxes_ms"
#: milliseconds between two lines
_EVERY_MS = 2_000


class BoxWork(NamedTuple):
    """The milliseconds that a box worked, and the rows and bytes of its state."""

    ms: float = 0.0
    rows: int = 0
    bytes: int = 0

    def __add__(self, other: Any) -> BoxWork:
        """The load of two partitions."""
        return BoxWork(*(one + two for one, two in zip(self, other, strict=True)))


@dataclass
class LoadSummary:
    """Sums up the loads of boxes between two lines of the journal."""

    _work: dict[str, float] = field(default_factory=dict)
    _since_ms: int | None = None

    def add(self, partitions: Iterable[Mapping[str, Sequence[float]]], committed_ms: int) -> dict[str, Any]:
        """Add a batch; returns what goes into the journal, which is nothing for most batches.

        >>> summary = LoadSummary()
        >>> summary.add([{"over": [1.0, 5, 40]}, {"over": [3.0, 2, 16]}], 10_000)
        {'boxes': {'over': [4.0, 7, 56]}, 'boxes_ms': 0}
        >>> summary.add([{"over": [2.0, 8, 64]}], 11_000)
        {}
        >>> summary.add([{"over": [2.5, 9, 72]}], 12_000)
        {'boxes': {'over': [4.5, 9, 72]}, 'boxes_ms': 2000}
        """
        batch: dict[str, BoxWork] = {}
        for partition in partitions:
            for name, load in partition.items():
                batch[name] = batch.get(name, BoxWork()) + load
        if not batch:
            return {}
        for name, load in batch.items():
            self._work[name] = self._work.get(name, 0.0) + load.ms
        if self._since_ms is not None and committed_ms - self._since_ms < _EVERY_MS:
            return {}
        span = committed_ms - self._since_ms if self._since_ms is not None else 0
        found = {name: [round(self._work[name], 3), load.rows, load.bytes] for name, load in batch.items()}
        self._work, self._since_ms = {}, committed_ms
        return {BOXES: found, SPAN: span}
