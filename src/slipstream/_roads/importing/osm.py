"""Read roads for cars from OpenStreetMap, ``.osm.pbf`` or ``.osm``: ways, and the restrictions of turns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipstream._errors import MALFORMED, BadInput
from slipstream._roads.importing.graph_building import Draft, Repairs, Turn
from slipstream._roads.importing.projecting import Line, project
from slipstream._roads.importing.signs import find_default_limit, is_set, read_layer, read_limit, read_oneway
from slipstream._roads.street_network import BRIDGE, CLASSES, TUNNEL, Tags

_FOR_CARS = frozenset(CLASSES) - {"other"}
#: ways of a car park, or to a house: no vehicle drives through
_ENDS = ("parking_aisle", "driveway", "drive-through", "emergency_access")
_CLOSED = ("no", "private", "agricultural", "forestry", "delivery")


def read_osm_streets(path: Path) -> Draft:
    """Read the roads, in the metres of the UTM zone of their centre."""
    import osmium

    repairs = Repairs()
    lines: list[Line] = []
    turns: list[Turn] = []
    try:
        for thing in osmium.FileProcessor(str(path)).with_locations():
            if isinstance(thing, osmium.osm.Way):
                lines += _read_way(thing, repairs)
            elif isinstance(thing, osmium.osm.Relation) and thing.tags.get("type") == "restriction":
                turns += _read_restriction(thing, repairs)
    except (RuntimeError, osmium.InvalidLocationError, *MALFORMED) as error:
        raise BadInput(
            f"{path}: {error}.", hint="Use an OpenStreetMap extract (.osm.pbf or .osm).", code="unreadable-file"
        ) from error
    draft = project(lines, path)
    ways = {line.tags.way for line in lines}
    draft.repairs, draft.turns = repairs, [turn for turn in turns if turn[0] in ways and turn[2] in ways]
    repairs.unusable_restrictions += len(turns) - len(draft.turns)
    return draft


def _read_way(way: Any, repairs: Repairs) -> list[Line]:
    """Return the parts of a way; where the file lacks a node, the way is interrupted, not straightened."""
    tags = {tag.k: tag.v for tag in way.tags}
    if tags.get("highway") not in _FOR_CARS or _is_closed(tags):
        return []
    vmax, street_tags = _read_tags(tags, int(way.id))
    parts: list[list[Any]] = [[]]
    for node in way.nodes:
        if node.location.valid():
            parts[-1].append((node.ref, (node.lon, node.lat)))
        else:
            repairs.dangling_nodes += 1
            parts.append([])
    return [
        Line([place for _, place in part], vmax, street_tags, [ref for ref, _ in part])
        for part in parts
        if len(part) > 1
    ]


def _is_closed(tags: Mapping[str, str]) -> bool:
    access = next((tags[key] for key in ("motorcar", "motor_vehicle", "vehicle", "access") if key in tags), "yes")
    return access in _CLOSED or tags.get("service") in _ENDS or tags.get("area") == "yes"


def _read_tags(tags: Mapping[str, str], way: int) -> tuple[float, Tags]:
    kind = tags["highway"]
    usual = read_limit(tags.get("maxspeed", "")) or find_default_limit(kind)
    ahead, back = (read_limit(tags.get(f"maxspeed:{side}", "")) or usual for side in ("forward", "backward"))
    structure = BRIDGE * is_set(tags.get("bridge", "")) | TUNNEL * is_set(tags.get("tunnel", ""))
    return ahead, Tags(
        oneway=read_oneway(tags),
        vmax_back=back,
        kind=kind,
        layer=read_layer(tags),
        structure=structure,
        name=tags.get("name", ""),
        ref=tags.get("ref", ""),
        way=way,
    )


def _read_restriction(relation: Any, repairs: Repairs) -> list[Turn]:
    """Return the turns of a relation; those by way of another way, or for some vehicles only, are counted."""
    kind = relation.tags.get("restriction", "")
    members: dict[str, list[tuple[str, int]]] = {}
    for member in relation.members:
        members.setdefault(member.role, []).append((member.type, int(member.ref)))
    via = members.get("via", [])
    is_simple = len(via) == 1 and via[0][0] == "n" and kind.startswith(("no_", "only_"))
    if not is_simple or "conditional" in kind:
        repairs.unusable_restrictions += 1
        return []
    starts, ends = ([ref for _, ref in members.get(role, [])] for role in ("from", "to"))
    return [(a, via[0][1], b, kind.startswith("only_")) for a in starts for b in ends]
