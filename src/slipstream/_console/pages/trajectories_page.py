"""The API of the Trajectories page."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from slipstream._console.errors import ERROR_RESPONSES, NotFound, RequestBody
from slipstream._console.trips import journeys, query_results
from slipstream._console.trips.journeys import Drive, Journeys, RecordedVehicle, Stay
from slipstream._console.workspace import Workspace

router = APIRouter(prefix="/api/trajectories", tags=["trajectories"], responses=ERROR_RESPONSES)

Data = Annotated[str, Query(min_length=1, max_length=300, description="A data set of the workspace.")]
Finite = Annotated[float, Field(ge=-1e12, le=1e12)]
Corner = Annotated[list[Finite], Field(min_length=2, max_length=2)]
_BINARY: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": {}}}}
#: seconds of movement that one response may contain
_LONGEST = 86_400.0


class DataSetNames(BaseModel):
    """The data sets of the workspace."""

    data_sets: list[str]


class DataSetSummary(BaseModel):
    """A data set: its vehicles, its time span, its area."""

    name: str
    begin: float = Field(description="Seconds since 1970, UTC, like all instants here.")
    end: float
    box: tuple[float, float, float, float] = Field(description="Smallest x and y, largest x and y, in metres.")
    trips: int
    units: int
    has_streets: bool
    vehicles: list[RecordedVehicle]
    answers: list[query_results.QuerySummary]


class VehicleHistory(BaseModel):
    """One vehicle: its drives and its path."""

    vehicle: RecordedVehicle
    metres: float
    drives: list[Drive]
    lines: list[list[tuple[float, float]]]


class PresenceQuery(RequestBody):
    """Which vehicles were in a region in a period?"""

    data: str = Field(min_length=1, max_length=300)
    region: list[Corner] = Field(min_length=3, max_length=500, description="The corners, in metres.")
    begin: Finite
    seconds: Annotated[float, Field(ge=0, le=1e12, description="The length of the period.")]


class PresenceResult(BaseModel):
    """The vehicles in the region."""

    stays: list[Stay]


class Library:
    """Caches the data set that was opened last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cached: tuple[journeys.DataSet, Journeys] | None = None

    def open(self, workspace: Workspace, name: str) -> tuple[Path, Journeys]:
        """Open the data set with a name."""
        found = journeys.data_sets(workspace)
        if name not in found:
            raise NotFound(
                f"No data set {name!r} in the workspace.",
                hint="Create one with `slipstream berlinmod generate --out DATA`.",
            )
        with self._lock:
            if self._cached is None or self._cached[0] != found[name]:
                self._cached = None
                self._cached = found[name], Journeys.open(found[name])
            return self._cached[0].folder, self._cached[1]


def _workspace(request: Request) -> Workspace:
    workspace: Workspace = request.app.state.city.workspace
    return workspace


def _open(request: Request, name: str) -> tuple[Path, Journeys]:
    library: Library = request.app.state.library
    return library.open(_workspace(request), name)


def _send_arrays(*arrays: np.ndarray[Any, Any]) -> Response:
    return Response(journeys.pack_arrays(*arrays), media_type="application/octet-stream")


@router.get("")
def data_sets(request: Request) -> DataSetNames:
    """Return the data sets and archives of the workspace."""
    return DataSetNames(data_sets=list(journeys.data_sets(_workspace(request))))


@router.get("/data")
def data_set(request: Request, data: Data) -> DataSetSummary:
    """Return one data set."""
    path, opened = _open(request, data)
    begin, end = opened.span
    return DataSetSummary(
        name=data,
        begin=begin,
        end=end,
        box=opened.box,
        trips=len(opened.owner),
        units=len(opened.trips.t) - len(opened.trips.starts),
        has_streets=opened.network is not None,
        vehicles=opened.vehicles,
        answers=query_results.list_results(path),
    )


@router.get("/streets", response_class=Response, responses=_BINARY)
def streets(request: Request, data: Data) -> Response:
    """Return street lines: offsets (int32), x, y (float32), speed per line (float32); see ``pack_arrays``."""
    offsets, x, y, speed = _open(request, data)[1].streets()
    return _send_arrays(offsets, *(part.astype(np.float32) for part in (x, y, speed)))


@router.get("/movement", response_class=Response, responses=_BINARY)
def movement(
    request: Request,
    data: Data,
    begin: Annotated[float, Query(ge=-1e12, le=1e12)],
    seconds: Annotated[float, Query(gt=0, le=_LONGEST)],
) -> Response:
    """Return all movement in a time span, as sequences of vertices with linear movement in between.

    Offsets (int32), vehicle of each sequence (int32), seconds since ``begin`` (float32), x, y (float32).
    """
    owner, moved = _open(request, data)[1].during(begin, begin + seconds)
    offsets, whose = journeys.sequences(owner, moved)
    t = (moved.t / journeys.SECOND - begin).astype(np.float32)
    return _send_arrays(offsets, whose.astype(np.int32), t, moved.x.astype(np.float32), moved.y.astype(np.float32))


@router.get("/vehicle")
def vehicle(request: Request, data: Data, number: Annotated[int, Query(ge=0, le=2**31)]) -> VehicleHistory:
    """Return one vehicle: its drives and its path."""
    opened = _open(request, data)[1]
    if number >= len(opened.vehicles):
        raise NotFound(f"There is no vehicle {number}.", hint=f"Use 0 to {len(opened.vehicles) - 1:,}.")
    drives, trips = opened.drives(number), opened.of(number)
    lines = [
        list(zip(trips.x[a:b].tolist(), trips.y[a:b].tolist(), strict=True))
        for a, b in zip(trips.rows[:-1], trips.rows[1:], strict=True)
        if b - a > 1 and (np.ptp(trips.x[a:b]) or np.ptp(trips.y[a:b]))
    ]
    metres = math.fsum(drive.metres for drive in drives)
    return VehicleHistory(vehicle=opened.vehicles[number], metres=metres, drives=drives, lines=lines)


@router.post("/who")
def who(request: Request, asked: PresenceQuery) -> PresenceResult:
    """Return the vehicles in a region in a period, including border and ends, longest stay first."""
    region = [(x, y) for x, y in asked.region]
    return PresenceResult(
        stays=_open(request, asked.data)[1].find_visitors(region, asked.begin, asked.begin + asked.seconds)
    )


@router.get("/answer")
def answer(
    request: Request,
    data: Data,
    query: Annotated[int, Query(ge=1, le=17)],
    representation: Literal["oba", "tba"] = "tba",
    most: Annotated[int, Query(ge=1, le=5000)] = 500,
) -> query_results.QueryResult:
    """Return the result of one of the 17 queries, as written by `slipstream berlinmod run`."""
    return query_results.read_result(_open(request, data)[0], query, representation, most)
