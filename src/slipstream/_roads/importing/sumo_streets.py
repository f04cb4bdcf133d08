"""Read networks of SUMO (``.net.xml``): lanes for cars, junctions, and the connections that are its allowed turns."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from xml.etree.ElementTree import ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import iterparse

from slipstream._errors import MALFORMED, BadInput
from slipstream._feeds.tuple_text import open_text
from slipstream._roads.importing.graph_building import Draft, Place, Repairs, Turn
from slipstream._roads.street_network import KMH, Street, Tags

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_HINT = "Use a network that netconvert or netgenerate wrote."


class _Location(NamedTuple):
    """Where the network is: how far it was moved, and the zone of its projection (0: none that is known)."""

    east: float = 0.0
    north: float = 0.0
    srid: int = 0


class _SumoEdge(NamedTuple):
    id: str
    begin: str
    end: str
    vmax: float
    places: list[Place]
    kind: str
    name: str


def sumo_streets(path: Path) -> Draft:
    """Read the edges that cars may use; every turn that no connection allows is forbidden."""
    location, edges, allowed = _Location(), list[_SumoEdge](), set[tuple[str, str]]()
    try:
        with open_text(path) as contents:
            root = None
            for event, element in iterparse(contents, events=("start", "end")):
                root = element if root is None else root
                if root.tag != "net":
                    raise BadInput(
                        f"{path}: starts with <{root.tag}>, expected <net>.", hint=_HINT, code="unreadable-file"
                    )
                if event == "start" or element.tag not in ("location", "edge", "connection"):
                    continue
                if element.tag == "location":
                    location = _read_location(path, element)
                elif element.tag == "edge" and (edge := _read_edge(element)):
                    edges.append(edge)
                elif element.tag == "connection":
                    allowed.add((element.get("from", ""), element.get("to", "")))
                root.clear()
    except (ParseError, DefusedXmlException, *MALFORMED) as error:
        raise BadInput(f"{path}: {error}.", hint=_HINT, code="unreadable-file") from error
    streets = [_make_street(edge, number, location) for number, edge in enumerate(edges, 1)]
    return Draft(streets, location.srid, Repairs(), _forbid(edges, allowed))


def _read_location(path: Path, element: Element) -> _Location:
    offset = element.get("netOffset", "0,0").split(",")
    projection = element.get("projParameter", "!")
    zone = re.search(r"\+proj=utm\b.*\+zone=(\d+)", projection)
    if zone is None and "+proj" in projection:
        raise BadInput(
            f"{path}: unsupported projection {projection}.",
            hint="Convert the network with netconvert --proj.utm.",
            code="bad-coordinates",
        )
    srid = (32700 if "+south" in projection else 32600) + int(zone[1]) if zone else 0
    return _Location(float(offset[0]), float(offset[1]), srid)


def _read_edge(element: Element) -> _SumoEdge | None:
    """Return an edge between junctions with a lane for cars."""
    lanes = [lane for lane in element.iterfind("lane") if _takes_cars(lane)]
    if element.get("function", "normal") not in ("normal", "connector") or not lanes:
        return None
    shape = element.get("shape") or lanes[len(lanes) // 2].get("shape") or ""
    places = [(float(x), float(y)) for x, y, *_ in (place.split(",") for place in shape.split())]
    speed = max(float(lane.get("speed", "")) for lane in lanes)
    kind = (element.get("type") or "other").rpartition("highway.")[2]
    id_, name = element.get("id", ""), element.get("name", "")
    return _SumoEdge(id_, element.get("from", ""), element.get("to", ""), round(speed * KMH, 3), places, kind, name)


def _takes_cars(lane: Element) -> bool:
    allow, disallow = lane.get("allow"), lane.get("disallow", "")
    if allow is not None:
        return bool({"passenger", "all"} & set(allow.split()))
    return not {"passenger", "all"} & set(disallow.split())


def _make_street(edge: _SumoEdge, number: int, location: _Location) -> Street:
    """Return an edge as a one-way street; its junctions are its numbered nodes."""
    places = [(round(x - location.east, 3), round(y - location.north, 3)) for x, y in edge.places]
    inner = [(edge.id, i) for i in range(1, len(places) - 1)]
    tags = Tags(oneway=1, kind=edge.kind, name=edge.name, way=number)
    return Street(edge.vmax, [(*a, *b) for a, b in pairwise(places)], tags, [edge.begin, *inner, edge.end])


def _forbid(edges: list[_SumoEdge], allowed: set[tuple[str, str]]) -> list[Turn]:
    """Return the turns at junctions that no connection allows."""
    leaving: dict[str, list[tuple[int, _SumoEdge]]] = {}
    for number, edge in enumerate(edges, 1):
        leaving.setdefault(edge.begin, []).append((number, edge))
    return [
        (number, edge.end, other, False)
        for number, edge in enumerate(edges, 1)
        for other, following in leaving.get(edge.end, [])
        if (edge.id, following.id) not in allowed
    ]
