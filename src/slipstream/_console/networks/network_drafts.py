"""Networks as the page draws them: the form of the network file, as JSON, with complaints at their places.

A sketch may be unfinished. ``examine`` asks the library what is wrong, takes the place it complains of out of the
sketch together with all that hangs on it, and asks again, so that every mistake is told at once and what is right has
its schemas already. Places are named as in the file: ``boxes.over``, ``outputs.alerts``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

from slipstream._console.refusals import NotNow
from slipstream._errors import BadInput, SlipstreamError, locate
from slipstream._network import files
from slipstream._network.algebra import Arc, Network
from slipstream._network.planning.plan import plan
from slipstream._network.planning.stages import Stage
from slipstream._network.schemas import UNKNOWN_COLUMN, Checked, check
from slipstream._network.tasks.superbox import Superbox
from slipstream._tools.staging import temporary_sibling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: a network file's fields as JSON
Sketch: TypeAlias = dict[str, Any]

ORIGINS, ENDS = ("sources", "tables", "boxes"), ("outputs", "points")
_PROBE = "probe_of_the_console"
_LEFT_RIGHT = ("left input", "right input")
#: what the inputs of boxes that take two are called
_SIDES = {"join": _LEFT_RIGHT, "resample": _LEFT_RIGHT, "latest": _LEFT_RIGHT, "lookup": ("cuboid", "input")}


@dataclass(frozen=True)
class Complaint:
    """What is wrong, where (nothing: with the network as a whole), and what to do."""

    place: str
    message: str
    hint: str
    column: str = ""  # the column that is wrong
    expression: str = ""  # the expression that is wrong


@dataclass
class Examined:
    """What the library says of a sketch: complaints, warnings, the schemas of all arcs that have one, and the stages.

    Only a network without complaints has stages.
    """

    complaints: list[Complaint] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    schemas: dict[str, dict[str, str]] = field(default_factory=dict)
    stages: list[Stage] = field(default_factory=list)


def read(path: Path) -> Sketch:
    """The sketch in a network file; operators that are not loaded are read as they are written."""
    return _sketch(files.load(path, unloaded=True))


def write(sketch: Sketch, path: Path) -> None:
    """Write a sketch as a network file; the library must be able to read it, though it need not make sense yet."""
    try:
        text = files.dumps(to_network(sketch))
    except BadInput as error:
        raise NotNow(f"The network cannot be saved yet. {error.message}", hint=error.hint) from error
    stage = temporary_sibling(path, "partial")  # a name that nobody can have made a link of before
    with stage.open("x", encoding="utf-8") as file:
        file.write(text)
    stage.replace(path)


def to_network(sketch: Sketch) -> Network:
    """The network of a sketch, read by the library like a file: JSON is YAML."""
    try:
        return files.loads(json.dumps(sketch, ensure_ascii=False), unloaded=True)
    except RecursionError as error:
        raise BadInput("network: nested too deeply.", hint="A network is a mapping of names.") from error


def _sketch(network: Network) -> Sketch:
    body: Sketch = yaml.load(files.dumps(network), files._Loader)
    return body


def examine(sketch: Sketch, spark: SparkSession, parallel: int = 1) -> Examined:
    """All complaints about a sketch, the schemas of what can be understood, and the stages it would run in."""
    found = Examined()
    rest = _parts(sketch)
    if isinstance(sketch.get("outputs"), dict) and not sketch["outputs"]:
        found.complaints.append(Complaint("", "Nothing leaves the network yet.", "Drag an output onto the canvas."))
    while True:
        try:
            _refuse_open_ends(rest)
            checked = check(to_network(_with_probe(rest)), spark)
        except BadInput as error:
            complaint = _complaint(rest, error, spark)
            found.complaints.append(complaint)
            if not complaint.place:
                return found
            rest = without(rest, complaint.place)
        else:
            found.warnings = [warning for warning in checked.warnings if not warning.startswith(_PROBE)]
            name = files.ArcNames(checked.network)
            found.schemas = {name(arc): schema for arc, schema in checked.schemas.items() if arc.origin != _PROBE}
            if not found.complaints:
                _lay_out(found, checked, parallel)
            return found


def _lay_out(found: Examined, checked: Checked, parallel: int) -> None:
    try:
        found.stages = Superbox(plan(checked), parallel=parallel).stages.listed
    except SlipstreamError as error:  # some networks run in one partition only
        found.complaints.append(Complaint("", _capitalised(error.problem), error.hint))


def _parts(sketch: Sketch) -> Sketch:
    return sketch | {key: dict(part) for key in (*ORIGINS, *ENDS) if isinstance(part := sketch.get(key), dict)}


def _with_probe(sketch: Sketch) -> Sketch:
    """A network needs an output to be checked; a sketch may have none."""
    sources = sketch.get("sources") or {}
    if sketch.get("outputs") != {} or not isinstance(sources, dict):
        return sketch
    return sketch | {"sources": {**sources, _PROBE: {"x": "integer"}}, "outputs": {_PROBE: {"from": _PROBE}}}


def _refuse_open_ends(sketch: Sketch) -> None:
    """Inputs that are not connected and operators that are not chosen yet, in words that help someone who draws."""
    for key in ("boxes", *ENDS):
        for name, body in _mapping(sketch, key):
            if isinstance(body, dict) and body.get("operator") == "":
                with locate(box=f"{key}.{name}"):
                    raise BadInput("no operator yet.", hint="Choose one in the panel on the right.")
            if isinstance(body, dict) and (open_ := _open_input(body)):
                with locate(box=f"{key}.{name}"):
                    raise BadInput(f"{open_} is not connected.", hint="Draw an arc to it.")


def _open_input(body: dict[str, Any]) -> str:
    arcs = body.get("from")
    arcs = arcs if isinstance(arcs, list) else [arcs]
    sides = next((names for kind, names in _SIDES.items() if kind in body), ("input",))
    place = arcs.index("") if "" in arcs else len(arcs)
    if place < max(len(arcs), len(sides)):
        return f"the {sides[place]}" if place < len(sides) else f"input {place + 1}"
    return "the clock" if body.get("clock") == "" else ""


def _complaint(sketch: Sketch, error: BadInput, spark: SparkSession) -> Complaint:
    place = _place(sketch, error.place.box) or _first_wrong(sketch, spark)
    column = str(error.found) if error.code == UNKNOWN_COLUMN else error.place.field
    expression = str(error.found) if error.code == "bad-expression" else ""
    return Complaint(place, _capitalised(error.problem), error.hint, column, expression)


def _place(sketch: Sketch, box: str) -> str:
    """The part of the sketch that an error is about, if it has that part."""
    key, _, name = box.partition(".")
    return box if name in (sketch.get(key) or {}) else _archiving(sketch, name)


def _archiving(sketch: Sketch, name: str) -> str:
    """The output that stands for an archive box and the output of its rejects."""
    for output, body in _mapping(sketch, "outputs"):
        if isinstance(body, dict) and "archive" in body and name in (f"archive_{output}", f"{output}_rejects"):
            return f"outputs.{output}"
    return ""


def _capitalised(problem: str) -> str:
    return problem[:1].upper() + problem[1:]


def _first_wrong(sketch: Sketch, spark: SparkSession) -> str:
    """The first box that is wrong by itself, when the library's message names none."""
    boxes = sketch.get("boxes")
    for name in boxes if isinstance(boxes, dict) else ():
        upstream = _upstream(sketch, name)
        some = {key: body for key, body in sketch["boxes"].items() if key in upstream}
        others = {key: body for key, body in some.items() if key != name}
        if _fails(sketch, some, spark) and not _fails(sketch, others, spark):
            return f"boxes.{name}"
    return ""


def _fails(sketch: Sketch, boxes: dict[str, Any], spark: SparkSession) -> bool:
    part = {"network": "part", "version": 1, "outputs": {}, "boxes": boxes}
    part |= {key: sketch[key] for key in ("sources", "tables") if key in sketch}
    try:
        check(to_network(_with_probe(part)), spark)
    except BadInput:
        return True
    return False


def _origins(body: Any) -> list[str]:
    if not isinstance(body, dict):
        return []
    arcs = body.get("from")
    return [
        str(arc).partition(".")[0] for arc in (*(arcs if isinstance(arcs, list) else [arcs]), body.get("clock")) if arc
    ]


def _upstream(sketch: Sketch, name: str) -> set[str]:
    found, todo = set(), [name]
    while todo:
        one = todo.pop()
        if one in sketch["boxes"] and one not in found:
            found.add(one)
            todo += _origins(sketch["boxes"][one])
    return found


def without(sketch: Sketch, place: str) -> Sketch:
    """The sketch without a place and all that takes its tuples."""
    key, _, name = place.partition(".")
    rest = sketch | {key: {other: body for other, body in sketch[key].items() if other != name}}
    if key in ENDS:
        return rest
    gone = {name}
    while more := {n for n, body in _mapping(rest, "boxes") if n not in gone and gone.intersection(_origins(body))}:
        gone |= more
    for part in ("boxes", *ENDS):
        kept = {n: body for n, body in _mapping(rest, part) if not gone.intersection(_origins(body))}
        if part == "boxes":
            kept = {n: body for n, body in kept.items() if n not in gone}
        if isinstance(rest.get(part), dict):
            rest[part] = kept
    return rest


def _mapping(sketch: Sketch, key: str) -> list[tuple[str, Any]]:
    part = sketch.get(key)
    return list(part.items()) if isinstance(part, dict) else []


def arcs(network: Network) -> list[Arc]:
    """The arcs that are drawn and that something takes, for people to look at."""
    not_drawn = {table.name for table in network.tables}
    not_drawn |= {node.name for node in files.archive_outputs(network).values()}
    taken = [arc for node in network.nodes for arc in node.inputs] + [end.arc for end in network.ends]
    return list(dict.fromkeys(arc for arc in taken if arc.origin not in not_drawn))


def refuse_if_wrong(examined: Examined) -> None:
    """Only a network without complaints runs."""
    if examined.complaints:
        first = examined.complaints[0]
        where = f"{first.place.partition('.')[2]}: " if first.place else ""
        raise NotNow(f"The network is not finished. {where}{first.message}", hint=first.hint)
