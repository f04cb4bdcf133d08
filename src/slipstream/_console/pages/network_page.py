"""The API of the Network editor page."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from slipstream._console.errors import ERROR_RESPONSES, Conflict, RequestBody, Whole, refusing
from slipstream._console.networks import network_drafts, network_files, source_previews
from slipstream._console.networks.network_runner import BoxHistory, NetworkRunner, RunOptions, RunState
from slipstream._network.boxes import operators
from slipstream._network.boxes.cuboids import CuboidLookup, CuboidQuery, Keep
from slipstream._network.boxes.operators import Operator
from slipstream._network.boxes.tolls.toll import Toll

router = APIRouter(prefix="/api/network", tags=["network"], responses=ERROR_RESPONSES)

Document = Annotated[dict[str, Any], Field(description="A network, with the fields of a network file.")]
#: a column and the field behind it, as --columns takes them
Column = Annotated[str, Field(pattern=r"^(\w+\.)?\w+=[\w. -]+(:\w+)?$", max_length=200)]
Shares = dict[str, Annotated[float, Field(ge=0, le=1)]]


class ParameterModel(BaseModel):
    """A parameter of an operator: its type as declared, and its default if it has one."""

    name: str
    type: str
    default: Any = None
    is_required: bool


class OperatorModel(BaseModel):
    """A box that is a class: built in, or loaded by the command line."""

    kind: str = Field(description="'operator' for loaded operators; otherwise the field of the box.")
    name: str
    about: str
    takes: int = Field(description="The number of inputs.")
    ports: list[str] = Field(description="The outputs.")
    parameters: list[ParameterModel]


class WorkspaceContents(BaseModel):
    """The network files, the recordings, and the boxes that are classes."""

    networks: list[str]
    recordings: list[str]
    folders: list[str] = Field(description="Folders with files of tuples, which a source may follow.")
    operators: list[OperatorModel]
    awake: bool = Field(description="Whether Spark, which checks networks, has started.")


class Opened(BaseModel):
    """A network and its file."""

    file: str
    document: Document


class Save(RequestBody):
    """A network to save; an existing file is overwritten only with ``replace``."""

    file: Annotated[str, Field(max_length=200, pattern=network_files.PLAIN_NAME)]
    document: Document
    replace: bool = False


class NetworkDocument(RequestBody):
    """A network, as it is drawn."""

    document: Document


class NetworkText(RequestBody):
    """A network as YAML."""

    text: Annotated[str, Field(max_length=50_000)]


class WrittenNetwork(BaseModel):
    """A network as YAML."""

    text: str


class ReadNetwork(BaseModel):
    """A network, as it is drawn."""

    document: Document


class NetworkDraft(RequestBody):
    """A network that is being drawn."""

    document: Document
    parallel: Whole = Field(default=1, ge=1, le=64, description="Partitions of every stage.")


class ComplaintModel(BaseModel):
    """What is wrong, and where: boxes.over, outputs.alerts, or empty for the network as a whole."""

    place: str
    message: str
    hint: str
    column: str
    expression: str
    code: str


class StageModel(BaseModel):
    """A stateful operator of the streaming query: its boxes, its keys, and its partitions."""

    stage: int
    boxes: list[str]
    keys: list[list[str]]
    partitions: int
    summary: str = Field(description="A description: its number, partitions and keys.")


class CheckResult(BaseModel):
    """The result of checking a draft."""

    complaints: list[ComplaintModel]
    warnings: list[str]
    schemas: dict[str, dict[str, str]] = Field(description="Columns and types of each arc.")
    stages: list[StageModel] = Field(description="The stages of a network without errors; empty otherwise.")


class StartNetwork(RequestBody):
    """Run a network."""

    document: Document
    inputs: dict[str, Annotated[str, Field(max_length=300)]] = Field(
        description="Source -> a recording or a folder to follow, kafka:HOST:PORT/TOPIC or tcp:HOST:PORT."
    )
    tables: dict[str, str] = Field(default={}, description="Table -> recording.")
    rate: float | None = Field(
        default=None, ge=0.001, le=10**7, description="Tuples per second; null for as fast as possible."
    )
    train: Whole = Field(default=1000, ge=1, le=10**7, description="Tuples per train; a step is one train.")
    steps: Whole = Field(default=0, ge=0, le=10**6, description="Pause after this many steps; 0 does not pause.")
    parallel: Whole = Field(default=1, ge=1, le=64, description="Partitions of every stage.")
    columns: list[Column] = Field(
        default=[], max_length=100, description="Of feeds: the field of the input behind a column, [SOURCE.]id=vin."
    )
    format: str = Field(default="", pattern=r"^\w*$", max_length=20, description="Of feeds; guessed if it is empty.")


class Step(RequestBody):
    """Process a number of trains."""

    trains: Whole = Field(default=1, ge=1, le=10**6)


class Shed(RequestBody):
    """The shares of future tuples to drop, by place."""

    shares: Shares


class NewestTuples(BaseModel):
    """Tuples, newest last."""

    columns: list[str]
    rows: list[list[Any]]


class PreviewSource(RequestBody):
    """Show what a source would read."""

    source: str = Field(min_length=1, max_length=300, description="A recording or a folder, or kafka:HOST:PORT/TOPIC.")
    last: Whole = Field(default=20, ge=1, le=1000, description="Tuples to return.")


class Preview(NewestTuples):
    """What a source would read."""

    types: dict[str, str] = Field(description="Its columns, and their types in a network.")


class Columns(BaseModel):
    """The columns of a recording and their types."""

    columns: dict[str, str]


def _runner(request: Request) -> NetworkRunner:
    runner: NetworkRunner = request.app.state.runner
    return runner


@router.get("/workspace")
def contents(request: Request) -> WorkspaceContents:
    """Return the network files and recordings of the workspace."""
    runner = _runner(request)
    return WorkspaceContents(
        networks=list(network_files.networks(runner.workspace)),
        recordings=list(network_files.recordings(runner.workspace)),
        folders=sorted(network_files.folders(runner.workspace)),
        operators=[_operator(kind) for kind in (Keep, CuboidQuery, CuboidLookup, Toll, *operators.list_operators())],
        awake=runner.awake,
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
    """Return a network file."""
    return Opened(file=file, document=network_drafts.read(network_files.network(_runner(request).workspace, file)))


@router.put("/file")
def save(request: Request, wanted: Save) -> Opened:
    """Save a network as a file that the command line runs."""
    workspace = _runner(request).workspace
    path = network_files.new_network(workspace, wanted.file)
    if path.exists() and not wanted.replace:
        raise Conflict(
            f"{wanted.file} already exists.", hint="Save again to overwrite it, or choose another name.", code="exists"
        )
    network_drafts.write(wanted.document, path)
    return Opened(file=wanted.file, document=network_drafts.read(path))


@router.post("/write")
def write(given: NetworkDocument) -> WrittenNetwork:
    """Return a network as the YAML that would be saved."""
    return WrittenNetwork(text=network_drafts.write_text(given.document))


@router.post("/read")
def read(given: NetworkText) -> ReadNetwork:
    """Return the network that is written as YAML."""
    with refusing("The network cannot be read"):
        return ReadNetwork(document=network_drafts.read_text(given.text))


@router.get("/columns")
def columns(request: Request, recording: Annotated[str, Query(min_length=1, max_length=300)]) -> Columns:
    """Return the columns of a recording."""
    return Columns(columns=network_files.columns(network_files.recording(_runner(request).workspace, recording)))


@router.post("/preview")
def preview(request: Request, wanted: PreviewSource) -> Preview:
    """Return the first tuples of a recording or a folder, or the newest messages of a topic; nothing is run."""
    where = source_previews.find_input(_runner(request).workspace, wanted.source)
    with refusing("No preview"):
        types, rows = source_previews.preview(where, wanted.last)
    return Preview(types=types, columns=list(types), rows=[[row.get(name) for name in types] for row in rows])


@router.post("/check")
def check(request: Request, drawn: NetworkDraft) -> CheckResult:
    """Return all errors of a draft, and the schemas of its correct parts."""
    found = network_drafts.examine(drawn.document, _runner(request).spark(), drawn.parallel)
    complaints = [ComplaintModel(**vars(error)) for error in found.errors]
    stages = [StageModel.model_validate(stage, from_attributes=True) for stage in found.stages]
    return CheckResult(complaints=complaints, warnings=found.warnings, schemas=found.schemas, stages=stages)


@router.get("/run")
def running(request: Request) -> RunState:
    """Return the run: arcs with rates and delays, queues, outputs, shed tuples."""
    return _runner(request).state()


@router.post("/run/start")
def start(request: Request, wanted: StartNetwork) -> RunState:
    """Run a draft over recordings."""
    options = RunOptions(
        wanted.inputs,
        wanted.tables,
        wanted.rate,
        wanted.train,
        wanted.columns,
        wanted.format,
        wanted.steps,
        wanted.parallel,
    )
    return _runner(request).start(wanted.document, options)


@router.post("/run/pause")
def pause(request: Request) -> RunState:
    """Stop the arrival of tuples."""
    return _runner(request).pause()


@router.post("/run/resume")
def resume(request: Request) -> RunState:
    """Resume the arrival of tuples."""
    return _runner(request).resume()


@router.post("/run/step")
def step(request: Request, wanted: Step) -> RunState:
    """Process a number of trains, then pause."""
    return _runner(request).step(wanted.trains)


@router.post("/run/stop")
def stop(request: Request) -> RunState:
    """Stop the run."""
    return _runner(request).stop()


@router.put("/run/shed")
def shed(request: Request, wanted: Shed) -> RunState:
    """Drop tuples at some places."""
    return _runner(request).shed(wanted.shares)


@router.get("/run/history")
def history(request: Request, box: Annotated[str, Query(min_length=1, max_length=300)]) -> BoxHistory:
    """Return what a box cost and remembered over time."""
    return _runner(request).history(box)


@router.get("/run/tuples")
def tuples(
    request: Request,
    name: Annotated[str, Query(min_length=1, max_length=300)],
    kind: Literal["arc", "end"] = "arc",
    last: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> NewestTuples:
    """Return the newest tuples on an arc, or at an output or connection point."""
    rows = _runner(request).tuples(kind, name, last)
    names = list(rows[0]) if rows else []
    return NewestTuples(columns=names, rows=[[row[key] for key in names] for row in rows])
