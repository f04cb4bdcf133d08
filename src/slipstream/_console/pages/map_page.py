"""The API of the Map page."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from slipstream._console.errors import ERROR_RESPONSES
from slipstream._console.maps import map_background, map_files
from slipstream._console.maps.map_background import MapSetting
from slipstream._console.maps.map_layers import Kind, find_layers
from slipstream._console.maps.map_packing import pack_positions
from slipstream._console.maps.map_reading import MOST_POSITIONS, pick_layer, read_layer
from slipstream._console.maps.map_segments import RoadValues, read_segments
from slipstream._console.workspace import Workspace, is_job, pick

router = APIRouter(prefix="/api/map", tags=["map"], responses=ERROR_RESPONSES)

Name = Annotated[str, Query(min_length=1, max_length=300)]
Crs = Annotated[
    str,
    Query(
        pattern=r"^(EPSG:[0-9]{4,6})?$",
        description="The system of x and y, such as EPSG:25833; empty: degrees by their names, or a plane of its own.",
    ),
]
_BINARY: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": {}}}}
_FILE = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string"}}}}}


class LayerSummary(BaseModel):
    """A table of a job that has places."""

    name: str
    kind: Kind
    time: str = Field(description="The column with the time; empty if there is none.")
    id: str
    attributes: list[str] = Field(description="What points can be coloured by.")


class MappedJob(BaseModel):
    """A job with something to draw."""

    name: str
    layers: list[LayerSummary]


class MapChoices(BaseModel):
    """What the page can draw."""

    jobs: list[MappedJob]
    roads: list[str]
    tiles: str = Field(description="The address of tiles that the console was started with; empty: none.")


def _workspace(request: Request) -> Workspace:
    workspace: Workspace = request.app.state.city.workspace
    return workspace


def _job(request: Request, name: str) -> Path:
    return pick(_workspace(request).find(is_job), name, "job", "Choose a job of the page Jobs.")


def _send(body: bytes) -> Response:
    return Response(body, media_type="application/octet-stream")


@router.get("")
def choices(request: Request) -> MapChoices:
    """Return the jobs that have places, the imported roads, and the tiles."""
    workspace = _workspace(request)
    found = {name: find_layers(folder) for name, folder in workspace.find(is_job).items()}
    jobs = [
        MappedJob(
            name=name, layers=[LayerSummary(**{**asdict(one), "attributes": list(one.attributes)}) for one in layers]
        )
        for name, layers in found.items()
        if layers
    ]
    return MapChoices(
        jobs=jobs, roads=sorted(map_background.find_roads(workspace)), tiles=request.app.state.rules.tiles
    )


@router.get("/positions", response_class=Response, responses=_BINARY)
def positions(
    request: Request,
    job: Name,
    layer: Name,
    crs: Crs = "",
    after: Annotated[int, Query(ge=-1, le=2**53, description="Only what later batches have committed.")] = -1,
    most: Annotated[int, Query(ge=1, le=MOST_POSITIONS)] = 300_000,
) -> Response:
    """Return the newest positions of a layer as of the last commit, as tracks; see ``map_packing``."""
    folder = _job(request, job)
    found = read_layer(folder, pick_layer(folder, layer), crs, most, after)
    return _send(pack_positions(found.positions, found.batch, is_cut=found.is_cut))


@router.get("/roads", response_class=Response, responses=_BINARY)
def roads(request: Request, roads: Name) -> Response:
    """Return imported roads as lines; see ``map_background``."""
    hint = "Import some into the workspace with `slipstream roads import FILE --out ROADS`."
    return _send(map_background.pack_roads(pick(map_background.find_roads(_workspace(request)), roads, "roads", hint)))


@router.get("/setting")
def setting(request: Request, job: Name) -> MapSetting:
    """Return the zones of a job, and the roads that it matches positions to."""
    return map_background.read_setting(_job(request, job), _workspace(request))


@router.get("/segments")
def segments(request: Request, job: Name) -> RoadValues:
    """Return tolls and speeds of the streets that a job tolls, as of its last commit."""
    return read_segments(_job(request, job))


@router.post("/file", response_class=Response, responses=_BINARY, openapi_extra=_FILE)
async def file(request: Request, name: Annotated[str, Query(min_length=1, max_length=300)], crs: Crs = "") -> Response:
    """Return the positions in a file, GPX, GeoJSON, CSV or Parquet, as tracks; nothing of it is kept."""
    content = await request.body()
    found = await run_in_threadpool(map_files.read_dropped, name, content, crs)
    return _send(pack_positions(found, -1, is_cut=False))
