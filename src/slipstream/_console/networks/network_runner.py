"""Run a network in a thread of the console.

There is one running network for all pages. Its folder in the workspace is like that of ``slipstream network run``, all
arcs are tapped for inspection, and pausing, stepping and shedding use the same files as the command line. The Spark
session starts when a page first needs it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from slipstream._console.errors import Conflict, NotFound, refusing
from slipstream._console.networks import network_drafts, network_files
from slipstream._console.networks.source_previews import find_input, is_followed
from slipstream._console.workspace import Workspace
from slipstream._errors import BadArgument, SlipstreamError
from slipstream._io.control_file import PAUSE
from slipstream._network import yaml_files
from slipstream._network.algebra import Network
from slipstream._network.boxes.tolls.toll import Toll
from slipstream._network.quality.box_loads import BOXES, SPAN, BoxWork
from slipstream._network.running.driving import drive
from slipstream._network.running.recordings import read_table
from slipstream._network.running.run_folder import ALL, Execution
from slipstream._network.running.source_feeds import open_feeds
from slipstream._spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Status = Literal["idle", "starting", "running", "paused", "stopping", "stopped", "finished", "failed"]

#: seconds between two checks of the control file
_REST = 0.05
#: seconds over which rates are averaged
_RECENT = 5.0
#: lines with loads that are shown over time
_SHOWN_LOADS = 150
_BUSY = ("starting", "running")


@dataclass(frozen=True)
class Flow:
    """The tuples of an arc or an output: in total, and recently."""

    tuples: int = 0
    rate: float = 0.0
    delay: float | None = None
    worst: float | None = None
    good: float | None = None
    delivered: float | None = None
    utility: float | None = None


@dataclass(frozen=True)
class DropPoint:
    """A place where load can be shed: the current share, and the number of tuples dropped."""

    place: str
    arc: str
    taker: str
    side: int
    is_output: bool
    share: float
    dropped: int


@dataclass(frozen=True)
class BoxWeight:
    """What a box costs and remembers now."""

    share: float  # of the time of all boxes
    busy: float | None  # share of the time that it works; None if that is not known yet
    rows: int
    bytes: int


@dataclass(frozen=True)
class BoxHistory:
    """What a box cost and remembered over time, and how much input waited."""

    at: list[float] = field(default_factory=list)  # seconds of the Unix clock
    busy: list[float | None] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    delay: list[float | None] = field(default_factory=list)  # the longest delay of an output, in seconds


@dataclass(frozen=True)
class RunState:
    """The state of the run, for the page."""

    status: Status = "idle"
    error: str = ""
    hint: str = ""
    network: str = ""
    folder: str = ""
    steps_left: int = 0
    batches: int = 0
    queues: dict[str, int] = field(default_factory=dict)
    is_live: bool = False  # whether it reads feeds
    boxes: dict[str, BoxWeight] = field(default_factory=dict)
    arcs: dict[str, Flow] = field(default_factory=dict)
    outputs: dict[str, Flow] = field(default_factory=dict)
    drops: list[DropPoint] = field(default_factory=list)


@dataclass(frozen=True)
class RunOptions:
    """How to run a network: what its sources and tables read, and how fast recordings arrive.

    If any source is a topic, a socket or a folder to follow, all are read as feeds.
    """

    inputs: Mapping[str, str]
    tables: Mapping[str, str]
    rate: float | None
    train: int
    columns: Sequence[str] = ()  # of feeds: the field behind a column
    encoding: str = ""  # of feeds: chosen by their names if it is empty
    steps: int = 0  # 0: do not pause
    parallel: int = 1  # partitions of every stage


class NetworkRunner:
    """Runs one network at a time."""

    def __init__(self, workspace: Workspace, master: str) -> None:
        self.workspace = workspace
        self._master = master
        self._spark_lock, self._lock = threading.Lock(), threading.Lock()
        self._spark: SparkSession | None = None
        self._run: Execution | None = None
        self._status: Status = "idle"
        self._error: tuple[str, str] = ("", "")
        self._thread: threading.Thread | None = None
        self._leave = threading.Event()

    @property
    def awake(self) -> bool:
        """Whether Spark has started."""
        return self._spark is not None

    def spark(self) -> SparkSession:
        """Return the session that checks and runs networks; starts it if necessary."""
        with self._spark_lock:
            if self._spark is None:
                self._spark = session.build("slipstream console", master=self._master)
            return self._spark

    # --- control

    def start(self, draft: network_drafts.Draft, options: RunOptions) -> RunState:
        """Create a folder and run a draft in it."""
        with self._lock:
            self._check_idle()
            network_drafts.check_finished(network_drafts.examine(draft, self.spark(), options.parallel))
            network = network_drafts.to_network(draft)
            self._check_pasts(network)
            tables = self._tables(network, options)
            run = self._prepare(network, options)
            run.taps = network_drafts.arcs(network)
            if options.steps:
                run.step(options.steps)
            self._start_thread(run, tables, 1 if options.rate is None else ALL)
        return self.state()

    def _prepare(self, network: Network, options: RunOptions) -> Execution:
        """Create the folder of a run, for recordings or for feeds."""
        wheres = {source.name: self._find_input("source", source.name, options.inputs) for source in network.sources}
        new = partial(network_files.new_run, self.workspace, network.name)
        if any(isinstance(where, str) or is_followed(where) for where in wheres.values()):
            given = {name: str(where) for name, where in wheres.items()}
            with refusing("The sources cannot be read"):
                feeds = open_feeds(network, given, options.columns, encoding=options.encoding, follow=True)
            return Execution.on_feeds(new()[1], network, feeds, parallel=options.parallel)
        files = {name: Path(where) for name, where in wheres.items()}
        return Execution.prepare(
            new()[1], network, files, train=options.train, rate=options.rate, parallel=options.parallel
        )

    def _start_thread(self, run: Execution, tables: dict[str, DataFrame], trains: int) -> None:
        self._run, self._status, self._error = run, "starting", ("", "")
        self._leave.clear()
        self._thread = threading.Thread(target=self._work, args=(run, tables, trains), daemon=True)
        self._thread.start()

    def _check_idle(self) -> None:
        if self._status in _BUSY:
            raise Conflict("A network is running.", hint="Stop it first.")

    def _check_pasts(self, network: Network) -> None:
        """Reject a toll box that reads the history of a run outside the workspace."""
        runs = {path.resolve() for path in self.workspace.runs().values()}
        pasts = {node.name: node.box.past for node in network.nodes if isinstance(node.box, Toll)}
        for box, past in pasts.items():
            if past and Path(past).resolve() not in runs:
                raise Conflict(
                    f"{box}: no run {past!r} in the workspace.",
                    hint="Use the path of a run in it.",
                    code="unknown-name",
                )

    def _find_input(self, kind: str, name: str, given: Mapping[str, str]) -> Path | str:
        """Return a recording or a folder of the workspace, or a topic or socket."""
        if not given.get(name):
            raise BadArgument(
                f"No input for the {kind} {name}.", hint="Choose one in the panel on the right.", code="missing-value"
            )
        return find_input(self.workspace, given[name])

    def _find_table(self, name: str, given: Mapping[str, str]) -> Path:
        found = self._find_input("table", name, given)
        if isinstance(found, str) or is_followed(found):
            raise BadArgument(
                f"The table {name} reads {given[name]!r}.", hint="Choose a file or a run.", code="wrong-file-type"
            )
        return found

    def _tables(self, network: Network, options: RunOptions) -> dict[str, DataFrame]:
        paths = {table.name: self._find_table(table.name, options.tables) for table in network.tables}
        return {t.name: self.spark().createDataFrame(read_table(paths[t.name], t.schema)) for t in network.tables}

    def pause(self) -> RunState:
        """Stop the arrival of tuples."""
        self._running().pause()
        return self.state()

    def resume(self) -> RunState:
        """Resume the arrival of tuples."""
        self._running().resume()
        return self.state()

    def step(self, trains: int) -> RunState:
        """Process a number of trains, then pause."""
        self._running().step(trains)
        return self.state()

    def shed(self, shares: Mapping[str, float]) -> RunState:
        """Drop these shares of future tuples."""
        self._running().shares = shares
        return self.state()

    def stop(self) -> RunState:
        """Stop the run after its batch; its output is kept."""
        self._running()
        self._leave.set()
        return self.state()

    def _running(self) -> Execution:
        if self._run is None or self._status not in _BUSY:
            raise Conflict("No network is running.", hint="Run one first.")
        return self._run

    def close(self) -> None:
        """Stop the run and wait for it."""
        self._leave.set()
        if self._thread is not None:
            self._thread.join(30)

    # --- the thread

    def _work(self, run: Execution, tables: dict[str, DataFrame], trains: int) -> None:
        try:
            self._status = "running"
            drive(self.spark(), run, tables, trains=trains, rest=lambda: self._leave.wait(_REST))
            self._status = "stopped" if self._leave.is_set() else "finished"
        except SlipstreamError as error:
            self._error, self._status = (error.message, error.hint), "failed"
        except Exception as error:  # reported on the page, whatever it is
            self._error, self._status = (f"{type(error).__name__}: {error}"[:500], ""), "failed"

    # --- inspection

    def state(self) -> RunState:
        """Return the state of the run."""
        run = self._run
        if run is None:
            return RunState()
        control, entries = run.control, run.monitor.entries()
        taps, arc_name = run.taps, yaml_files.ArcNames(run.network)
        return RunState(
            status=self._describe_status(control),
            error=self._error[0],
            hint=self._error[1],
            network=run.network.name,
            folder=self.workspace.name(run.folder),
            steps_left=int(control) if control.isdigit() else 0,
            batches=len(entries),
            queues=_lengths(run),
            is_live=bool(run.feeds),
            boxes=_weigh_boxes(entries, run.parallel),
            arcs={arc_name(arc): _flow(entries, "arcs", name) for name, arc in taps.items()},
            outputs={output.name: _flow(entries, "outputs", output.name) for output in run.network.outputs},
            drops=_drops(run),
        )

    def _describe_status(self, control: str) -> Status:
        """Return the status; only the thread changes the kept one, or a run that has ended might stop forever."""
        if self._status != "running":
            return self._status
        if self._leave.is_set():
            return "stopping"
        return "paused" if control == PAUSE else "running"

    def history(self, box: str) -> BoxHistory:
        """Return the load of a box over the last minutes of the run."""
        if self._run is None:
            raise Conflict("No network has run.", hint="Run one first.")
        made = BoxHistory()
        for entry in [one for one in self._run.monitor.entries() if box in one.get(BOXES, {})][-_SHOWN_LOADS:]:
            load = BoxWork(*entry[BOXES][box])
            made.at.append(entry["at"] / 1e6)
            made.busy.append(_find_busy(load.ms, entry[SPAN], self._run.parallel))
            made.rows.append(load.rows)
            made.bytes.append(load.bytes)
            made.delay.append(max((line["worst"] for line in entry["outputs"].values()), default=None))
        return made

    def tuples(self, kind: Literal["arc", "end"], name: str, last: int) -> list[dict[str, Any]]:
        """Return the newest tuples on an arc, or at an output or a connection point."""
        if self._run is None:
            raise Conflict("No network has run.", hint="Run one first.")
        if kind == "arc":
            arc_name = yaml_files.ArcNames(self._run.network)
            wanted = next((tap for tap, arc in self._run.taps.items() if arc_name(arc) == name), "")
            if not wanted:
                raise NotFound(f"The run has no arc {name!r}.", hint="Run the network as it is drawn.")
            name = wanted
        return [{key: _to_json_value(value) for key, value in row.items()} for row in self._run.inspect(name, last)]


def _to_json_value(value: Any) -> Any:
    """Return a value that JSON can represent."""
    return value if not isinstance(value, float) or math.isfinite(value) else None


def _lengths(run: Execution) -> dict[str, int]:
    # a file may disappear between listing and reading it; the next call is right again
    with suppress(FileNotFoundError):
        return run.queues()
    return {}


def _weigh_boxes(entries: list[dict[str, Any]], parallel: int) -> dict[str, BoxWeight]:
    """Return what each box costs and remembers, from the last line that says so."""
    entry = next((one for one in reversed(entries) if BOXES in one), None)
    if entry is None:
        return {}
    loads = {name: BoxWork(*load) for name, load in entry[BOXES].items()}
    total = sum(load.ms for load in loads.values())
    return {
        name: BoxWeight(
            load.ms / total if total else 0.0, _find_busy(load.ms, entry[SPAN], parallel), load.rows, load.bytes
        )
        for name, load in loads.items()
    }


def _find_busy(ms: float, span_ms: float, parallel: int) -> float | None:
    """Return the share of the time that a box works; of several partitions, the mean."""
    return min(ms / span_ms / parallel, 1.0) if span_ms else None


def _flow(entries: list[dict[str, Any]], part: str, name: str) -> Flow:
    lines = [(entry["at"], entry[part][name]) for entry in entries if name in entry[part]]
    if not lines:
        return Flow()
    now, newest = entries[-1]["at"], lines[-1][1]
    recent = [line["tuples"] for at, line in lines if at > now - _RECENT * 1e6]
    wanted = ("delay", "worst", "good", "delivered", "utility")
    total = sum(line["tuples"] for _, line in lines)
    return Flow(total, sum(recent) / _RECENT, **{key: newest[key] for key in wanted if key in newest})


def _drops(run: Execution) -> list[DropPoint]:
    dropped: dict[str, int] = {}
    for line in run.shed():
        for place, count in line["dropped"].items():
            dropped[place] = dropped.get(place, 0) + count
    shares, arc_name = run.shares, yaml_files.ArcNames(run.network)
    # the arc into an archive box is drawn as the arc into its output
    archives = {node.name: output for output, node in yaml_files.archive_outputs(run.network).items()}
    return [
        DropPoint(
            place=str(place),
            arc=arc_name(place.arc),
            taker=archives.get(place.taker, place.taker),
            side=place.side,
            is_output=place.is_output or place.taker in archives,
            share=shares.get(str(place), 0.0),
            dropped=dropped.get(str(place), 0),
        )
        for place in run.places
    ]
