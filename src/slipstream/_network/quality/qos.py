"""Quality of service: the utility of an output, as piecewise linear graphs from 0 to 1.

There are three graphs, as in figure 4 of the paper: over the delay (seconds from arrival to delivery), over the share
of tuples delivered, and over the value of a column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from slipstream._errors import BadInput

if TYPE_CHECKING:
    from slipstream._tools.numba_tools import Floats


@dataclass(frozen=True)
class Graph:
    """A piecewise linear utility; constant beyond its first and last point.

    >>> late = Graph(((0, 1), (5, 1), (10, 0)))
    >>> late.at(7.5)
    0.5
    >>> late.good_until
    5.0
    """

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        points = tuple((float(x), float(y)) for x, y in self.points)
        object.__setattr__(self, "points", points)
        xs = [x for x, _ in points]
        if not points or not np.isfinite(xs).all() or xs != sorted(set(xs)) or not all(0 <= y <= 1 for _, y in points):
            raise BadInput(
                f"QoS graph {points}: not a graph of utility.",
                hint="Give points [x, utility] with growing x and utilities from 0 to 1.",
                code="malformed-value",
            )

    def at(self, x: float) -> float:
        """The utility at one place."""
        return float(np.interp(x, *self._axes))

    def over(self, xs: npt.ArrayLike) -> Floats:
        """The utility at many places."""
        return np.asarray(np.interp(np.asarray(xs, dtype=np.float64), *self._axes), dtype=np.float64)

    @property
    def _axes(self) -> tuple[Sequence[float], Sequence[float]]:
        return [x for x, _ in self.points], [y for _, y in self.points]

    def envelope(self) -> Graph:
        """The least concave graph above this one, which has no cliffs.

        >>> Graph(((0, 0), (0.9, 0.1), (1, 1))).envelope().points
        ((0.0, 0.0), (1.0, 1.0))
        """
        hull: list[tuple[float, float]] = []
        for x, y in self.points:
            while len(hull) > 1 and _turns_up(hull[-2], hull[-1], (x, y)):
                hull.pop()
            hull.append((x, y))
        return Graph(tuple(hull))

    @property
    def good_until(self) -> float:
        """The threshold of the good zone: the last place of full utility."""
        best = max(y for _, y in self.points)
        return max(x for x, y in self.points if y == best)


def _turns_up(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[1] - a[1]) * (c[0] - a[0]) <= (c[1] - a[1]) * (b[0] - a[0])


#: two seconds are good, a minute is too late
DELAY = Graph(((0, 1), (2, 1), (60, 0)))
#: worth what is delivered
DROP = Graph(((0, 0), (1, 1)))


@dataclass(frozen=True)
class Quality:
    """The utility of an output: over delay, over the share delivered and, if a column is named, over its values."""

    delay: Graph = field(default=DELAY)
    drop: Graph = field(default=DROP)
    value: Graph | None = None
    value_column: str = ""
