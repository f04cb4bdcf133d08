"""The interface of the Network editor page."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from slipstream._console.networks import network_drafts, network_files
from slipstream._console.networks.network_runner import Order, Working, Works
from slipstream._console.problems import PROBLEMS, Whole, Wish
from slipstream._console.refusals import NotNow
from slipstream._network.boxes import operators
from slipstream._network.boxes.cuboids import CuboidLookup, CuboidQuery, Keep
from slipstream._network.boxes.operators import Operator
from slipstream._network.boxes.toll import Toll

router = APIRouter(prefix="/api/network", tags=["network"], responses=PROBLEMS)

Document = Annotated[dict[str, Any], Field(description="A network, with the fields of a network file.")]
Partitions = Annotated[Whole, Field(ge=1, le=64, description="Partitions of every stage.")]
Shares = dict[str, Annotated[float, Field(ge=0, le=1)]]


class ParameterModel(BaseModel):
    """A parameter of an operator: its type as its class says it, and its default if it has one."""

    name: str
    type: str
    default: Any = None
    is_required: bool


class OperatorModel(BaseModel):
    """A box that is a class: one of the library's, or one that the command line loaded, which networks name."""

    kind: str = Field(description="operator for those that networks name; otherwise the field of its box.")
    name: str
    about: str
    takes: int = Field(description="How many inputs it has.")
    ports: list[str] = Field(description="Its outputs.")
    parameters: list[ParameterModel]


class Shelf(BaseModel):
    """What can be opened, what can stream in, and the boxes that are classes."""

    networks: list[str]
    recordings: list[str]
    operators: list[OperatorModel]
    awake: bool = Field(description="Whether Spark, which checks networks, has started.")


class Opened(BaseModel):
    """A network and its file."""

    file: str
    document: Document


class Save(Wish):
    """A network to save; an existing file is replaced only if that is said."""

    file: Annotated[str, Field(max_length=200, pattern=network_files.PLAIN_NAME)]
    document: Document
    replace: bool = False


class Sketch(Wish):
    """A network that is being drawn."""

    document: Document
    parallel: Partitions = 1


class ComplaintModel(BaseModel):
    """What is wrong, and where: boxes.over, outputs.alerts, or nothing for the network as a whole."""

    place: str
    message: str
    hint: str
    column: str
    expression: str


class StageModel(BaseModel):
    """A stateful operator of the streaming query: its boxes, what it is partitioned by, and into how many parts."""

    stage: int
    boxes: list[str]
    keys: list[list[str]]
    partitions: int
    summary: str = Field(description="For people: its number, its partitions and its keys.")


class Verdict(BaseModel):
    """What the library says of a sketch."""

    complaints: list[ComplaintModel]
    warnings: list[str]
    schemas: dict[str, dict[str, str]] = Field(description="Of each arc: columns and types.")
    stages: list[StageModel] = Field(description="How a network without complaints runs; empty otherwise.")


class Start(Wish):
    """Run a network."""

    document: Document
    inputs: dict[str, str] = Field(description="Source -> recording.")
    tables: dict[str, str] = Field(default={}, description="Table -> recording.")
    rate: float | None = Field(default=None, ge=0.001, le=10**7, description="Tuples a second; none: all at once.")
    train: Whole = Field(default=1000, ge=1, le=10**7, description="Tuples that arrive together; a step.")
    steps: Whole = Field(default=0, ge=0, le=10**6, description="Take so many steps and pause; 0 runs on.")
    parallel: Partitions = 1


class Step(Wish):
    """Take so many steps."""

    trains: Whole = Field(default=1, ge=1, le=10**6)


class Shed(Wish):
    """How much to drop where, of the tuples to come."""

    shares: Shares


class Tuples(BaseModel):
    """Tuples, the newest last."""

    columns: list[str]
    rows: list[list[Any]]


class Columns(BaseModel):
    """The columns of a recording and their types."""

    columns: dict[str, str]


def _works(request: Request) -> Works:
    works: Works = request.app.state.works
    return works


@router.get("/shelf")
def shelf_(request: Request) -> Shelf:
    """The network files and recordings of the workspace."""
    works = _works(request)
    return Shelf(
        networks=list(network_files.networks(works.workspace)),
        recordings=list(network_files.recordings(works.workspace)),
        operators=[_operator(kind) for kind in (Keep, CuboidQuery, CuboidLookup, Toll, *operators.registered())],
        awake=works.awake,
    )


def _operator(kind: type[Operator]) -> OperatorModel:
    about = (kind.__doc__ or "").strip().partition("\n")[0].replace("``", "")
    parameters = [_parameter(field) for field in dataclasses.fields(kind)]
    return OperatorModel(
        kind=kind.kind, name=kind.name, about=about, takes=kind.takes, ports=list(kind.ports), parameters=parameters
    )


def _parameter(field: dataclasses.Field[Any]) -> ParameterModel:
    is_required = field.default is field.default_factory is dataclasses.MISSING
    default = field.default if isinstance(field.default, str | int | float | bool) else None
    return ParameterModel(name=field.name, type=str(field.type), default=default, is_required=is_required)


@router.get("/file")
def open_(request: Request, file: Annotated[str, Query(min_length=1, max_length=300)]) -> Opened:
    """A network file."""
    return Opened(file=file, document=network_drafts.read(network_files.network(_works(request).workspace, file)))


@router.put("/file")
def save(request: Request, wanted: Save) -> Opened:
    """Save a network as a file that the command line runs."""
    workspace = _works(request).workspace
    path = network_files.new_network(workspace, wanted.file)
    if path.exists() and not wanted.replace:
        raise NotNow(f"{wanted.file} exists already.", hint="Save again to replace it, or choose another name.")
    network_drafts.write(wanted.document, path)
    return Opened(file=wanted.file, document=network_drafts.read(path))


@router.get("/columns")
def columns(request: Request, recording: Annotated[str, Query(min_length=1, max_length=300)]) -> Columns:
    """The columns of a recording."""
    return Columns(columns=network_files.columns(network_files.recording(_works(request).workspace, recording)))


@router.post("/check")
def check(request: Request, drawn: Sketch) -> Verdict:
    """Everything that is wrong with a sketch, and the schemas of what is right."""
    found = network_drafts.examine(drawn.document, _works(request).spark(), drawn.parallel)
    complaints = [ComplaintModel(**vars(complaint)) for complaint in found.complaints]
    stages = [StageModel.model_validate(stage, from_attributes=True) for stage in found.stages]
    return Verdict(complaints=complaints, warnings=found.warnings, schemas=found.schemas, stages=stages)


@router.get("/run")
def running(request: Request) -> Working:
    """The run: arcs with rates and delays, queues, outputs, what was shed."""
    return _works(request).state()


@router.post("/run/start")
def start(request: Request, wanted: Start) -> Working:
    """Run a sketch over recordings."""
    order = Order(wanted.inputs, wanted.tables, wanted.rate, wanted.train, wanted.steps, wanted.parallel)
    return _works(request).start(wanted.document, order)


@router.post("/run/pause")
def pause(request: Request) -> Working:
    """Let no more tuples arrive."""
    return _works(request).pause()


@router.post("/run/resume")
def resume(request: Request) -> Working:
    """Let tuples arrive again."""
    return _works(request).resume()


@router.post("/run/step")
def step(request: Request, wanted: Step) -> Working:
    """Let so many trains arrive, then pause."""
    return _works(request).step(wanted.trains)


@router.post("/run/stop")
def stop(request: Request) -> Working:
    """End the run."""
    return _works(request).stop()


@router.put("/run/shed")
def shed(request: Request, wanted: Shed) -> Working:
    """Drop tuples at some places."""
    return _works(request).shed(wanted.shares)


@router.get("/run/tuples")
def tuples(
    request: Request,
    name: Annotated[str, Query(min_length=1, max_length=300)],
    kind: Literal["arc", "end"] = "arc",
    last: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> Tuples:
    """The newest tuples on an arc, or at an output or connection point."""
    rows = _works(request).tuples(kind, name, last)
    names = list(rows[0]) if rows else []
    return Tuples(columns=names, rows=[[row[key] for key in names] for row in rows])
