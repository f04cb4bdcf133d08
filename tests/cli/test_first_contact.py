"""Every command answers a file that is missing, or a folder that is in the way, before Spark starts."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.models import ArgumentInfo

from commands import Slipstream
from slipstream._berlinmod.dataset import DatasetManifest, write_manifest
from slipstream._cli import app
from slipstream._feeds.tuple_text import import_text
from slipstream._moving import MovingPoint
from slipstream._moving.moving_point import to_arrow
from slipstream._network import yaml_files
from slipstream._network.running.run_folder import Execution
from slipstream._spark import session
from slipstream._trajectories.data import FORMAT, MANIFEST, VERSION

LINE = "0,0,107,32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1\n"
BORDER = Path(__file__).parents[2] / "examples" / "networks" / "border.yaml"

#: parameters that name what a command writes; all other paths are read
OUTPUTS = ("out", "png", "report", "rows", "log", "timings", "fast_forward_cache")
#: texts in which a path stands, {} in its place, beside those that are paths alone
PATHS_IN_TEXT = {"input_": "{}", "source": "{}", "words": "{}", "inputs": "soldiers={}"}
#: what is given for texts and numbers that a command insists on
SAID = {
    "to": "stdout",
    "reference": "car[1]",
    "text": "SELECT count(*) FROM car",
    "name": "stops",
    "point": "crossings",
    "query": "1",
    "age": "30 days",
    "id_": "7",
    "schema": "CREATE CUBOID stock (stock_id INT KEY, price AST(10))",
}
#: folders that commands may find there already: what they write into is theirs by its name
WORKS_IN = ("rate", "berlinmod run", "bench postgres")


class Parameter(NamedTuple):
    """A parameter of a command, as the command line has it."""

    name: str
    flag: str  # empty for an argument
    kind: str
    required: bool

    @property
    def is_path(self) -> bool:
        return "Path" in self.kind or self.name in PATHS_IN_TEXT

    @property
    def is_output(self) -> bool:
        return self.name in OUTPUTS

    def given(self, value: object) -> list[str]:
        text = PATHS_IN_TEXT.get(self.name, "{}").format(value)
        return [self.flag, text] if self.flag else [text]


@dataclass(frozen=True)
class Command:
    """A command and its parameters."""

    name: str
    parameters: tuple[Parameter, ...]

    def line(self, values: dict[str, object]) -> list[str]:
        """The words of the command line with these values, and what must be said besides."""
        known = SAID | values
        words = [p.given(known[p.name]) for p in self.parameters if p.name in values or p.required]
        return [*self.name.split(), *(word for given in words for word in given)]


def parameters_of(function: Callable[..., Any]) -> Iterator[Parameter]:
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        kind, info = get_args(hints[name])[:2]
        flags = [
            word for word in (info.default, *(info.param_decls or ())) if isinstance(word, str) and word[:1] == "-"
        ]
        flag = flags[0] if flags else f"--{name.replace('_', '-')}"
        required = parameter.default is inspect.Parameter.empty
        yield Parameter(name, "" if isinstance(info, ArgumentInfo) else flag, str(kind), required)


def commands(family: typer.Typer = app, above: str = "") -> Iterator[Command]:
    for command in family.registered_commands:
        assert command.callback is not None
        name = f"{above} {command.name or command.callback.__name__}".strip()
        yield Command(name, tuple(parameters_of(command.callback)))
    for group in family.registered_groups:
        assert group.typer_instance is not None
        yield from commands(group.typer_instance, f"{above} {group.name or group.typer_instance.info.name}".strip())


COMMANDS = list(commands())

#: families that import what takes long to find that a file is missing
LATE = ("cuboid", "network", "berlinmod")


def cases(wanted: Callable[[Parameter], bool]) -> list[Any]:
    return [pytest.param(c, p, id=f"{c.name} {p.name}") for c in COMMANDS for p in c.parameters if wanted(p)]


READING = cases(lambda p: p.is_path and not p.is_output)
WRITING = cases(lambda p: p.is_output)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one of everything that commands read and that is made without Spark."""
    folder = tmp_path_factory.mktemp("good")
    (folder / "file.dat").write_text(LINE)
    import_text(folder / "file.dat", folder / "run")
    Execution.lay_out(folder / "running", yaml_files.load(BORDER))
    (folder / "data").mkdir()
    write_manifest(folder / "data", DatasetManifest("a test", 0, 0, 0, "2007-05-28", "2007-05-29"))
    for table in ("vehicles", "licences", "points", "regions", "instants", "periods", "trips"):
        (folder / "tables").mkdir(exist_ok=True)
        (folder / "tables" / f"{table}.csv").write_text("id\n1\n")
    (folder / "points.csv").write_text("id,time,lon,lat\na,2026-05-04T08:00:00Z,13.4,52.5\n")
    write_trajectories(folder / "trajectories")
    return folder


def write_trajectories(folder: Path) -> None:
    """What `trajectories build` writes, of one trip of one position."""
    (folder / "trips").mkdir(parents=True)
    trip = MovingPoint.from_wkt("POINT(391391 5817855)@2026-05-04")
    rows = {"id": pa.array(["a"]), "number": pa.array([1], pa.int32()), "Trip": to_arrow([trip])}
    pq.write_table(pa.table(rows), folder / "trips" / "part-0.parquet")
    counts = {"rows": 1, "vertices": 1, "trips": 1, "movers": 1, "rejects": {}}
    body = {"format": FORMAT, "version": VERSION, "crs": "EPSG:32633", "counts": counts, "options": {}}
    (folder / MANIFEST).write_text(json.dumps(body))


def good_value(command: Command, parameter: Parameter, good: Path, new: Path) -> object | None:
    """A path that is as it should be; nothing where making one takes Spark."""
    if parameter.is_output:
        return new
    if command.name.startswith("network"):
        return {"file": BORDER, "folder": good / "running"}.get(parameter.name)
    if command.name.startswith("trajectories"):
        return good / {"input_": "points.csv", "data": "trajectories"}[parameter.name]
    if command.name == "berlinmod load":
        return good / "tables"
    places = {
        "workspace": ".",
        "run": "run",
        "file": "file.dat",
        "input_": "run",
        "data": "data",
        "outputs": "file.dat",
    }
    place = "file.dat" if command.name == "archive" else places.get(parameter.name)
    return good / place if place else None


def values(command: Command, bad: Parameter, path: Path, good: Path, new: Path) -> dict[str, object]:
    """A bad path for one parameter; good ones for all others that the command insists on."""
    others = (p for p in command.parameters if p.is_path and (p.required or p.name == "workspace") and p != bad)
    found = {p.name: good_value(command, p, good, new) or path for p in others}
    if bad.name == "map_file":
        return {**found, bad.name: path, "kind": "sumo"}
    return {**found, bad.name: path}


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: object, **__: object) -> None:
        pytest.fail("Spark was started before the arguments were checked")

    monkeypatch.setattr(session, "build", build)


def test_every_command_is_tried() -> None:
    tried = {case.values[0].name for case in READING + WRITING}
    assert {command.name for command in COMMANDS} - tried == {"prepare"}


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(("command", "parameter"), READING)
def test_a_file_or_folder_that_is_missing(
    slipstream: Slipstream, good: Path, tmp_path: Path, command: Command, parameter: Parameter
) -> None:
    missing = tmp_path / "missing"
    ended = slipstream(*command.line(values(command, parameter, missing, good, tmp_path / "new")))
    assert ended.code in (2, 3), ended.err
    assert str(missing) in ended.err
    assert ended.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(("command", "parameter"), WRITING)
def test_an_output_that_something_is_in_the_way_of(
    slipstream: Slipstream, good: Path, tmp_path: Path, command: Command, parameter: Parameter
) -> None:
    """A file where the output's folder should be; and for new folders, one that is not empty."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine")
    taken = [tmp_path / "mine" / "file" / "below"]
    if parameter.name != "fast_forward_cache" and (parameter.name != "out" or command.name not in WORKS_IN):
        taken.append(tmp_path / "mine")
    for out in taken:
        ended = slipstream(*command.line(values(command, parameter, out, good, tmp_path / "new")))
        assert ended.code in (2, 3), (out, ended.err)
        assert str(out) in ended.err
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "mine"]
    assert (tmp_path / "mine" / "file").read_text() == "mine"


LINES = """
import json, sys
from unittest.mock import patch
from slipstream._cli import run
for line in json.loads(sys.argv[1]):
    with patch.object(sys, "argv", ["slipstream", *line]):
        try:
            run()
        except SystemExit:
            pass
    if heavy := [name for name in ("pyspark", "numba", "pandas", "matplotlib") if name in sys.modules]:
        sys.exit(f"{line} imported {heavy}")
"""


def test_nothing_that_takes_long_is_imported_to_find_that_a_file_is_missing(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    lines = []
    for command in COMMANDS:
        paths = {p.name: missing for p in command.parameters if p.is_path and p.required}
        if {*paths} - {*OUTPUTS} and not command.name.startswith(LATE):
            lines.append(command.line(paths))
    assert len(lines) > 5
    done = subprocess.run(
        [sys.executable, "-c", LINES, json.dumps(lines)], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
