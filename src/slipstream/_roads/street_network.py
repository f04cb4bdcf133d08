"""The one street network: a directed graph whose edges have a geometry, a speed limit and what signs say.

Nodes are crossings and ends of streets. A street that may be driven in both directions is two edges, each the other's
``reverse``. Edges are sorted by source, so that compiled searches use plain arrays. Coordinates are metres in a plane.
Vehicles of BerlinMOD drive on it, and positions are matched to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstream._moving.space.plane import Plane
from slipstream._tools.numba_tools import Bools, Bytes, Floats, Ints, Longs, compiled

KMH = 3.6

#: classes of roads, by importance; an edge has the number
CLASSES = (
    *("motorway", "motorway_link", "trunk", "trunk_link", "primary", "primary_link", "secondary", "secondary_link"),
    *("tertiary", "tertiary_link", "unclassified", "residential", "living_street", "service", "other"),
)
OTHER = CLASSES.index("other")
#: bits of ``structure``
BRIDGE, TUNNEL = 1, 2

Texts = npt.NDArray[np.str_]


@dataclass(frozen=True)
class Tags:
    """What is known of a street besides its geometry; of most files, little."""

    #: 1: one-way as drawn, -1: one-way against it, 0: both ways
    oneway: int = 0
    #: the limit against the direction in which it is drawn, in km/h; None: the same
    vmax_back: float | None = None
    kind: str = "other"
    layer: int = 0
    structure: int = 0
    name: str = ""
    ref: str = ""
    #: its number in the file; 0: none
    way: int = 0


PLAIN = Tags()


@dataclass(frozen=True)
class Street:
    """The segments of one street and its speed limit in km/h; a limit of zero or less means closed.

    With ``nodes``, its places are numbered as in its file, and streets meet where they share a number. Without, they
    meet where they cross or touch.
    """

    vmax: float
    segments: Sequence[tuple[float, float, float, float]]
    tags: Tags = PLAIN
    nodes: Sequence[Any] = ()


def _make_no_longs() -> Longs:
    return np.empty(0, np.int64)


def _make_no_texts() -> Texts:
    return np.array([""])


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
    #: of each edge: its metres, the edge of the other direction (-1: none), whether it runs as the street is drawn
    length: Floats = field(default_factory=lambda: np.empty(0))
    reverse: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    forward: Bools = field(default_factory=lambda: np.empty(0, np.bool_))
    #: its class (of ``CLASSES``), layer, bridge or tunnel, the number of its street in the file, and its label
    kind: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))
    layer: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    structure: Bytes = field(default_factory=lambda: np.empty(0, np.uint8))
    way: Longs = field(default_factory=_make_no_longs)
    label: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    #: of each label: the name of a street and its number on signs
    names: Texts = field(default_factory=_make_no_texts)
    refs: Texts = field(default_factory=_make_no_texts)
    #: turns that are forbidden, from an edge into another
    banned_from: Ints = field(default_factory=lambda: np.empty(0, np.int32))
    banned_to: Ints = field(default_factory=lambda: np.empty(0, np.int32))

    def __post_init__(self) -> None:
        """Complete what networks from before one-ways and classes do not have: every edge has a reverse."""
        count = self.edges
        missing: dict[str, Callable[[], Any]] = {
            "length": lambda: measure(self.shape, self.shape_x, self.shape_y),
            "reverse": lambda: find_reverses(self.source, self.target, self.shape, self.shape_x, self.shape_y),
            "forward": lambda: np.ones(count, np.bool_),
            "kind": lambda: np.full(count, OTHER, np.uint8),
            "layer": lambda: np.zeros(count, np.int32),
            "structure": lambda: np.zeros(count, np.uint8),
            "way": lambda: np.zeros(count, np.int64),
            "label": lambda: np.zeros(count, np.int32),
        }
        for name, make in missing.items():
            if len(getattr(self, name)) != count:
                object.__setattr__(self, name, make())

    @property
    def nodes(self) -> int:
        """The number of crossings and ends."""
        return len(self.x)

    @property
    def edges(self) -> int:
        """The number of directed edges."""
        return len(self.target)

    @property
    def plane(self) -> Plane | None:
        """The plane that it was projected to, if it is known: a UTM zone."""
        return Plane.utm(self.srid % 100, south=self.srid // 100 == 327) if self.srid else None

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether every street may be driven in both directions at the same speed."""
        return bool((self.reverse >= 0).all() and (self.vmax[self.reverse] == self.vmax).all())

    def places(self, edge: int) -> npt.NDArray[np.float64]:
        """Return the vertices of an edge, a row each."""
        part = slice(self.shape[edge], self.shape[edge + 1])
        return np.column_stack((self.shape_x[part], self.shape_y[part]))

    def arrays(self) -> dict[str, Any]:
        """Return its arrays by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "srid"}

    def save(self, path: Path) -> None:
        """Save it as ``.npz``."""
        np.savez_compressed(path, **self.arrays(), srid=np.array(self.srid))

    @classmethod
    def load(cls, path: Path) -> StreetNetwork:
        """Load what ``save`` wrote."""
        with np.load(path) as stored:
            srid = int(stored["srid"]) if "srid" in stored.files else 0
            return cls(**{name: stored[name] for name in stored.files if name != "srid"}, srid=srid)


@compiled
def measure(shape: Ints, x: Floats, y: Floats) -> Floats:
    """Return the metres of each polyline."""
    out = np.zeros(len(shape) - 1)
    for edge in range(len(out)):
        for i in range(shape[edge] + 1, shape[edge + 1]):
            out[edge] += np.hypot(x[i] - x[i - 1], y[i] - y[i - 1])
    return out


def find_reverses(source: Ints, target: Ints, shape: Ints, x: Floats, y: Floats) -> Ints:
    """Return for each edge the one with the same vertices in the other order; -1 if there is none."""
    found: dict[Any, int] = {}
    keys = []
    for edge in range(len(source)):
        part = slice(shape[edge], shape[edge + 1])
        vertices = x[part].tobytes(), y[part].tobytes()
        back = x[part][::-1].tobytes(), y[part][::-1].tobytes()
        found[int(source[edge]), int(target[edge]), *vertices] = edge
        keys.append((int(target[edge]), int(source[edge]), *back))
    return np.array([found.get(key, -1) for key in keys], np.int32)


@compiled
def _find_reached(first: Ints, other: Ints, edges: Ints, start: int, open_: Bools) -> Bools:
    """Return the open nodes that can be reached from ``start`` along edges in rows ``first``."""
    seen, stack, size = np.zeros(len(first) - 1, np.bool_), np.empty(len(first), np.int32), 1
    seen[start], stack[0] = True, start
    while size:
        size -= 1
        node = stack[size]
        for i in range(first[node], first[node + 1]):
            there = other[edges[i]]
            if open_[there] and not seen[there]:
                seen[there] = True
                stack[size] = there
                size += 1
    return seen


def find_strong(network: StreetNetwork) -> Bools:
    """Return the nodes of the largest part in which every node can be reached from every other one.

    >>> find_strong(StreetNetwork(*_make_line()))
    array([ True,  True])
    """
    every = np.arange(network.edges, dtype=np.int32)
    backwards = np.argsort(network.target, kind="stable").astype(np.int32)
    first_back = np.searchsorted(network.target[backwards], np.arange(network.nodes + 1)).astype(np.int32)
    open_, best = np.ones(network.nodes, np.bool_), np.zeros(network.nodes, np.bool_)
    while open_.sum() > best.sum():
        start = int(np.argmax(open_))
        ahead = _find_reached(network.first, network.target, every, start, open_)
        part = ahead & _find_reached(first_back, network.source, backwards, start, open_)
        best = part if part.sum() > best.sum() else best
        open_ &= ~part
    return best


def _make_line() -> tuple[Any, ...]:
    ends, way = np.array([0.0, 1.0]), np.array([0, 1], np.int32)
    shape, xs = np.array([0, 2, 4], np.int32), np.array([0.0, 1.0, 1.0, 0.0])
    first = np.array([0, 1, 2], np.int32)
    return (ends, np.zeros(2), first, way, way[::-1].copy(), np.full(2, 50.0), np.ones(2), shape, xs, np.zeros(4))


def restrict(network: StreetNetwork, kept: Bools) -> StreetNetwork:
    """Return the network of some of its nodes, and of the edges between them."""
    edge_kept = kept[network.source] & kept[network.target]
    edges, node = np.flatnonzero(edge_kept), np.cumsum(kept) - 1
    number = np.where(edge_kept, np.cumsum(edge_kept) - 1, -1)
    size = np.diff(network.shape)[edges]
    shape = np.concatenate(([0], np.cumsum(size))).astype(np.int32)
    places = np.repeat(network.shape[edges] - shape[:-1], size) + np.arange(shape[-1])
    source = node[network.source[edges]].astype(np.int32)
    reverse = network.reverse[edges]
    banned = edge_kept[network.banned_from] & edge_kept[network.banned_to]
    per_edge = ("vmax", "cost", "length", "forward", "kind", "layer", "structure", "way", "label")
    return StreetNetwork(
        x=network.x[kept],
        y=network.y[kept],
        first=np.searchsorted(source, np.arange(int(kept.sum()) + 1)).astype(np.int32),
        source=source,
        target=node[network.target[edges]].astype(np.int32),
        shape=shape,
        shape_x=network.shape_x[places],
        shape_y=network.shape_y[places],
        srid=network.srid,
        reverse=np.where(reverse >= 0, number[reverse], -1).astype(np.int32),
        names=network.names,
        refs=network.refs,
        banned_from=number[network.banned_from[banned]].astype(np.int32),
        banned_to=number[network.banned_to[banned]].astype(np.int32),
        **{name: getattr(network, name)[edges] for name in per_edge},
    )
