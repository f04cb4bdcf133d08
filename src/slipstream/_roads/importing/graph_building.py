"""Build a street network: streets are split where they meet, cleaned, and joined to a graph; repairs are counted.

Streets of files with numbered nodes (OpenStreetMap, SUMO) meet at shared nodes only, so a bridge does not cross what is
below it. Streets of files without (lists of lines) meet where they cross or touch, on the same layer.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import shapely

from slipstream._errors import BadInput
from slipstream._roads.street_network import CLASSES, KMH, OTHER, Street, StreetNetwork, find_strong

#: km/h; a street with a lower limit is closed
SLOWEST = 1e-3
#: metres from the origin: more than once around the earth
FARTHEST = 1e8

Place = tuple[float, float]
Turn = tuple[int, Hashable, int, bool]


@dataclass
class Repairs:
    """What was wrong with a file of streets, and was left out or repaired."""

    streets: int = 0
    closed: int = 0
    zero_length: int = 0
    dangling_nodes: int = 0
    pieces: int = 0
    dropped_edges: int = 0
    dropped_km: float = 0.0
    restrictions: int = 0
    unusable_restrictions: int = 0
    nodes_without_return: int = 0


@dataclass
class Draft:
    """The streets of a file, before they are a graph."""

    streets: list[Street]
    srid: int = 0
    repairs: Repairs = field(default_factory=Repairs)
    #: turns by street: (from, node, to, whether it is the only one allowed); streets by ``Tags.way``
    turns: list[Turn] = field(default_factory=list)


class _Segment(NamedTuple):
    """A segment between two keys of places; the street that it belongs to."""

    a: Hashable
    b: Hashable
    street: int


class _Edge(NamedTuple):
    """A polyline between nodes, as the street is drawn."""

    path: list[Hashable]
    street: int


def build(streets: Iterable[Street], where: str = "streets", *, srid: int = 0) -> StreetNetwork:
    """Build the largest connected network of open streets, split where they meet."""
    return finish(Draft(list(streets), srid), where)


def finish(draft: Draft, where: str, *, keep_pieces: bool = False) -> StreetNetwork:
    """Build the network of a draft, and complete its report; ``keep_pieces`` keeps what is not connected."""
    repairs, streets = draft.repairs, draft.streets
    open_ = [number for number, street in enumerate(streets) if SLOWEST <= street.vmax < math.inf]
    repairs.streets, repairs.closed = len(streets), len(streets) - len(open_)
    places: dict[Hashable, Place] = {}
    streets = _merge_twins(draft)
    drawn = _read_pieces(streets, [n for n in open_ if not streets[n].nodes], places, repairs)
    joined = _read_pieces(streets, [n for n in open_ if streets[n].nodes], places, repairs)
    _check_range(places, where)
    pieces = _split(drawn, streets, places) + joined
    if not pieces:
        raise BadInput(
            f"{where}: no open street.",
            hint="A street needs a positive speed limit and two points.",
            code="empty-input",
        )
    chains = _join_chains(pieces)
    kept = _drop_pieces(chains, places, repairs, keep_pieces)
    network = _assemble(kept, places, draft)
    if network.nodes < 2:
        raise BadInput(
            f"{where}: the only street is a loop, so there are no trips.",
            hint="Add a street that crosses it.",
            code="empty-input",
        )
    repairs.nodes_without_return = int((~find_strong(network)).sum())
    return network


def _check_range(places: dict[Hashable, Place], where: str) -> None:
    if bad := next((place for place in places.values() if not all(abs(v) <= FARTHEST for v in place)), None):
        raise BadInput(
            f"{where}: a street at {bad} is out of range.",
            hint=f"Coordinates must be within {FARTHEST:,.0f} m of the origin.",
            code="bad-coordinates",
        )


def _make_key(place: Place) -> Place:
    return round(place[0], 6), round(place[1], 6)


def _merge_twins(draft: Draft) -> list[Street]:
    """Return the streets with one number for numbered nodes that follow each other at the same place."""
    same: dict[Hashable, Hashable] = {}

    def first(node: Hashable) -> Hashable:
        while node in same:
            node = same[node]
        return node

    for street in draft.streets:
        for (x0, y0, x1, y1), (a, b) in zip(street.segments, pairwise(street.nodes), strict=bool(street.nodes)):
            if _make_key((x0, y0)) == _make_key((x1, y1)) and first(a) != first(b):
                same[first(b)] = first(a)
    if not same:
        return draft.streets
    draft.turns = [(begin, first(node), end, is_only) for begin, node, end, is_only in draft.turns]
    return [replace(street, nodes=[first(node) for node in street.nodes]) for street in draft.streets]


def _read_pieces(
    streets: list[Street], numbers: list[int], places: dict[Hashable, Place], repairs: Repairs
) -> list[_Segment]:
    """Return every segment with a length; its ends are keyed by the numbers of nodes, or by their places."""
    out = []
    for number in numbers:
        street = streets[number]
        for i, (x0, y0, x1, y1) in enumerate(street.segments):
            ends = _make_key((x0, y0)), _make_key((x1, y1))
            keys: tuple[Hashable, Hashable] = (street.nodes[i], street.nodes[i + 1]) if street.nodes else ends
            if keys[0] == keys[1]:
                repairs.zero_length += 1
                continue
            places.setdefault(keys[0], ends[0])
            places.setdefault(keys[1], ends[1])
            out.append(_Segment(*keys, number))
    return out


def _split(pieces: list[_Segment], streets: list[Street], places: dict[Hashable, Place]) -> list[_Segment]:
    """Split segments where another one of their layer crosses or touches them, or where one of another layer ends."""
    if not pieces:
        return []
    lines = shapely.linestrings([[places[piece.a], places[piece.b]] for piece in pieces])
    one, other = shapely.STRtree(lines).query(lines, predicate="intersects")
    meet = shapely.get_coordinates(shapely.intersection(lines[one], lines[other]), return_index=True)
    layer = [streets[piece.street].tags.layer for piece in pieces]
    ends = _find_street_ends(pieces)
    cuts: dict[int, set[Place]] = {}
    for (x, y), pair in zip(meet[0].tolist(), meet[1].tolist(), strict=True):
        place, mine, theirs = _make_key((x, y)), int(one[pair]), int(other[pair])
        if mine != theirs and (layer[mine] == layer[theirs] or place in ends[theirs] or place in ends[mine]):
            cuts.setdefault(mine, set()).add(place)
    out = []
    for i, (a, b, street) in enumerate(pieces):
        start: Any = a
        inner = sorted(cuts.get(i, set()) - {a, b}, key=lambda p: (p[0] - start[0]) ** 2 + (p[1] - start[1]) ** 2)
        places.update({place: place for place in inner})
        out += [_Segment(p, q, street) for p, q in pairwise([a, *inner, b]) if p != q]
    return list({frozenset((piece.a, piece.b)): piece for piece in out}.values())


def _find_street_ends(pieces: list[_Segment]) -> list[set[Hashable]]:
    """Return for each segment where its street begins and ends: the places that it has an odd number of times."""
    ends: dict[int, set[Hashable]] = {}
    for piece in pieces:
        ends[piece.street] = ends.get(piece.street, set()) ^ {piece.a} ^ {piece.b}
    return [ends[piece.street] for piece in pieces]


def _join_chains(pieces: list[_Segment]) -> list[_Edge]:
    """Join pieces to polylines between nodes: a place where exactly two pieces of one street meet is not a node."""
    around: dict[Hashable, list[int]] = {}
    for i, piece in enumerate(pieces):
        around.setdefault(piece.a, []).append(i)
        around.setdefault(piece.b, []).append(i)
    through = {
        place for place, those in around.items() if len(those) == 2 and len({pieces[i].street for i in those}) == 1
    }
    edges, used = [], [False] * len(pieces)
    inner_last = sorted(range(len(pieces)), key=lambda i: pieces[i].a in through and pieces[i].b in through)
    for i in inner_last:
        if not used[i]:
            used[i] = True
            a, b, street = pieces[i]
            back = _walk(a, pieces, around, through, used)
            ahead = _walk(b, pieces, around, through, used)
            edges.append(_Edge([*reversed(back), a, b, *ahead], street))
    return edges


def _walk(
    place: Hashable, pieces: list[_Segment], around: dict[Hashable, list[int]], through: set[Hashable], used: list[bool]
) -> list[Hashable]:
    """Return the places after ``place`` up to the next node."""
    out = []
    while place in through:
        following = [i for i in around[place] if not used[i]]
        if not following:
            break
        used[following[0]] = True
        piece = pieces[following[0]]
        place = piece.b if piece.a == place else piece.a
        out.append(place)
    return out


def _drop_pieces(edges: list[_Edge], places: dict[Hashable, Place], repairs: Repairs, keep_pieces: bool) -> list[_Edge]:
    """Return the edges of the component with the most segments, unless all are kept; count the others."""
    parent: dict[Hashable, Hashable] = {}

    def root(place: Hashable) -> Hashable:
        parent.setdefault(place, place)
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    for edge in edges:
        parent[root(edge.path[0])] = root(edge.path[-1])
    sizes: dict[Hashable, int] = {}
    for edge in edges:
        sizes[root(edge.path[0])] = sizes.get(root(edge.path[0]), 0) + len(edge.path) - 1
    best = max(sizes, key=lambda key: (sizes[key], places[key]))
    repairs.pieces = len(sizes)
    if keep_pieces:
        return edges
    dropped = [edge for edge in edges if root(edge.path[0]) != best]
    metres = sum(math.dist(places[a], places[b]) for edge in dropped for a, b in pairwise(edge.path))
    repairs.dropped_edges, repairs.dropped_km = len(dropped), round(metres / 1000, 3)
    return [edge for edge in edges if root(edge.path[0]) == best]


class _Directed(NamedTuple):
    """An edge in a direction: the numbers of its nodes, its vertices, and whether it is as its street is drawn."""

    source: int
    target: int
    path: list[Place]
    forward: bool
    street: int
    #: the polyline that it was made of
    chain: int
    keys: tuple[Hashable, Hashable]


def _assemble(edges: list[_Edge], places: dict[Hashable, Place], draft: Draft) -> StreetNetwork:
    """Build arrays from polylines; nodes are numbered by place, so the order of the input does not matter."""
    ends = {edge.path[end] for edge in edges for end in (0, -1)}
    nodes = sorted(ends, key=lambda key: (places[key], str(key)))
    directed = _list_directed(edges, places, {key: i for i, key in enumerate(nodes)}, draft.streets)
    streets = [draft.streets[one.street] for one in directed]
    source = np.array([one.source for one in directed], np.int32)
    shape = np.concatenate(([0], np.cumsum([len(one.path) for one in directed]))).astype(np.int32)
    flat = np.array([place for one in directed for place in one.path], dtype=float)
    length = np.array([np.hypot(*np.diff(np.array(one.path), axis=0).T).sum() for one in directed])
    vmax = np.array([_limit(street, one.forward) for street, one in zip(streets, directed, strict=True)])
    at = np.array([places[key] for key in nodes], dtype=float)
    x, y, shape_x, shape_y = (np.ascontiguousarray(a) for a in (*at.T, *flat.T))
    labels = {(s.tags.name, s.tags.ref): 0 for s in streets} | {("", ""): 0}
    labels = {label: number for number, label in enumerate(sorted(labels))}
    banned = _ban_turns(directed, draft)
    return StreetNetwork(
        x=x,
        y=y,
        first=np.searchsorted(source, np.arange(len(nodes) + 1)).astype(np.int32),
        source=source,
        target=np.array([one.target for one in directed], np.int32),
        vmax=vmax,
        cost=KMH * length / vmax,
        shape=shape,
        shape_x=shape_x,
        shape_y=shape_y,
        srid=draft.srid,
        length=length,
        reverse=_pair_up(directed),
        forward=np.array([one.forward for one in directed]),
        kind=np.array([_find_class(street.tags.kind) for street in streets], np.uint8),
        layer=np.array([street.tags.layer for street in streets], np.int32),
        structure=np.array([street.tags.structure for street in streets], np.uint8),
        way=np.array([street.tags.way for street in streets], np.int64),
        label=np.array([labels[street.tags.name, street.tags.ref] for street in streets], np.int32),
        names=np.array([name for name, _ in labels]),
        refs=np.array([ref for _, ref in labels]),
        banned_from=np.array([a for a, _ in banned], np.int32),
        banned_to=np.array([b for _, b in banned], np.int32),
    )


def _limit(street: Street, forward: bool) -> float:
    back = street.tags.vmax_back
    return street.vmax if forward or back is None else back


def _find_class(kind: str) -> int:
    return CLASSES.index(kind) if kind in CLASSES else OTHER


def _list_directed(
    edges: list[_Edge], places: dict[Hashable, Place], number: dict[Hashable, int], streets: list[Street]
) -> list[_Directed]:
    """Return every edge in the directions in which it may be driven, sorted by source, target and geometry."""
    out = []
    for chain, edge in enumerate(edges):
        ends, path = (edge.path[0], edge.path[-1]), [places[key] for key in edge.path]
        for forward in (True, False):
            if streets[edge.street].tags.oneway * (1 if forward else -1) >= 0:
                a, b = ends if forward else ends[::-1]
                vertices = path if forward else path[::-1]
                out.append(_Directed(number[a], number[b], vertices, forward, edge.street, chain, (a, b)))
    return sorted(out, key=lambda one: (one.source, one.target, one.path))


def _pair_up(directed: list[_Directed]) -> Any:
    found = {(one.chain, one.forward): number for number, one in enumerate(directed)}
    return np.array([found.get((one.chain, not one.forward), -1) for one in directed], np.int32)


def _ban_turns(directed: list[_Directed], draft: Draft) -> list[tuple[int, int]]:
    """Return the turns that restrictions forbid; those that fit no edges are counted."""
    arriving: dict[tuple[int, Hashable], list[int]] = {}
    leaving: dict[tuple[int, Hashable], list[int]] = {}
    everything: dict[Hashable, list[int]] = {}
    for number, one in enumerate(directed):
        way = draft.streets[one.street].tags.way
        arriving.setdefault((way, one.keys[1]), []).append(number)
        leaving.setdefault((way, one.keys[0]), []).append(number)
        everything.setdefault(one.keys[0], []).append(number)
    out = set()
    for begin, node, end, is_only in draft.turns:
        froms, tos = arriving.get((begin, node), []), leaving.get((end, node), [])
        if not froms or not tos:
            draft.repairs.unusable_restrictions += 1
            continue
        draft.repairs.restrictions += 1
        others = [edge for edge in everything[node] if edge not in tos]
        out |= {(a, b) for a in froms for b in (others if is_only else tos)}
    return sorted(out)
