"""Networks as YAML: read with checks of every field, and written such that a round trip gives the same network.

network: border
version: 1
sources:
  soldiers: {sid: bigint, time: bigint, pos: bigint}
boxes:
  over: {filter: [pos >= 30], from: soldiers}
  crowd: {aggregate: {n: count(*)}, order: {on: time, slack: 1}, size: 1, from: over}
outputs:
  alerts: {from: crowd}
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from reprlib import repr  # shortens untrusted values
from typing import Any

import yaml

from slipstream._errors import MALFORMED, BadArgument, BadInput, locate
from slipstream._io.outputs.destinations import check_inside
from slipstream._network.algebra import (
    Aggregate,
    Arc,
    Box,
    BSort,
    ConnectionPoint,
    Filter,
    Join,
    Latest,
    Map,
    Network,
    NetworkOutput,
    NetworkSource,
    NetworkTable,
    Node,
    Order,
    Resample,
    Running,
    Union,
)
from slipstream._network.boxes import operators
from slipstream._network.boxes.archive import Archive
from slipstream._network.boxes.cuboids import CuboidLookup, CuboidQuery, Keep
from slipstream._network.boxes.operators import Operator, Unloaded
from slipstream._network.column_types import plain_schema, spark_schema
from slipstream._network.quality.qos import DELAY, DROP, Graph, Quality
from slipstream._tools.strict_json import decode_as

VERSION = 1
#: the largest integer that a float represents exactly
_LARGEST = 2**53


class _Loader(yaml.SafeLoader):
    """YAML 1.2 booleans: only true and false; ``on`` is a string, and the name of a field here."""


class _Dumper(yaml.SafeDumper):
    """Writes what ``_Loader`` reads."""


for _class in (_Loader, _Dumper):
    _class.yaml_implicit_resolvers = {
        start: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:bool"]
        for start, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    _class.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))


_NO_FILE = "Give a network file; `slipstream examples` writes some."


def load(path: Path, *, unloaded: bool = False) -> Network:
    """Read a network file; see :func:`loads` for ``unloaded``."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        if not path.exists():
            raise BadArgument(f"{path}: no such file or folder.", hint=_NO_FILE, code="no-such-file") from error
        raise BadInput(f"{path}: cannot be read.", hint=_NO_FILE, code="no-such-file") from error
    return loads(text, str(path), unloaded=unloaded)


def loads(text: str, where: str = "network", *, unloaded: bool = False) -> Network:
    """Read a network from text; ``where`` names it in messages.

    An operator that is not registered is refused unless ``unloaded`` is set: then it is read as an
    :class:`~slipstream._network.boxes.operators.Unloaded` box, which can be drawn and written, but not checked or run.
    """
    try:
        body = yaml.load(text, _Loader)
    except (yaml.YAMLError, *MALFORMED) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or f"not YAML ({type(error).__name__})"
        raise BadInput(f"{where}{line}: {problem}.", hint="Fix the YAML there.", code="unreadable-file") from error
    return _Reader(where, unloaded=unloaded).network(body)


def dumps(network: Network) -> str:
    """Write a network as text; ``loads`` gives the same network back."""
    body: dict[str, Any] = {"network": network.name, "version": VERSION}
    if network.note:
        body["note"] = network.note
    body["sources"] = {source.name: spark_schema(source.schema) for source in network.sources}
    if network.tables:
        body["tables"] = {table.name: spark_schema(table.schema) for table in network.tables}
    name, archives = ArcNames(network), archive_outputs(network)
    boxes = [node for node in network.nodes if node not in archives.values()]
    implied = {f"{output}_rejects" for output in archives}
    ends = [output for output in network.outputs if output.name not in implied]
    body["boxes"] = {node.name: _box(node, name) for node in boxes}
    body["outputs"] = {output.name: _output(output, name, archives.get(output.name)) for output in ends}
    if network.points:
        body["points"] = {point.name: _point(point, name) for point in network.points}
    return str(yaml.dump(body, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None))


def archive_outputs(network: Network) -> dict[str, Node]:
    """Return the archive boxes that a file writes as outputs with ``archive``, by the names of these outputs.

    A box of the same name that is written explicitly, or whose trips have other consumers, is a box like any other.
    """
    arcs = [arc for node in network.nodes for arc in node.inputs] + [end.arc for end in network.ends]
    taken = Counter(arc.origin for arc in arcs)
    nodes = {node.name: node for node in network.nodes if isinstance(node.box, Archive) and taken[node.name] == 2}
    found = {}
    for trips, rejects in pairwise(network.outputs):
        node = nodes.get(f"archive_{trips.name}")
        if node is None or trips.arc != Arc(node.name) or node != Node(node.name, node.box, node.inputs):
            continue
        if rejects == NetworkOutput(f"{trips.name}_rejects", Arc(node.name, 1)):
            found[trips.name] = node
    # reading puts these boxes after all others
    return found if network.nodes[len(network.nodes) - len(found) :] == tuple(found.values()) else {}


class ArcNames:
    """The names of a network's arcs in a file: outputs of operators have names."""

    def __init__(self, network: Network) -> None:
        self._ports = {n.name: n.box.ports for n in network.nodes if isinstance(n.box, Operator)}

    def __call__(self, arc: Arc) -> str:
        """Return what a file calls an arc."""
        ports = self._ports.get(arc.origin, ())
        return f"{arc.origin}.{ports[arc.port]}" if 0 < arc.port < len(ports) else str(arc)


def _box(node: Node, name: ArcNames) -> dict[str, Any]:
    sources = [name(arc) for arc in node.inputs]
    body = _arguments(node.box)
    if isinstance(node.box, Aggregate) and len(sources) > 1:
        body["clock"] = sources.pop()
    body["from"] = sources[0] if len(sources) == 1 else sources
    return body | {key: value for key, value in (("group", node.group), ("note", node.note)) if value}


def _arguments(box: Box) -> dict[str, Any]:
    """A box's own fields, without those that have their default."""
    body: dict[str, Any] = {}
    match box:
        case Filter():
            body = {"filter": list(box.predicates)}
        case Map():
            body = {"map": dict(box.columns)}
        case Union():
            body = {"union": True}
        case BSort():
            body = {"bsort": True, "order": _order(box.order)}
        case Aggregate():
            body = {"aggregate": dict(box.functions), "order": _order(box.order)}
            body |= {"size": box.size, "advance": box.advance, "timeout": box.timeout}
        case Join():
            body = {"join": box.predicate, "size": box.size}
            body |= {"left": box.left and _order(box.left), "right": box.right and _order(box.right)}
            body |= {"outer": box.outer or None}
        case Latest():
            body = {"latest": list(box.on), "before": box.before or None}
        case Running():
            body = {"running": dict(box.functions), "group_by": list(box.group_by) or None}
        case Resample():
            body = {"resample": dict(box.functions), "size": box.size, "left": _order(box.left)}
            body |= {"right": _order(box.right), "lag": box.lag}
        case Operator():
            body = _operator(box)
    return {key: value for key, value in body.items() if value is not None}


def _operator(box: Operator) -> dict[str, Any]:
    match box:
        case Keep():
            return {"keep": box.cuboid, "ranges": list(box.ranges) or None}
        case CuboidQuery():
            return {"query": box.select}
        case CuboidLookup():
            return {"lookup": dict(box.columns), "key": box.by, "outer": box.outer or None}
        case Unloaded():
            return {"operator": box.name, "parameters": box.given or None}
    if box.kind == "toll":
        return {"toll": {name: getattr(value, "name", value) for name, value in operators.list_parameters(box).items()}}
    return {"operator": box.name, "parameters": operators.list_parameters(box) or None}


def _order(order: Order) -> dict[str, Any]:
    body: dict[str, Any] = {"on": order.on}
    if order.slack:
        body["slack"] = order.slack
    if order.group_by:
        body["group_by"] = list(order.group_by)
    return body


def _output(output: NetworkOutput, name: ArcNames, archive: Node | None) -> dict[str, Any]:
    quality = output.quality
    body: dict[str, Any] = {"from": name(output.arc)}
    if archive is not None and isinstance(archive.box, Operator):
        body = {"from": name(archive.inputs[0]), "archive": operators.list_parameters(archive.box)}
    if quality.delay != DELAY:
        body["delay"] = _points(quality.delay)
    if quality.drop != DROP:
        body["drop"] = _points(quality.drop)
    if quality.value:
        body["value"] = {"column": quality.value_column, "graph": _points(quality.value)}
    to = {"to": output.to[0] if len(output.to) == 1 else list(output.to)} if output.to else {}
    return body | to | ({"view": True} if output.view else {}) | _keep(output)


def _points(graph: Graph) -> list[list[float]]:
    return [[x, y] for x, y in graph.points]


def _point(point: ConnectionPoint, name: ArcNames) -> dict[str, Any]:
    return {"from": name(point.arc), **_keep(point), **({"key": point.key} if point.key else {})}


def _keep(end: NetworkOutput | ConnectionPoint) -> dict[str, Any]:
    keep = {"keep_seconds": end.keep_seconds, "keep_tuples": end.keep_tuples}
    return {key: value for key, value in keep.items() if value is not None}


class _Reader:
    """Reads the parts of a file; every error gives the place in the file."""

    def __init__(self, where: str, *, unloaded: bool) -> None:
        self._where, self._unloaded = where, unloaded
        #: the outputs that arcs name, by box: all that is known of an unloaded operator
        self._named: dict[str, list[str]] = {}
        #: the boxes whose outputs have names
        self._operators: dict[str, Operator] = {}
        #: the boxes of outputs with ``archive``
        self._archives: list[Node] = []

    def network(self, body: Any) -> Network:
        where = self._where
        fields = self._fields(
            where, body, {"network", "version", "sources", "boxes", "outputs"}, {"tables", "points", "note"}
        )
        if fields["version"] != VERSION:
            raise BadInput(
                f"{where}: network format {repr(fields['version'])}, but this version reads {VERSION}.",
                hint="Use the version that wrote it.",
                code="wrong-version",
            )
        self._named = _named_outputs(fields) if self._unloaded else {}
        nodes = [read() for read in self._read_each(fields, "boxes", self._node)]
        outputs = [output for several in self._read_each(fields, "outputs", self._outputs) for output in several]
        return Network(
            name=self._text(f"{where}, network", fields["network"]),
            sources=tuple(
                self._read_each(
                    fields, "sources", lambda w, name, b: NetworkSource(name, plain_schema(self._texts(w, b)))
                )
            ),
            nodes=(*nodes, *self._archives),
            outputs=tuple(outputs),
            tables=tuple(
                self._read_each(
                    fields, "tables", lambda w, name, b: NetworkTable(name, plain_schema(self._texts(w, b)))
                )
            ),
            points=tuple(self._read_each(fields, "points", self._point)),
            note=self._text(f"{where}, note", fields.get("note", "")),
        )

    def _read_each(self, fields: dict[str, Any], key: str, read: Callable[[str, str, Any], Any]) -> list[Any]:
        body = fields.get(key) or {}
        if not isinstance(body, dict):
            raise BadInput(
                f"{self._where}, {key}: not a mapping of names.",
                hint="Write one name per line.",
                code="malformed-value",
            )
        return [self._read_at(f"{key}.{name}", read, str(name), part) for name, part in body.items()]

    def _read_at(self, place: str, read: Callable[..., Any], *given: Any) -> Any:
        """Read a part of the file; what is wrong with it carries the place."""
        where = f"{self._where}, {place}"
        with locate(where, box=place):
            return read(where, *given)

    def _fields(self, where: str, body: Any, needed: set[str], allowed: set[str]) -> dict[str, Any]:
        if not isinstance(body, dict):
            raise BadInput(
                f"{where}: not a mapping.", hint=f"It needs: {', '.join(sorted(needed))}.", code="malformed-value"
            )
        for key in body:
            if key not in needed | allowed:
                near = difflib.get_close_matches(str(key), needed | allowed, 1)
                guess = f"Did you mean {near[0]!r}?" if near else f"It takes: {', '.join(sorted(needed | allowed))}."
                raise BadInput(f"{where}: no field {repr(key)} here.", hint=guess, code="unknown-field")
        for key in sorted(needed):
            if key not in body:
                raise BadInput(
                    f"{where}: {key!r} is missing.",
                    hint=f"It needs: {', '.join(sorted(needed))}.",
                    code="missing-value",
                )
        return dict(body)

    def _text(self, where: str, value: Any) -> str:
        if not isinstance(value, str):
            raise BadInput(
                f"{where}: {repr(value)} is not text.",
                hint="Put it in quotes if it looks like another type.",
                code="malformed-value",
            )
        return value

    def _texts(self, where: str, body: Any) -> dict[str, str]:
        if not isinstance(body, dict):
            raise BadInput(
                f"{where}: not a mapping of names to text.", hint="Write name: value pairs.", code="malformed-value"
            )
        return {str(name): self._text(f"{where}.{name}", text) for name, text in body.items()}

    def _list(self, where: str, value: Any) -> tuple[str, ...]:
        items = value if isinstance(value, list) else [value]
        return tuple(self._text(where, item) for item in items)

    def _number(self, where: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadInput(f"{where}: {repr(value)} is not a number.", hint="Give a number.", code="malformed-value")
        if not abs(value) <= _LARGEST:
            raise BadInput(
                f"{where}: {repr(value)} is out of range.", hint="Give a number up to 2^53.", code="out-of-range"
            )
        return value

    def _node(self, where: str, name: str, body: Any) -> Callable[[], Node]:
        """A box; the arcs into it are read when all boxes are known."""
        kinds = [kind for kind in _BOX_FIELDS if isinstance(body, dict) and kind in body]
        if len(kinds) != 1:
            raise BadInput(
                f"{where}: no box type, or more than one.",
                hint=f"Give one of: {', '.join(_BOX_FIELDS)}.",
                code="bad-network",
            )
        kind = kinds[0]
        needed, allowed = _BOX_FIELDS[kind]
        fields = self._fields(where, body, {kind, "from", *needed}, {"group", "note", *allowed})
        texts = [(f"{where}, from", text) for text in self._list(f"{where}, from", fields["from"])]
        if "clock" in fields:
            texts.append((f"{where}, clock", fields["clock"]))
        group, note = (self._text(f"{where}, {key}", fields.get(key, "")) for key in ("group", "note"))
        box = self._box(where, name, kind, fields)
        if isinstance(box, Operator):
            self._operators[name] = box

        def connect(_: str) -> Node:
            return Node(name, box, tuple(self._arc(*text) for text in texts), group, note)

        return lambda: self._read_at(f"boxes.{name}", connect)

    def _box(self, where: str, name: str, kind: str, fields: dict[str, Any]) -> Box:
        read: dict[str, Callable[[], Box]] = {
            "filter": lambda: Filter(self._list(f"{where}, filter", fields["filter"])),
            "map": lambda: Map(self._texts(f"{where}, map", fields["map"])),
            "union": Union,
            "bsort": lambda: BSort(self._order(f"{where}, order", fields["order"])),
            "aggregate": lambda: self._aggregate(where, fields),
            "join": lambda: self._join(where, fields),
            "resample": lambda: self._resample(where, fields),
            "latest": lambda: Latest(
                self._list(f"{where}, latest", fields["latest"]), self._truth(where, fields, "before")
            ),
            "running": lambda: Running(
                self._texts(f"{where}, running", fields["running"]),
                self._list(f"{where}, group_by", fields.get("group_by", [])),
            ),
            "operator": lambda: self._operator(where, name, fields),
            "keep": lambda: self._keep(where, fields),
            "query": lambda: CuboidQuery(self._text(f"{where}, query", fields["query"])),
            "lookup": lambda: self._lookup(where, fields),
            "toll": lambda: self._toll(f"{where}, toll", fields["toll"]),
        }
        return read[kind]()

    def _aggregate(self, where: str, fields: dict[str, Any]) -> Aggregate:
        size = self._number(f"{where}, size", fields["size"])
        advance = self._read_optional(where, fields, "advance")
        return Aggregate(
            self._texts(f"{where}, aggregate", fields["aggregate"]),
            self._order(f"{where}, order", fields["order"]),
            size,
            size if advance is None else advance,
            self._read_optional(where, fields, "timeout"),
        )

    def _join(self, where: str, fields: dict[str, Any]) -> Join:
        left, right = (
            None if fields.get(side) is None else self._order(f"{where}, {side}", fields[side])
            for side in ("left", "right")
        )
        predicate, size = self._text(f"{where}, join", fields["join"]), self._read_optional(where, fields, "size")
        return Join(predicate, size, left, right, self._truth(where, fields, "outer"))

    def _resample(self, where: str, fields: dict[str, Any]) -> Resample:
        left, right = (self._order(f"{where}, {side}", fields[side]) for side in ("left", "right"))
        functions = self._texts(f"{where}, resample", fields["resample"])
        size = self._number(f"{where}, size", fields["size"])
        return Resample(functions, size, left, right, self._read_optional(where, fields, "lag"))

    def _keep(self, where: str, fields: dict[str, Any]) -> Keep:
        ranges = fields.get("ranges", [])
        if not isinstance(ranges, list) or not all(type(bound) is int for bound in ranges):
            raise BadInput(
                f"{where}.ranges: {ranges!r} are not integers.",
                hint="Write ranges: [1000, 2000].",
                code="malformed-value",
                found=ranges,
            )
        return Keep(self._cuboid(f"{where}, keep", fields["keep"]), tuple(ranges))

    def _cuboid(self, where: str, value: Any) -> str:
        """A declaration: as text, or as the attributes of a cuboid that has the name of its box."""
        if not isinstance(value, dict):
            return self._text(where, value)
        name = where.removesuffix(", keep").rpartition(".")[2]
        forms = ", ".join(f"{attribute} {form}" for attribute, form in self._texts(where, value).items())
        return f"CREATE CUBOID {name} ({forms})"

    def _toll(self, where: str, body: Any) -> Operator:
        from slipstream._network.boxes.tolls.toll import Toll  # it brings the toll engine's kernels

        return self._parameters(where, Toll, body if body is not None and body is not True else {})

    def _lookup(self, where: str, fields: dict[str, Any]) -> CuboidLookup:
        columns = self._texts(f"{where}, lookup", fields["lookup"])
        outer = self._truth(where, fields, "outer")
        return CuboidLookup(columns, self._text(f"{where}, key", fields["key"]), outer)

    def _truth(self, where: str, fields: dict[str, Any], key: str) -> bool:
        value = fields.get(key, False)
        if not isinstance(value, bool):
            raise BadInput(
                f"{where}.{key}: {repr(value)} is neither true nor false.",
                hint=f"Write {key}: true.",
                code="malformed-value",
            )
        return value

    def _operator(self, where: str, name: str, fields: dict[str, Any]) -> Operator:
        called, given = self._text(f"{where}, operator", fields["operator"]), fields.get("parameters") or {}
        try:
            kind = operators.find(called)
        except BadInput as error:
            if not self._unloaded:
                raise error.within(where, BadInput) from error
            takes = len(self._list(f"{where}, from", fields["from"]))
            return operators.make_unloaded(called, takes, tuple(self._named.get(name, ())))(given)
        return self._parameters(f"{where}, parameters", kind, given)

    def _parameters(self, where: str, kind: type[Operator], body: Any) -> Operator:
        """An operator with the parameters that a file gives it."""
        needed = {f.name for f in dataclasses.fields(kind) if f.default is f.default_factory is dataclasses.MISSING}
        known = {f.name for f in dataclasses.fields(kind)}
        fields = self._fields(where, body, needed, known - needed)
        try:
            return decode_as(kind, fields)
        except BadInput as error:
            raise error.within(where, BadInput) from error
        except MALFORMED as error:
            raise BadInput(
                f"{where}: {error}.", hint=f"It takes: {_signature(kind)}.", code="malformed-value"
            ) from error

    def _read_optional(self, where: str, fields: dict[str, Any], key: str) -> float | None:
        return None if fields.get(key) is None else self._number(f"{where}, {key}", fields[key])

    def _order(self, where: str, body: Any) -> Order:
        fields = self._fields(where, body, {"on"}, {"slack", "group_by"})
        slack = self._number(f"{where}.slack", fields.get("slack", 0))
        if slack != int(slack):
            raise BadInput(
                f"{where}.slack: {slack} is not an integer.",
                hint="Slack is a number of tuples.",
                code="malformed-value",
            )
        group_by = self._list(f"{where}.group_by", fields.get("group_by", []))
        return Order(self._text(f"{where}.on", fields["on"]), int(slack), group_by)

    def _outputs(self, where: str, name: str, body: Any) -> list[NetworkOutput]:
        """An output; one with ``archive`` is a box, the output of its trips, and that of its rejects."""
        if not isinstance(body, dict) or "archive" not in body:
            return [self._output(where, name, body)]
        output = self._output(where, name, {key: value for key, value in body.items() if key != "archive"})
        box = self._parameters(f"{where}.archive", Archive, body["archive"])
        node = Node(f"archive_{name}", box, (output.arc,))
        self._archives.append(node)
        return [
            replace(output, arc=Arc(node.name)),
            NetworkOutput(f"{name}_rejects", Arc(node.name, box.port("rejects"))),
        ]

    def _output(self, where: str, name: str, body: Any) -> NetworkOutput:
        fields = self._fields(where, body, {"from"}, {"delay", "drop", "value", "view", "to", *_KEEP})
        delay, drop = (
            self._graph(f"{where}.{key}", fields[key]) if key in fields else standard
            for key, standard in (("delay", DELAY), ("drop", DROP))
        )
        quality = Quality(delay, drop)
        if "value" in fields:
            value = self._fields(f"{where}.value", fields["value"], {"column", "graph"}, set())
            column = self._text(f"{where}.value.column", value["column"])
            quality = Quality(quality.delay, quality.drop, self._graph(f"{where}.value", value["graph"]), column)
        arc = self._arc(f"{where}.from", fields["from"])
        view, to = self._truth(where, fields, "view"), self._destinations(f"{where}.to", fields.get("to", []))
        if view and to:
            raise BadInput(
                f"{where}: a view cannot have a destination.", hint="Remove view: or to:.", code="bad-network"
            )
        return NetworkOutput(name, arc, quality, view, *self._read_history_limits(where, fields), to)

    def _destinations(self, where: str, value: Any) -> tuple[str, ...]:
        found = self._list(where, value)
        for one in found:
            try:
                check_inside(one)
            except BadArgument as error:
                raise error.within(where, BadInput) from error
        return found

    def _graph(self, where: str, body: Any) -> Graph:
        try:
            return Graph(tuple((float(x), float(y)) for x, y in body))
        except BadInput as error:
            raise error.within(where, BadInput) from error
        except MALFORMED as error:
            raise BadInput(
                f"{where}: not a QoS graph.", hint="Write [[x, utility], ...].", code="malformed-value"
            ) from error

    def _arc(self, where: str, value: Any) -> Arc:
        text = self._text(where, value)
        origin, _, output = text.partition(".")
        try:
            box = self._operators.get(origin)
            if output and box is not None and (isinstance(box, Unloaded) or not output.isdigit()):
                return Arc(origin, box.port(output))
            return Arc.parse(text)
        except BadInput as error:
            raise error.within(where, BadInput) from error

    def _point(self, where: str, name: str, body: Any) -> ConnectionPoint:
        fields = self._fields(where, body, {"from"}, {"key", *_KEEP})
        arc, key = self._arc(f"{where}.from", fields["from"]), self._text(f"{where}.key", fields.get("key", ""))
        return ConnectionPoint(name, arc, *self._read_history_limits(where, fields), key)

    def _read_history_limits(self, where: str, fields: dict[str, Any]) -> tuple[float | None, int | None]:
        """How much history a connection point or a view keeps, in seconds and in tuples."""
        seconds, tuples = (self._read_optional(where, fields, key) for key in _KEEP)
        return seconds, None if tuples is None else int(tuples)


def _named_outputs(fields: dict[str, Any]) -> dict[str, list[str]]:
    """The outputs that the arcs of a file name, by box."""
    bodies = [
        body
        for key in ("boxes", "outputs", "points")
        if isinstance(fields.get(key), dict)
        for body in fields[key].values()
    ]
    found: dict[str, list[str]] = {}
    for body in bodies:
        if not isinstance(body, dict):
            continue
        taken = body.get("from")
        for arc in (*(taken if isinstance(taken, list) else [taken]), body.get("clock")):
            origin, _, output = str(arc).partition(".")
            if output and output not in found.setdefault(origin, []):
                found[origin].append(output)
    return found


def _signature(kind: type[Operator]) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in dataclasses.fields(kind)) or "no parameters"


#: the fields of a persistence specification
_KEEP = ("keep_seconds", "keep_tuples")

#: kind -> required and optional fields, in addition to its own, ``from``, ``group`` and ``note``
_BOX_FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "filter": (set(), set()),
    "map": (set(), set()),
    "union": (set(), set()),
    "bsort": ({"order"}, set()),
    "aggregate": ({"order", "size"}, {"advance", "timeout", "clock"}),
    "join": (set(), {"size", "left", "right", "outer"}),
    "latest": (set(), {"before"}),
    "running": (set(), {"group_by"}),
    "resample": ({"size", "left", "right"}, {"lag"}),
    "operator": (set(), {"parameters"}),
    "keep": (set(), {"ranges"}),
    "query": (set(), set()),
    "lookup": ({"key"}, {"outer"}),
    "toll": (set(), set()),
}
