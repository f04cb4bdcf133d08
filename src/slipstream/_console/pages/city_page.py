"""The API of the Live city page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from slipstream._console.errors import ERROR_RESPONSES, NotFound, RequestBody
from slipstream._console.live.event_feed import EventFeed
from slipstream._console.live.live_city import CityState, DisplayedTime, LiveCity
from slipstream._console.live.vehicles import PlottedMinute, VehicleDetail
from slipstream._feeds.run import Run
from slipstream._feeds.tuples import SEGMENTS
from slipstream._linear_road.state.cars import CELLS

router = APIRouter(prefix="/api/city", tags=["city"], responses=ERROR_RESPONSES)

Speed = Annotated[
    float, Field(ge=0, le=1000, description="1 is real time, 10 is ten times real time, 0 is as fast as possible.")
]
Name = Annotated[str, Field(min_length=1, max_length=300)]


class RunEntry(BaseModel):
    """A run of the workspace."""

    name: str
    expressways: int
    seconds: int
    tuples: int
    accidents: int


class Choices(BaseModel):
    """The runs that can be started, and the results that can be opened."""

    runs: list[RunEntry]
    results: list[str]
    broken: list[str] = Field(default=[], description="Runs that cannot be used, and why.")


class StartEngine(RequestBody):
    """Start an engine on a run."""

    run: Name
    speed: Speed = 1.0
    rules: str = Field(default="2004", pattern="^(2004|2003)$")


class Resume(RequestBody):
    """Resume a paused engine."""

    speed: Speed = 1.0


class Open(RequestBody):
    """Display an engine's folder."""

    result: Name


class Look(RequestBody):
    """Display a second; without ``follow`` the page stays there, or plays from there."""

    follow: bool = True
    second: float = Field(default=0, ge=0, le=1e9)
    playing: bool = False
    speed: float = Field(default=1.0, gt=0, le=1000)


def get_city(request: Request) -> LiveCity:
    """Return the live city of this application."""
    city: LiveCity = request.app.state.city
    return city


@router.get("")
def state(request: Request) -> CityState:
    """Return what is on display: status, progress and health."""
    return get_city(request).state


@router.get("/choices")
def choices(request: Request) -> Choices:
    """Return the runs that can be started and the results that can be opened."""
    workspace = get_city(request).workspace
    runs, broken = [], []
    for name, path in workspace.runs().items():
        try:
            runs.append(_entry(name, Run.open(path).manifest))
        except Exception as error:
            broken.append(f"{name}: {error}")
    return Choices(runs=runs, results=list(workspace.results()), broken=broken)


def _entry(name: str, manifest: Any) -> RunEntry:
    return RunEntry(
        name=name,
        expressways=len(manifest.expressways) * manifest.multiply,
        seconds=manifest.seconds,
        tuples=sum(manifest.counts.values()),
        accidents=len(manifest.accidents) * manifest.multiply,
    )


@router.post("/start")
def start(request: Request, wanted: StartEngine) -> CityState:
    """Start an engine on a run, in a new folder of the workspace."""
    return get_city(request).start(wanted.run, wanted.speed, wanted.rules)


@router.post("/pause")
def pause(request: Request) -> CityState:
    """Pause the engine after its batch."""
    return get_city(request).halt("paused")


@router.post("/resume")
def resume(request: Request, wanted: Resume) -> CityState:
    """Resume the engine, at any speed."""
    return get_city(request).resume(wanted.speed)


@router.post("/stop")
def stop(request: Request) -> CityState:
    """Stop the engine; committed output is kept."""
    return get_city(request).halt("stopped")


@router.post("/open")
def open_(request: Request, wanted: Open) -> CityState:
    """Display a folder that an engine has written or is writing."""
    return get_city(request).open(wanted.result)


@router.post("/look")
def look(request: Request, wanted: Look) -> CityState:
    """Display the newest second, or an earlier one."""
    return get_city(request).look_at(DisplayedTime(**wanted.model_dump()))


@router.get(
    "/stream",
    response_class=StreamingResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
def stream(
    request: Request,
    events: Annotated[int | None, Query(ge=1, le=10_000, description="End after this many events.")] = None,
) -> StreamingResponse:
    """Stream changes as server-sent events: ``state``, ``grid`` (the map) and ``beats`` (the health of batches)."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    feed: EventFeed = request.app.state.events
    return StreamingResponse(_take(feed, events), media_type="text/event-stream", headers=headers)


async def _take(feed: EventFeed, most: int | None) -> AsyncIterator[bytes]:
    sent = 0
    async with aclosing(feed.watch()) as events:
        async for event in events:
            yield event
            sent += 1
            if sent == most:
                return


ARROW = "application/vnd.apache.arrow.stream"


@router.get("/segments", responses={200: {"content": {ARROW: {}}}}, response_class=Response)
def segments(request: Request) -> Response:
    """Return all segments at the displayed second as an Arrow stream, for notebooks and other programs."""
    second, numbers, traffic, notices = get_city(request).displayed_map()
    cells = np.arange(traffic.cars.size)
    xways = np.array(numbers, np.int32)
    table = pa.table(
        {
            "second": np.full(cells.size, second, np.int32),
            "xway": xways[cells // CELLS],
            "dir": (cells % CELLS // SEGMENTS).astype(np.int8),
            "seg": (cells % SEGMENTS).astype(np.int8),
            "cars": traffic.cars,
            "speed": traffic.speed,
            "lav": notices.lav,
            "toll": notices.toll,
            "accident": notices.accident,
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Response(sink.getvalue().to_pybytes(), media_type=ARROW)


class Cars(BaseModel):
    """The cars on an expressway with their last reports, as columns."""

    second: int
    xway: int
    vid: list[int]
    time: list[int]
    pos: list[int]
    spd: list[int]
    lane: list[int]
    dir: list[int]


@router.get("/expressways/{xway}/cars")
def cars(request: Request, xway: Annotated[int, Path(ge=0, lt=2**31)]) -> Cars:
    """Return all cars on an expressway at the displayed second."""
    city = get_city(request)
    subject, second = city.subject, city.state.shown
    place = subject.roads.place(xway) if subject.roads else None
    if subject.roads is None or place is None or second < 0:
        raise NotFound(f"There is no traffic on expressway {xway}.", hint="Choose one on the map.")
    reports = subject.roads.now(place[0], second)
    columns = {name: reports[name].tolist() for name in ("time", "pos", "spd", "lane", "dir")}
    shift = place[1] * subject.roads.run.manifest.vid_stride
    return Cars(second=second, xway=xway, vid=(reports["vid"] + shift).tolist(), **columns)


Direction = Annotated[int, Path(ge=0, le=1, description="0 east, 1 west")]
SegmentNumber = Annotated[int, Path(ge=0, lt=SEGMENTS)]


@router.get("/expressways/{xway}/{direction}/{seg}")
def segment(
    request: Request,
    xway: Annotated[int, Path(ge=0, lt=2**31)],
    direction: Direction,
    seg: SegmentNumber,
    minutes: Annotated[int, Query(ge=1, le=30)] = 10,
) -> list[PlottedMinute]:
    """Return the last minutes of a segment, up to the displayed second."""
    return get_city(request).segment(xway, direction, seg, minutes)


@router.get("/vehicles/{vid}")
def vehicle(request: Request, vid: Annotated[int, Path(ge=0, lt=2**31)]) -> VehicleDetail:
    """Return a vehicle at the displayed second: its position, trip, notifications and balance."""
    return get_city(request).vehicle(vid)
