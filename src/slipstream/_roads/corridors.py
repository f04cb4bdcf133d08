"""Linear referencing: a road as a line in each direction, so that a place on it is a number of metres.

The edges of a road, found by what its signs say, form paths. In each direction the longest path counts; a ring begins
at its westernmost node. Directions are numbered: 0 is the one that the first edge of the file's drawing takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from slipstream._errors import BadArgument
from slipstream._roads.street_network import StreetNetwork
from slipstream._tools.numba_tools import Bools, Floats, Longs


@dataclass(frozen=True)
class Corridor:
    """The edges of a road: the direction of each, and the metres of its direction before it."""

    edge: Longs
    direction: Longs
    start: Floats


def find_corridor(
    network: StreetNetwork, *, ref: str = "", name: str = "", edges: Sequence[Sequence[int]] = ()
) -> Corridor:
    """Return the road of a ref or a name, or of the edges of each direction in order."""
    if sum(map(bool, (ref, name, edges))) != 1:
        raise BadArgument("corridor: no road is named.", hint="Give ref=, name= or edges=.", code="missing-value")
    if edges:
        return _measure(network, [_check_path(network, path) for path in edges])
    chosen = _find_labelled(network, ref or name, network.refs if ref else network.names)
    first = _find_longest_path(network, chosen)
    rest = chosen.copy()
    rest[first] = False
    reverse = network.reverse[first]
    other = _find_longest_path(network, rest) if rest.any() else []
    if (reverse >= 0).all():  # a road without a median: the same line, driven the other way
        other = reverse[::-1].tolist()
    return _measure(network, [first, other])


def make_table(corridor: Corridor, route: int, segment: float) -> pa.Table:
    """Return a corridor as rows to join matched positions with, by ``edge``."""
    if not segment > 0:
        raise BadArgument(f"segment {segment}: out of range.", hint="Give metres, such as 1000.", code="out-of-range")
    count = len(corridor.edge)
    return pa.table(
        {
            "edge": corridor.edge,
            "route": np.full(count, route),
            "dir": corridor.direction,
            "start": corridor.start,
            "segment_m": np.full(count, float(segment)),
        }
    )


def _find_labelled(network: StreetNetwork, wanted: str, texts: np.ndarray[tuple[int], np.dtype[np.str_]]) -> Bools:
    """Return which edges have a ref or a name; a sign may have several refs, divided by semicolons."""
    label = np.array([wanted in [part.strip() for part in text.split(";")] for text in texts.tolist()], np.bool_)
    chosen = label[network.label]
    if not chosen.any():
        some = ", ".join(sorted({text for text in texts.tolist() if text})[:8]) or "none"
        raise BadArgument(
            f"corridor: no road {wanted!r}.",
            hint=f"Known, among others: {some}.",
            code="unknown-name",
            found=wanted,
        )
    return np.asarray(chosen)


def _find_longest_path(network: StreetNetwork, chosen: Bools) -> list[int]:
    """Return the longest of the paths that edges form; at a fork, the way straight on.

    Ramps have the same ref: of the edges that could continue a path, the one in its direction does.
    """
    left, best, best_metres = set(np.flatnonzero(chosen).tolist()), list[int](), -1.0
    while left:
        start = min(
            left, key=lambda edge: (_count_before(network, chosen, edge), network.x[network.source[edge]], edge)
        )
        path, edge = [start], start
        while (following := _find_next(network, left - set(path), edge)) is not None:
            path.append(following)
            edge = following
        left -= {*path, *network.reverse[path].tolist()}
        metres = float(network.length[path].sum())
        if metres > best_metres:
            best, best_metres = path, metres
    return best


def _count_before(network: StreetNetwork, chosen: Bools, edge: int) -> int:
    """Return how many edges of the road lead to an edge."""
    into = np.flatnonzero(chosen & (network.target == network.source[edge]))
    return int(np.count_nonzero(into != network.reverse[edge]))


def _find_next(network: StreetNetwork, left: set[int], edge: int) -> int | None:
    """Return the edge of the road that goes straight on, if there is one."""
    node = int(network.target[edge])
    onward = [
        e for e in range(network.first[node], network.first[node + 1]) if e in left and e != network.reverse[edge]
    ]
    heading = _compute_heading(network.places(edge)[-2:])
    return max(
        onward, key=lambda e: (float(np.dot(heading, _compute_heading(network.places(e)[:2]))), -e), default=None
    )


def _compute_heading(ends: Floats) -> Floats:
    step = ends[1] - ends[0]
    return np.asarray(step / max(float(np.hypot(*step)), 1e-9))


def _check_path(network: StreetNetwork, path: Sequence[int]) -> list[int]:
    edges = [int(edge) for edge in path]
    if bad := [edge for edge in edges if not 0 <= edge < network.edges]:
        raise BadArgument(
            f"corridor: no edge {bad[0]}.", hint=f"Edges are 0 to {network.edges - 1:,}.", code="unknown-name"
        )
    for before, after in pairwise(edges):
        if network.target[before] != network.source[after]:
            raise BadArgument(
                f"corridor: edge {after} does not begin where edge {before} ends.",
                hint="Give the edges in the order in which a vehicle drives on them.",
                code="bad-argument",
            )
    return edges


def _measure(network: StreetNetwork, paths: Sequence[Sequence[int]]) -> Corridor:
    parts = [np.asarray(path, np.int64) for path in paths if len(path)]
    lengths = [network.length[path] for path in parts]
    return Corridor(
        np.concatenate(parts),
        np.repeat(np.arange(len(parts)), [len(path) for path in parts]),
        np.concatenate([np.cumsum(metres) - metres for metres in lengths]),
    )
