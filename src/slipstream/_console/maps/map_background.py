"""What lies below the positions: roads that were imported, and the zones and roads that a job works with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from slipstream._console.maps.map_packing import center, pack
from slipstream._console.maps.map_positions import World, mercator, place_on_map
from slipstream._console.maps.map_segments import has_segments
from slipstream._console.workspace import Workspace
from slipstream._errors import MALFORMED, BadArgument, BadInput
from slipstream._network.boxes.tolls.priced_zones import parse_zones
from slipstream._roads.road_tables import REPORT, open_roads
from slipstream._roads.street_network import StreetNetwork
from slipstream._tools.numba_tools import Ints

#: corners of streets that a page gets: a country has more
MOST_CORNERS = 3_000_000
_NETWORK = "network.yaml"


@dataclass(frozen=True)
class MapZone:
    """An area: the borders of its polygons and of the holes in them, in the plane of the map."""

    name: str
    rings: list[list[tuple[float, float]]]


@dataclass(frozen=True)
class MapSetting:
    """The zones of a job, and the roads that it matches positions to."""

    world: World = "earth"
    zones: list[MapZone] = field(default_factory=list)
    roads: str = ""  # their name in the workspace; empty if there are none in it
    has_segments: bool = False  # whether its streets can be coloured by tolls


def find_roads(workspace: Workspace) -> dict[str, Path]:
    """Return the imported roads of the workspace, by name."""
    return workspace.find(lambda folder: (folder / REPORT).is_file())


def pack_roads(folder: Path) -> bytes:
    """Encode streets for the page: offsets, x, y of corners; of each its class, its edge, and that of the way back."""
    network = open_roads(folder)
    once = np.flatnonzero((network.reverse < 0) | (np.arange(network.edges) < network.reverse))
    sizes = np.diff(network.shape)[once].astype(np.int64)
    if sizes.sum() > MOST_CORNERS:
        raise BadArgument(
            f"{folder.name} has {int(sizes.sum()):,} corners of streets; the page draws at most {MOST_CORNERS:,}.",
            hint="Import a part of it: slipstream roads import FILE --within BOX",
            code="too-large",
        )
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    at = np.repeat(network.shape[once] - offsets[:-1], sizes) + np.arange(offsets[-1])
    x, y, world = place_on_map(
        network.shape_x[at], network.shape_y[at], f"EPSG:{network.srid}" if network.srid else "", in_degrees=False
    )
    origin, places = center(x, y)
    return pack({"origin": origin, "world": world}, offsets.astype(np.int32), *places, *_describe(network, once))


def _describe(network: StreetNetwork, once: np.ndarray[Any, Any]) -> tuple[Ints, Ints, Ints]:
    edge, reverse, kind = once.astype(np.int32), network.reverse[once], network.kind[once].astype(np.int32)
    return kind, edge, reverse.astype(np.int32)


def read_setting(folder: Path, workspace: Workspace) -> MapSetting:
    """Return what a job's own network says about places."""
    zones, worlds, roads = list[MapZone](), set[World](), ""
    known = {path: name for name, path in find_roads(workspace).items()}
    for parameters in _list_parameters(folder):
        if isinstance(text := parameters.get("zones"), str):
            in_degrees = str(parameters.get("x", "x")).lower().startswith("l")
            with suppress(BadInput):
                zones += _place_zones(text, in_degrees=in_degrees)
                worlds.add("earth" if in_degrees else "plane")
        if isinstance(place := parameters.get("roads"), str):
            with suppress(OSError, ValueError):
                roads = roads or known.get(Path(place).resolve(), "")
    return MapSetting("plane" if worlds == {"plane"} else "earth", zones, roads, has_segments(folder))


def _list_parameters(folder: Path) -> Iterator[dict[str, Any]]:
    """Return the parameters of the boxes of a network; a damaged file has none."""
    try:
        body = yaml.safe_load((folder / _NETWORK).read_bytes())
        boxes = body["boxes"].values()
    except (OSError, yaml.YAMLError, AttributeError, *MALFORMED):
        return
    for box in boxes:
        if isinstance(box, dict) and isinstance(found := box.get("parameters"), dict):
            yield found


def _place_zones(text: str, *, in_degrees: bool) -> Iterator[MapZone]:
    for zone in parse_zones(text):
        x, y = zone.edges[:, 0], zone.edges[:, 1]
        if in_degrees:
            x, y = mercator(x, y)
        # an edge that does not begin where the last one ended begins another ring
        ends = np.any(zone.edges[:-1, 2:] != zone.edges[1:, :2], axis=1)
        rings = np.split(np.column_stack((x, y)), np.flatnonzero(ends) + 1)
        yield MapZone(zone.name, [[(float(a), float(b)) for a, b in ring] for ring in rings])
