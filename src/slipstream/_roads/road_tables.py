"""Roads on disk: GeoParquet files that other systems can read, in a folder.

``edges.parquet`` has a row per directed edge with its geometry, ``nodes.parquet`` the crossings and ends,
``restrictions.parquet`` the turns that are forbidden, ``roads.json`` what was imported and repaired.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import shapely
from pyproj import CRS

from slipstream._errors import MALFORMED, BadArgument, BadInput
from slipstream._roads.importing.graph_building import Repairs
from slipstream._roads.street_network import BRIDGE, CLASSES, KMH, TUNNEL, StreetNetwork
from slipstream._tools.numba_tools import Ints

EDGES, NODES, RESTRICTIONS, REPORT = "edges.parquet", "nodes.parquet", "restrictions.parquet", "roads.json"
VERSION = 1


def save_roads(network: StreetNetwork, folder: Path, source: str = "", repairs: Repairs | None = None) -> None:
    """Write a network into an existing folder."""
    _write(folder / EDGES, edge_table(network), network.srid, "LineString")
    points = shapely.to_wkb(shapely.points(network.x, network.y))
    nodes = {"node": pa.array(np.arange(network.nodes)), "geometry": pa.array(points, pa.binary())}
    _write(folder / NODES, pa.table(nodes), network.srid, "Point")
    banned = {"from_edge": network.banned_from, "to_edge": network.banned_to}
    pq.write_table(
        pa.table({name: pa.array(edges.astype(np.int64)) for name, edges in banned.items()}), folder / RESTRICTIONS
    )
    body = {"version": VERSION, "source": source, "srid": network.srid, "repairs": asdict(repairs or Repairs())}
    (folder / REPORT).write_text(json.dumps(body, indent=2), encoding="utf-8")


def edge_table(network: StreetNetwork) -> pa.Table:
    """Return the edges with everything that is known of them, a row each."""
    owner = np.repeat(np.arange(network.edges), np.diff(network.shape))
    lines = shapely.linestrings(np.column_stack((network.shape_x, network.shape_y)), indices=owner)
    columns: dict[str, Any] = {
        "edge": np.arange(network.edges),
        "source": network.source.astype(np.int64),
        "target": network.target.astype(np.int64),
        "reverse": pa.array(network.reverse.astype(np.int64), mask=network.reverse < 0),
        "forward": network.forward,
        "length_m": network.length,
        "limit_kmh": network.vmax,
        "class": pa.array(np.array(CLASSES)[network.kind]),
        "layer": network.layer,
        "bridge": (network.structure & BRIDGE) > 0,
        "tunnel": (network.structure & TUNNEL) > 0,
        "name": pa.array(network.names[network.label]),
        "ref": pa.array(network.refs[network.label]),
        "way": network.way,
        "geometry": pa.array(shapely.to_wkb(lines), pa.binary()),
    }
    return pa.table(columns)


def _write(file: Path, table: pa.Table, srid: int, kind: str) -> None:
    crs = CRS.from_epsg(srid).to_json_dict() if srid else None
    column = {"encoding": "WKB", "geometry_types": [kind], "crs": crs}
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": column}}
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), file)


def check_roads(folder: Path, label: str = "--roads ") -> None:
    """Refuse a folder that has no roads; reads none of them."""
    if not (folder / REPORT).is_file():
        problem = "not a folder of roads." if folder.exists() else "no such folder."
        raise BadArgument(
            f"{label}{folder}: {problem}",
            hint="Make one with: slipstream roads import FILE --out ROADS",
            code="wrong-file-type" if folder.exists() else "no-such-file",
        )


def read_report(folder: Path) -> dict[str, Any]:
    """Return where roads came from, and what was repaired."""
    check_roads(folder, "")
    try:
        body: dict[str, Any] = json.loads((folder / REPORT).read_text(encoding="utf-8"))
        if body["version"] != VERSION:
            raise BadInput(
                f"{folder}: written by another version ({body['version']}).",
                hint="Import the roads again.",
                code="wrong-version",
            )
    except (OSError, *MALFORMED) as error:
        raise _refuse_damaged(folder, error) from error
    return body


def open_roads(folder: Path) -> StreetNetwork:
    """Open the roads in a folder, once per process for as long as the files do not change."""
    check_roads(folder, "")
    place = folder.absolute()
    return _open(str(place), (place / REPORT).stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _open(folder: str, _: int) -> StreetNetwork:
    place = Path(folder)
    srid = int(read_report(place)["srid"])
    try:
        edges, nodes, restrictions = (pq.read_table(place / name) for name in (EDGES, NODES, RESTRICTIONS))
        return _assemble(edges, nodes, restrictions, srid)
    except (OSError, pa.ArrowInvalid, shapely.errors.GEOSException, *MALFORMED) as error:
        raise _refuse_damaged(place, error) from error


def _assemble(edges: pa.Table, nodes: pa.Table, restrictions: pa.Table, srid: int) -> StreetNetwork:
    found = {name: edges[name].combine_chunks() for name in edges.column_names if name != "geometry"}
    flat, owner = shapely.get_coordinates(shapely.from_wkb(edges["geometry"].to_numpy()), return_index=True)
    place = shapely.get_coordinates(shapely.from_wkb(nodes["geometry"].to_numpy()))
    source, target = (found[name].to_numpy().astype(np.int32) for name in ("source", "target"))
    length, vmax = found["length_m"].to_numpy(), found["limit_kmh"].to_numpy()
    if len(place) and not (source.max(initial=-1) < len(place) > target.max(initial=-1) and (vmax > 0).all()):
        raise ValueError("edges and nodes do not fit together")
    texts, label = _number_labels(found["name"], found["ref"])
    kind = pc.index_in(found["class"], pa.array(CLASSES)).fill_null(len(CLASSES) - 1)
    flags = [np.asarray(found[name].to_numpy(zero_copy_only=False), np.uint8) for name in ("bridge", "tunnel")]
    banned = [restrictions[name].to_numpy().astype(np.int32) for name in ("from_edge", "to_edge")]
    return StreetNetwork(
        x=np.ascontiguousarray(place[:, 0]),
        y=np.ascontiguousarray(place[:, 1]),
        first=np.searchsorted(source, np.arange(len(place) + 1)).astype(np.int32),
        source=source,
        target=target,
        vmax=vmax,
        cost=KMH * length / vmax,
        shape=np.searchsorted(owner, np.arange(len(source) + 1)).astype(np.int32),
        shape_x=np.ascontiguousarray(flat[:, 0]),
        shape_y=np.ascontiguousarray(flat[:, 1]),
        srid=srid,
        length=length,
        reverse=found["reverse"].fill_null(-1).to_numpy().astype(np.int32),
        forward=np.asarray(found["forward"].to_numpy(zero_copy_only=False), np.bool_),
        kind=kind.to_numpy().astype(np.uint8),
        layer=found["layer"].to_numpy().astype(np.int32),
        structure=BRIDGE * flags[0] | TUNNEL * flags[1],
        way=found["way"].to_numpy(),
        label=label,
        names=np.array([name for name, _ in texts]),
        refs=np.array([ref for _, ref in texts]),
        banned_from=banned[0],
        banned_to=banned[1],
    )


def _number_labels(names: pa.StringArray, refs: pa.StringArray) -> tuple[list[tuple[str, str]], Ints]:
    """Return the pairs of a name and a ref, and the number of each edge's pair."""
    name, ref = names.dictionary_encode(), refs.dictionary_encode()
    count = max(1, len(ref.dictionary))
    pairs = name.indices.to_numpy().astype(np.int64) * count + ref.indices.to_numpy()
    each, label = np.unique(pairs, return_inverse=True)
    texts = [(name.dictionary[one // count].as_py(), ref.dictionary[one % count].as_py()) for one in each.tolist()]
    return texts, label.astype(np.int32)


def _refuse_damaged(folder: Path, error: Exception) -> BadInput:
    return BadInput(f"{folder}: damaged roads ({error}).", hint="Import them again.", code="damaged-file")
