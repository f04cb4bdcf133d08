"""Read a street network from any file that has one, by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from slipstream._errors import MALFORMED, BadArgument, BadInput
from slipstream._moving.space.plane import Plane
from slipstream._roads import road_tables
from slipstream._roads.importing.graph_building import Draft, Repairs, finish
from slipstream._roads.importing.lists import (
    read_csv_streets,
    read_geojson_streets,
    read_secondo_streets,
    require_metres,
)
from slipstream._roads.importing.osm import read_osm_streets
from slipstream._roads.importing.projecting import move_to_utm
from slipstream._roads.importing.sumo_streets import sumo_streets
from slipstream._roads.street_network import StreetNetwork

#: the streets in the folder of a BerlinMOD data set
_OF_DATA_SET = "network.npz"
_IN_METRES = {".data": read_secondo_streets, ".csv": read_csv_streets}
_WITH_PLANE: dict[str, Callable[[Path], Draft]] = {
    ".geojson": read_geojson_streets,
    ".json": read_geojson_streets,
    ".pbf": read_osm_streets,
    ".osm": read_osm_streets,
    ".xml": sumo_streets,
}


def read_network(path: Path, *, metres: bool = False, label: str = "--network ") -> StreetNetwork:
    """Read the network in a file, by its extension, or in a folder that ``roads import`` wrote."""
    if path.is_dir():
        return road_tables.open_roads(path)
    return import_network(path, metres=metres, label=label)[0]


def import_network(
    path: Path, *, metres: bool = False, keep_pieces: bool = False, label: str = "", plane: Plane | None = None
) -> tuple[StreetNetwork, Repairs]:
    """Read the network in a file or of a BerlinMOD data set, and what was repaired.

    OpenStreetMap, and GeoJSON unless it says otherwise, are in degrees: they are projected to the UTM zone of their
    centre, whose code the network keeps. The others are in metres: coordinates that look like degrees are rejected
    unless ``metres`` is set. With the ``plane`` of these metres, they are moved to a UTM zone as well.
    """
    check_kind(path, label)
    if path.is_dir():
        network, repairs = _read_data_set(path), Repairs()
    else:
        draft = _draft(path, metres)
        network, repairs = finish(draft, str(path), keep_pieces=keep_pieces), draft.repairs
    if plane is None:
        return network, repairs
    if network.srid:
        raise BadArgument(
            f"{label}{path}: its reference system is known, EPSG:{network.srid}.",
            hint="Leave out --centre.",
            code="conflicting-options",
        )
    return move_to_utm(network, plane), repairs


def _read_data_set(folder: Path) -> StreetNetwork:
    try:
        return StreetNetwork.load(folder / _OF_DATA_SET)
    except (OSError, *MALFORMED) as error:
        raise BadInput(
            f"{folder / _OF_DATA_SET}: cannot be read ({error}).", hint="Generate it again.", code="damaged-file"
        ) from error


def check_kind(path: Path, label: str = "") -> None:
    """Refuse a file that is missing or of no known kind."""
    if (path / _OF_DATA_SET).is_file():
        return
    if path.is_dir():
        raise BadArgument(
            f"{label}{path}: a folder without streets.",
            hint="Give a file of streets, or a data set that has them.",
            code="wrong-file-type",
            found=path,
        )
    if not path.is_file():
        raise BadArgument(
            f"{label}{path}: no such file.", hint="Give a file of streets.", code="no-such-file", found=path
        )
    if _find_ending(path) not in (*_IN_METRES, *_WITH_PLANE) or (
        _find_ending(path) == ".xml" and ".net.xml" not in path.name
    ):
        known = ", ".join([*_IN_METRES, *_WITH_PLANE]).replace(".xml", ".net.xml")
        raise BadArgument(
            f"{label}{path}: unknown file type.", hint=f"Supported extensions: {known}.", code="wrong-file-type"
        )


def _find_ending(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix


def _draft(path: Path, metres: bool) -> Draft:
    if (ending := _find_ending(path)) in _IN_METRES:
        return Draft(require_metres(_IN_METRES[ending](path), path, metres=metres))
    return _WITH_PLANE[ending](path)
