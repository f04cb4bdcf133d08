"""Import runs from SUMO: map floating-car data (``fcd-export`` XML) to Linear City's expressways.

A small TOML file maps SUMO edges to parts of expressways, and this module does the rest: metres to feet, metres per
second to miles per hour, one report every 30 seconds from a vehicle's first appearance, integers for vehicle names in
order of appearance. The format of the map is described in docs/how-to/sumo.md.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree.ElementTree import ParseError

import numpy as np
import pyarrow as pa
from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import iterparse

from slipstream._errors import MALFORMED, BadInput
from slipstream._feeds.run import MINUTE, ExpresswayWriter, Manifest, Run, staged_run, versions
from slipstream._feeds.tuple_text import measure_file, open_text
from slipstream._feeds.tuples import MAX_SPEED, MILE, POSITION, REPORT_EVERY, ROAD, SCHEMA
from slipstream._tools.progress import bar, say

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

FEET_PER_METRE = 1 / 0.3048
MPH_PER_METRE_PER_SECOND = 3600 * FEET_PER_METRE / MILE

ENTRY_LANE, EXIT_LANE = 0, 4
RAMPS = {"entry": ENTRY_LANE, "exit": EXIT_LANE}

_MAP = "See docs/how-to/sumo.md for the format of a map."


@dataclass(frozen=True)
class Edge:
    """The location of a SUMO edge: it begins ``offset`` feet from the western end and runs in ``direction``."""

    expressway: int
    direction: int
    offset: float
    lanes: tuple[int, ...] = (1, 2, 3)

    def __post_init__(self) -> None:
        sound = {
            "expressway": type(self.expressway) is int and 0 <= self.expressway < 2**15,
            "direction": self.direction in (0, 1),
            "offset": isinstance(self.offset, int | float) and 0 <= self.offset <= ROAD,
            "lanes": bool(self.lanes) and all(lane in range(ENTRY_LANE, EXIT_LANE + 1) for lane in self.lanes),
        }
        for name, good in sound.items():
            if not good:
                raise ValueError(f"{name} = {getattr(self, name)!r} is out of range")


def read_map(file: Path) -> dict[str, Edge]:
    """Read the edges of a map, by their SUMO names."""
    try:
        body = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, *MALFORMED) as error:
        cause = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"--map {file}: cannot be read ({cause}).", hint=_MAP, code="unreadable-file") from error
    edges = body.get("edges")
    if not isinstance(edges, dict) or not edges or len(body) > 1:
        raise BadInput(
            f"--map {file}: expected one table [edges.NAME] per edge, and nothing else.",
            hint=_MAP,
            code="unreadable-file",
        )
    return {name: _parse_edge(file, name, entry) for name, entry in edges.items()}


def _parse_edge(file: Path, name: str, entry: Any) -> Edge:
    try:
        settings = dict(entry)
        ramp = settings.pop("ramp", None)
        if ramp is not None:
            settings["lanes"] = [RAMPS[ramp]] * 10
        return Edge(**{**settings, "lanes": tuple(settings.get("lanes", Edge.lanes))})
    except KeyError as error:
        raise BadInput(
            f"--map {file}, edge {name}: ramp = {error}, expected entry or exit.",
            hint=_MAP,
            code="unknown-value",
            found=file,
        ) from error
    except MALFORMED as error:
        cause = str(error).removeprefix("Edge.__init__() ")
        raise BadInput(f"--map {file}, edge {name}: {cause}.", hint=_MAP, code="unreadable-file") from error


class Sighting(NamedTuple):
    """A vehicle on a mapped edge at a full second, in SUMO's units."""

    second: int
    vehicle: str
    edge: Edge
    lane: int
    metres: float
    metres_per_second: float


@dataclass
class ImportCounts:
    """Counts of what was imported."""

    sightings: int = 0
    unmapped: int = 0
    capped: int = 0
    unmapped_edges: set[str] = field(default_factory=set)

    def skip(self, edge: str) -> None:
        """Count a vehicle on an unmapped edge; keep a few names for the message."""
        self.unmapped += 1
        if len(self.unmapped_edges) < 5:
            self.unmapped_edges.add(edge)


def import_sumo(source: Path, map_file: Path, out: Path) -> Run:
    """Import SUMO floating-car data as a run."""
    edges = read_map(map_file)
    size = measure_file(source)
    tally = ImportCounts()
    with staged_run(out, needs_bytes=size // 20) as stage:
        writer = _Writer(stage, source, tally)
        for seen in reports(read_sightings(source, edges, tally)):
            writer.add(seen)
        (stage / "manifest.json").write_text(writer.finish(map_file).to_json(), encoding="utf-8")
    if tally.capped:
        say(f"{tally.capped:,} reports were faster than {MAX_SPEED} mph and were reduced to {MAX_SPEED}.")
    return Run.open(out)


def reports(seen: Iterator[Sighting]) -> Iterator[Sighting]:
    """Select each vehicle every 30 s from its first appearance; one that misses its time starts a new sequence."""
    due: dict[str, int] = {}
    for sighting in seen:
        if sighting.second >= due.get(sighting.vehicle, 0):
            due[sighting.vehicle] = sighting.second + REPORT_EVERY
            yield sighting


def read_sightings(source: Path, edges: dict[str, Edge], tally: ImportCounts) -> Iterator[Sighting]:
    """Return all vehicles on mapped edges, step by step; seconds count from the first step."""
    first = last = None
    for step in _read_steps(source):
        now = int(_number(source, step, "timestep", "time"))
        if last is not None:
            _check_step(source, last, now)
        last, first = now, now if first is None else first
        for vehicle in step.iterfind("vehicle"):
            tally.sightings += 1
            name, _, index = vehicle.get("lane", "").rpartition("_")
            if edge := edges.get(name):
                yield _parse_sighting(source, vehicle, now - first, edge, index)
            else:
                tally.skip(name)


def _check_step(source: Path, last: int, now: int) -> None:
    """Reject steps that go backwards, or that do not coincide with the report interval."""
    if now < last or (now > last and REPORT_EVERY % (now - last)):
        raise BadInput(
            f"{source}: time step {now} after {last} does not fit reports every {REPORT_EVERY} s.",
            hint="Export with a period that divides 30: sumo --fcd-output FILE --device.fcd.period 1",
            code="unreadable-line",
        )


def _read_steps(source: Path) -> Iterator[Element]:
    """Read the time steps; only one step is kept in memory."""
    root = None
    with open_text(source) as contents, bar("importing", source.stat().st_size) as advance:
        place = 0
        try:
            for event, element in iterparse(contents, events=("start", "end")):
                root = element if root is None else root
                if root.tag != "fcd-export":
                    raise BadInput(
                        f"{source}: starts with <{root.tag}>, expected <fcd-export>.",
                        hint="Export with: sumo --fcd-output FILE",
                        code="unreadable-file",
                    )
                if event == "end" and element.tag == "timestep":
                    yield element
                    root.clear()
                    advance(contents.tell() - place)
                    place = contents.tell()
        except (ParseError, DefusedXmlException) as error:
            raise BadInput(
                f"{source}: invalid XML ({error}).", hint="Export it from SUMO again.", code="unreadable-file"
            ) from error


def _parse_sighting(source: Path, vehicle: Element, second: int, edge: Edge, index: str) -> Sighting:
    what = f"second {second}, vehicle {vehicle.get('id')!r}"
    if not index.isdecimal() or len(index) > 4 or int(index) >= len(edge.lanes):
        raise BadInput(
            f"{source}, {what}: lane {vehicle.get('lane')!r}, but the map has {len(edge.lanes)} lanes for its edge.",
            hint="List a Linear Road lane for each SUMO lane of the edge: lanes = [1, 2, 3].",
            code="unreadable-line",
        )
    metres, speed = (_number(source, vehicle, what, name) for name in ("pos", "speed"))
    return Sighting(second, vehicle.get("id", ""), edge, edge.lanes[int(index)], metres, speed)


def _number(source: Path, element: Element, what: str, name: str) -> float:
    value = element.get(name)
    try:
        number = float(value or "")
    except ValueError:
        number = -1.0
    if not 0 <= number < 2**31:
        raise BadInput(
            f"{source}, {what}: {name} is {value!r}, expected a non-negative number.",
            hint="Export it from SUMO again.",
            code="unreadable-line",
        )
    return number


class _Writer:
    """Collects reports by minute, and writes minutes to a run's files."""

    def __init__(self, stage: Path, source: Path, tally: ImportCounts) -> None:
        self._stage = stage
        self._source = source
        self._tally = tally
        self._vids: dict[str, int] = {}
        self._minute: list[Sighting] = []
        self._last = 0
        self._writers: dict[int, ExpresswayWriter] = {}

    def add(self, seen: Sighting) -> None:
        if self._minute and seen.second // MINUTE > self._last // MINUTE:
            self._flush()
        self._vids.setdefault(seen.vehicle, len(self._vids))
        self._minute.append(seen)
        self._last = seen.second

    def _flush(self) -> None:
        table = self._make_tuples()
        xways = table.column("xway").to_numpy()
        for xway in np.unique(xways).tolist():
            if xway not in self._writers:
                self._writers[xway] = ExpresswayWriter(self._stage, xway, SCHEMA)
            self._writers[xway].write_minute(table.filter(pa.array(xways == xway)))
        self._minute = []

    def _make_tuples(self) -> pa.Table:
        seen = self._minute
        speed = np.rint(np.array([s.metres_per_second for s in seen]) * MPH_PER_METRE_PER_SECOND)
        self._tally.capped += int(np.count_nonzero(speed > MAX_SPEED))
        columns = dict.fromkeys(SCHEMA.names, np.full(len(seen), -1))
        pos = self._convert_to_feet()
        columns |= {
            "type": np.full(len(seen), POSITION),
            "time": np.array([s.second for s in seen]),
            "vid": np.array([self._vids[s.vehicle] for s in seen]),
            "spd": np.minimum(speed, MAX_SPEED),
            "xway": np.array([s.edge.expressway for s in seen]),
            "lane": np.array([s.lane for s in seen]),
            "dir": np.array([s.edge.direction for s in seen]),
            "seg": pos // MILE,
            "pos": pos,
        }
        return pa.table({name: values.astype(np.int32) for name, values in columns.items()}, schema=SCHEMA)

    def _convert_to_feet(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return full feet from the western end; the end of the road counts as its last foot."""
        driven = np.array([s.metres for s in self._minute]) * FEET_PER_METRE
        east = np.array([1 - 2 * s.edge.direction for s in self._minute])
        feet = np.floor(np.array([s.edge.offset for s in self._minute]) + east * driven)
        off = np.flatnonzero((feet < 0) | (feet > ROAD))
        if off.size:
            seen = self._minute[off[0]]
            raise BadInput(
                f"{self._source}, second {seen.second}, vehicle {seen.vehicle!r}: {seen.metres:g} m from an edge that "
                f"begins at foot {seen.edge.offset:g} is foot {feet[off[0]]:.0f}, off the road of {ROAD:,} feet.",
                hint="Fix the edge's offset or direction in the map.",
                code="unreadable-line",
            )
        return np.minimum(feet, ROAD - 1)

    def finish(self, map_file: Path) -> Manifest:
        if not self._minute:
            some = ", ".join(sorted(self._tally.unmapped_edges)) or "none"
            raise BadInput(
                f"{self._source}: no vehicle on an edge of {map_file}; there are {self._tally.sightings:,} vehicle "
                f"positions, on edges such as: {some}.",
                hint=_MAP,
                code="empty-input",
            )
        self._flush()
        return Manifest(
            source=f"imported from {self._source.name} (SUMO)",
            seconds=self._last + 1,
            expressways=tuple(self._writers[xway].close() for xway in sorted(self._writers)),
            vehicles=len(self._vids),
            vid_stride=len(self._vids),
            qid_stride=0,
            parameters={
                "map": map_file.name,
                "sightings": self._tally.sightings,
                "unmapped": self._tally.unmapped,
                "capped": self._tally.capped,
            },
            versions=versions(),
        )
