"""The street network that vehicles drive on: an undirected graph whose edges have a geometry and a speed limit.

Nodes are crossings and ends of streets. Every edge is stored once per direction, sorted by source, so that a compiled
shortest-path search uses plain arrays. Coordinates are metres in a plane.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from slipstream._errors import BadInput
from slipstream._tools.numba_tools import Floats, Ints

SIDE, MAIN, FREEWAY = 30.0, 50.0, 70.0
KMH = 3.6
#: km/h; a street with a lower limit is closed
SLOWEST = 1e-3
#: metres from the origin: more than once around the earth
FARTHEST = 1e8

Place = tuple[float, float]


@dataclass(frozen=True)
class Street:
    """The segments of one street and its speed limit in km/h; a limit of zero or less means closed."""

    vmax: float
    segments: Sequence[tuple[float, float, float, float]]


@dataclass(frozen=True)
class StreetNetwork:
    """Nodes, and directed edges sorted by source: edge e runs from ``source[e]`` along ``shape[e]:shape[e+1]``."""

    x: Floats
    y: Floats
    first: Ints
    source: Ints
    target: Ints
    vmax: Floats
    cost: Floats
    shape: Ints
    shape_x: Floats
    shape_y: Floats
    #: the EPSG code of its plane, 0 if it has none
    srid: int = 0

    @property
    def nodes(self) -> int:
        """The number of crossings and ends."""
        return len(self.x)

    @property
    def edges(self) -> int:
        """The number of directed edges."""
        return len(self.target)

    def arrays(self) -> dict[str, Any]:
        """Return its arrays by name."""
        return {name: value for name, value in self.__dict__.items() if name != "srid"}

    def save(self, path: Path) -> None:
        """Save it as ``.npz``."""
        np.savez_compressed(path, **self.arrays(), srid=np.array(self.srid))

    @classmethod
    def load(cls, path: Path) -> StreetNetwork:
        """Load what ``save`` wrote."""
        with np.load(path) as stored:
            srid = int(stored["srid"]) if "srid" in stored.files else 0
            return cls(**{name: stored[name] for name in stored.files if name != "srid"}, srid=srid)


def build(streets: Iterable[Street], where: str = "streets") -> StreetNetwork:
    """Build the largest connected network of open streets, split at crossings and street ends."""
    segments = _segments(streets)
    if bad := next((piece for piece in segments if not all(abs(v) <= FARTHEST for v in (*piece[0], *piece[1]))), None):
        raise BadInput(
            f"{where}: a street from {bad[0]} to {bad[1]} is out of range.",
            hint=f"Coordinates must be within {FARTHEST:,.0f} m of the origin.",
            code="bad-coordinates",
        )
    pieces = _split(segments)
    if not pieces:
        raise BadInput(
            f"{where}: no open street.",
            hint="A street needs a positive speed limit and two points.",
            code="empty-input",
        )
    network = _assemble(_largest(_chains(pieces)))
    if network.nodes < 2:
        raise BadInput(
            f"{where}: the only street is a loop, so there are no trips.",
            hint="Add a street that crosses it.",
            code="empty-input",
        )
    return network


def _key(place: Place) -> Place:
    return round(place[0], 6), round(place[1], 6)


_Piece = tuple[Place, Place, float, int]


def _segments(streets: Iterable[Street]) -> list[_Piece]:
    """Return (from, to, vmax, street) of every open segment with a length."""
    out = []
    for number, street in enumerate(streets):
        if SLOWEST <= street.vmax < math.inf:
            for x0, y0, x1, y1 in street.segments:
                a, b = _key((x0, y0)), _key((x1, y1))
                if a != b:
                    out.append((a, b, street.vmax, number))
    return out


def _split(segments: list[_Piece]) -> list[_Piece]:
    """Split segments where another one crosses or touches them between their ends."""
    if not segments:
        return []
    lines = shapely.linestrings([[a, b] for a, b, _, _ in segments])
    one, other = shapely.STRtree(lines).query(lines, predicate="intersects")
    meet = shapely.get_coordinates(shapely.intersection(lines[one], lines[other]), return_index=True)
    cuts: dict[int, set[Place]] = {}
    for (x, y), pair in zip(meet[0].tolist(), meet[1].tolist(), strict=True):
        if one[pair] != other[pair]:
            cuts.setdefault(int(one[pair]), set()).add(_key((x, y)))
    out = []
    for i, (a, b, vmax, street) in enumerate(segments):
        inner = sorted(cuts.get(i, set()) - {a, b}, key=lambda p: (p[0] - a[0]) ** 2 + (p[1] - a[1]) ** 2)
        path = [a, *inner, b]
        out += [(p, q, vmax, street) for p, q in pairwise(path) if p != q]
    return list({(min(p, q), max(p, q)): (p, q, vmax, street) for p, q, vmax, street in out}.values())


_Edge = tuple[list[Place], float]


def _chains(pieces: list[_Piece]) -> list[_Edge]:
    """Join pieces to polylines between nodes: a place where exactly two pieces of one street meet is not a node."""
    around: dict[Place, list[int]] = {}
    for i, (a, b, _, _) in enumerate(pieces):
        around.setdefault(a, []).append(i)
        around.setdefault(b, []).append(i)
    through = {
        place for place, those in around.items() if len(those) == 2 and pieces[those[0]][2:] == pieces[those[1]][2:]
    }
    edges, used = [], [False] * len(pieces)
    inner_first = sorted(range(len(pieces)), key=lambda i: pieces[i][0] in through and pieces[i][1] in through)
    for i in inner_first:
        if not used[i]:
            used[i] = True
            a, b, vmax, _ = pieces[i]
            back = _walk(a, pieces, around, through, used)
            ahead = _walk(b, pieces, around, through, used)
            edges.append(([*reversed(back), a, b, *ahead], vmax))
    return edges


def _walk(
    place: Place, pieces: list[_Piece], around: dict[Place, list[int]], through: set[Place], used: list[bool]
) -> list[Place]:
    """Return the places after ``place`` up to the next node."""
    out = []
    while place in through:
        following = [i for i in around[place] if not used[i]]
        if not following:
            break
        used[following[0]] = True
        a, b, _, _ = pieces[following[0]]
        place = b if a == place else a
        out.append(place)
    return out


def _largest(edges: list[_Edge]) -> list[_Edge]:
    """Return the edges of the component with the most segments."""
    parent: dict[Place, Place] = {}

    def root(place: Place) -> Place:
        parent.setdefault(place, place)
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    for path, _ in edges:
        parent[root(path[0])] = root(path[-1])
    sizes: dict[Place, int] = {}
    for path, _ in edges:
        sizes[root(path[0])] = sizes.get(root(path[0]), 0) + len(path) - 1
    best = max(sizes, key=lambda place: (sizes[place], place))
    return [edge for edge in edges if root(edge[0][0]) == best]


def _assemble(edges: list[_Edge]) -> StreetNetwork:
    """Build arrays from polylines in both directions; nodes are numbered by place, so input order does not matter."""
    nodes = sorted({path[end] for path, _ in edges for end in (0, -1)})
    number = {place: i for i, place in enumerate(nodes)}
    both = [(path[::way], vmax) for path, vmax in edges for way in (1, -1)]
    both.sort(key=lambda e: (number[e[0][0]], number[e[0][-1]], e[0]))
    source = np.array([number[path[0]] for path, _ in both], dtype=np.int32)
    target = np.array([number[path[-1]] for path, _ in both], dtype=np.int32)
    vmax = np.array([v for _, v in both])
    shape = np.concatenate(([0], np.cumsum([len(path) for path, _ in both]))).astype(np.int32)
    flat = np.array([place for path, _ in both for place in path], dtype=float)
    length = np.array([np.hypot(*np.diff(np.array(path), axis=0).T).sum() for path, _ in both])
    first = np.searchsorted(source, np.arange(len(nodes) + 1)).astype(np.int32)
    places = np.array(nodes, dtype=float)
    x, y, shape_x, shape_y = (np.ascontiguousarray(a) for a in (*places.T, *flat.T))
    return StreetNetwork(x, y, first, source, target, vmax, KMH * length / vmax, shape, shape_x, shape_y)
