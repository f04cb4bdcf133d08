"""Networks as drawn on the page: the contents of a network file as JSON, checked part by part.

A draft may be unfinished. ``examine`` checks it, removes the part with the first error together with everything that
depends on it, and checks again, so that all errors are reported at once and correct parts already have schemas. Parts
are named as in the file: ``boxes.over``, ``outputs.alerts``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import yaml

from slipstream._console.errors import Conflict
from slipstream._console.plain_yaml import refuse_aliases
from slipstream._errors import BadInput, SlipstreamError, locate
from slipstream._network import yaml_files
from slipstream._network.algebra import Arc, Network
from slipstream._network.column_types import spark_schema
from slipstream._network.planning.plan import plan
from slipstream._network.planning.stages import StageInfo
from slipstream._network.schemas import UNKNOWN_COLUMN, Checked, check
from slipstream._network.tasks.superbox import Superbox
from slipstream._tools.files.staging import temporary_sibling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: the fields of a network file as JSON
Draft: TypeAlias = dict[str, Any]

ORIGINS, ENDS = ("sources", "tables", "boxes"), ("outputs", "points")
_PROBE = "probe_of_the_console"
_LEFT_RIGHT = ("left input", "right input")
#: the names of the inputs of boxes with two inputs
_SIDES = {"join": _LEFT_RIGHT, "resample": _LEFT_RIGHT, "latest": _LEFT_RIGHT, "lookup": ("cuboid", "input")}


@dataclass(frozen=True)
class DraftError:
    """What is wrong, where (empty: the network as a whole), and what to do."""

    place: str
    message: str
    hint: str
    column: str = ""  # the column that is wrong
    expression: str = ""  # the expression that is wrong
    code: str = "missing-value"


@dataclass
class DraftReport:
    """The result of checking a draft: errors, warnings, the known schemas of arcs, and the stages.

    Only a network without errors has stages.
    """

    errors: list[DraftError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    schemas: dict[str, dict[str, str]] = field(default_factory=dict)
    stages: list[StageInfo] = field(default_factory=list)


def read(path: Path) -> Draft:
    """Read a network file; operators that are not loaded are kept as they are written."""
    return _to_draft(yaml_files.load(path, unloaded=True))


def read_text(text: str) -> Draft:
    """Read a network from YAML, as :func:`read` does from a file."""
    refuse_aliases(text)
    try:
        return _to_draft(yaml_files.loads(text, "The YAML", unloaded=True))
    except RecursionError as error:
        raise BadInput("The YAML is nested too deeply.", hint="Fix it.", code="unreadable-file") from error


def write_text(draft: Draft) -> str:
    """Return a draft as YAML; it must be readable, but need not be valid yet."""
    try:
        return yaml_files.dumps(to_network(draft))
    except BadInput as error:
        raise error.within("The network cannot be saved yet", Conflict) from error


def write(draft: Draft, path: Path) -> None:
    """Write a draft as a network file; it must be readable, but need not be valid yet."""
    text = write_text(draft)
    stage = temporary_sibling(path, "partial")  # an unpredictable name, which cannot be an existing link
    with stage.open("x", encoding="utf-8") as file:
        file.write(text)
    stage.replace(path)


def to_network(draft: Draft) -> Network:
    """Parse a draft like a network file: JSON is valid YAML."""
    try:
        return yaml_files.loads(json.dumps(draft, ensure_ascii=False), unloaded=True)
    except RecursionError as error:
        raise BadInput("network: nested too deeply.", hint="Simplify the file.", code="too-large") from error


def _to_draft(network: Network) -> Draft:
    body: Draft = yaml.load(yaml_files.dumps(network), yaml_files._Loader)
    return body


def examine(draft: Draft, spark: SparkSession, parallel: int = 1) -> DraftReport:
    """Return all errors of a draft, the schemas of its correct parts, and its stages."""
    found = DraftReport()
    rest = _copy_parts(draft)
    if isinstance(draft.get("outputs"), dict) and not draft["outputs"]:
        found.errors.append(DraftError("", "The network has no output yet.", "Drag an output onto the canvas."))
    while True:
        try:
            _check_connections(rest)
            checked = check(to_network(_with_probe(rest)), spark)
        except BadInput as error:
            located = _locate_error(rest, error, spark)
            found.errors.append(located)
            if not located.place:
                return found
            rest = without(rest, located.place)
        else:
            found.warnings = checked.warnings
            name = yaml_files.ArcNames(checked.network)
            found.schemas = {
                name(arc): spark_schema(schema) for arc, schema in checked.schemas.items() if arc.origin != _PROBE
            }
            if not found.errors:
                _add_stages(found, checked, parallel)
            return found


def _add_stages(found: DraftReport, checked: Checked, parallel: int) -> None:
    try:
        found.stages = Superbox(plan(checked), parallel=parallel).stages.listed
    except SlipstreamError as error:  # some networks run in one partition only
        found.errors.append(DraftError("", _capitalise(error.problem), error.hint, code=error.code))


def _copy_parts(draft: Draft) -> Draft:
    return draft | {key: dict(part) for key in (*ORIGINS, *ENDS) if isinstance(part := draft.get(key), dict)}


def _with_probe(draft: Draft) -> Draft:
    """Add an output to a draft without one: a network requires an output to be checked."""
    sources = draft.get("sources") or {}
    if draft.get("outputs") != {} or not isinstance(sources, dict):
        return draft
    return draft | {"sources": {**sources, _PROBE: {"x": "integer"}}, "outputs": {_PROBE: {"from": _PROBE}}}


def _check_connections(draft: Draft) -> None:
    """Report unconnected inputs and missing operators in the terms of the editor."""
    for key in ("boxes", *ENDS):
        for name, body in _list_items(draft, key):
            if isinstance(body, dict) and body.get("operator") == "":
                with locate(box=f"{key}.{name}"):
                    raise BadInput(
                        "no operator selected.", hint="Choose one in the panel on the right.", code="missing-value"
                    )
            if isinstance(body, dict) and (open_ := _open_input(body)):
                with locate(box=f"{key}.{name}"):
                    raise BadInput(f"{open_} is not connected.", hint="Draw an arc to it.", code="missing-value")


def _open_input(body: dict[str, Any]) -> str:
    arcs = body.get("from")
    arcs = arcs if isinstance(arcs, list) else [arcs]
    sides = next((names for kind, names in _SIDES.items() if kind in body), ("input",))
    place = arcs.index("") if "" in arcs else len(arcs)
    if place < max(len(arcs), len(sides)):
        return f"the {sides[place]}" if place < len(sides) else f"input {place + 1}"
    return "the clock" if body.get("clock") == "" else ""


def _locate_error(draft: Draft, error: BadInput, spark: SparkSession) -> DraftError:
    place = _place(draft, error.place.box) or _find_first_wrong(draft, spark)
    column = str(error.found) if error.code == UNKNOWN_COLUMN else error.place.field
    expression = str(error.found) if error.code in ("bad-expression", "not-allowed") else ""
    return DraftError(place, _capitalise(error.problem), error.hint, column, expression, error.code)


def _place(draft: Draft, box: str) -> str:
    """Return the part of the draft that an error is about, if the draft has it."""
    key, _, name = box.partition(".")
    parts = draft.get(key)
    return box if isinstance(parts, dict) and name in parts else _archive_output(draft, name)


def _archive_output(draft: Draft, name: str) -> str:
    """Return the output that represents an archive box or the output of its rejects."""
    for output, body in _list_items(draft, "outputs"):
        if isinstance(body, dict) and "archive" in body and name in (f"archive_{output}", f"{output}_rejects"):
            return f"outputs.{output}"
    return ""


def _capitalise(problem: str) -> str:
    return problem[:1].upper() + problem[1:]


def _find_first_wrong(draft: Draft, spark: SparkSession) -> str:
    """Return the first box that fails on its own, for a message that names none."""
    boxes = draft.get("boxes")
    for name in boxes if isinstance(boxes, dict) else ():
        upstream = _find_upstream(draft, name)
        some = {key: body for key, body in draft["boxes"].items() if key in upstream}
        others = {key: body for key, body in some.items() if key != name}
        if _fails(draft, some, spark) and not _fails(draft, others, spark):
            return f"boxes.{name}"
    return ""


def _fails(draft: Draft, boxes: dict[str, Any], spark: SparkSession) -> bool:
    part = {"network": "part", "version": 1, "outputs": {}, "boxes": boxes}
    part |= {key: draft[key] for key in ("sources", "tables") if key in draft}
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


def _find_upstream(draft: Draft, name: str) -> set[str]:
    found, todo = set(), [name]
    while todo:
        one = todo.pop()
        if one in draft["boxes"] and one not in found:
            found.add(one)
            todo += _origins(draft["boxes"][one])
    return found


def without(draft: Draft, place: str) -> Draft:
    """Remove a part and everything downstream of it."""
    key, _, name = place.partition(".")
    rest = draft | {key: {other: body for other, body in draft[key].items() if other != name}}
    if key in ENDS:
        return rest
    gone = {name}
    while more := {n for n, body in _list_items(rest, "boxes") if n not in gone and gone.intersection(_origins(body))}:
        gone |= more
    for part in ("boxes", *ENDS):
        kept = {n: body for n, body in _list_items(rest, part) if not gone.intersection(_origins(body))}
        if part == "boxes":
            kept = {n: body for n, body in kept.items() if n not in gone}
        if isinstance(rest.get(part), dict):
            rest[part] = kept
    return rest


def _list_items(draft: Draft, key: str) -> list[tuple[str, Any]]:
    part = draft.get(key)
    return list(part.items()) if isinstance(part, dict) else []


def arcs(network: Network) -> list[Arc]:
    """Return the drawn arcs with a consumer, for inspection."""
    not_drawn = {table.name for table in network.tables}
    not_drawn |= {node.name for node in yaml_files.archive_outputs(network).values()}
    taken = [arc for node in network.nodes for arc in node.inputs] + [end.arc for end in network.ends]
    return list(dict.fromkeys(arc for arc in taken if arc.origin not in not_drawn))


def check_finished(report: DraftReport) -> None:
    """Reject a draft with errors."""
    if report.errors:
        first = report.errors[0]
        where = f"{first.place.partition('.')[2]}: " if first.place else ""
        raise Conflict(f"The network is not finished. {where}{first.message}", hint=first.hint, code=first.code)
