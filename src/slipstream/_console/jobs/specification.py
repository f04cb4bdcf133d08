"""A job as the page describes it, in a form or as YAML, and the command that runs it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError

from slipstream._console.errors import Conflict, RequestBody, Whole
from slipstream._console.jobs.commands import LIVE, option
from slipstream._console.networks import network_files
from slipstream._console.plain_yaml import refuse_aliases
from slipstream._console.workspace import Workspace, pick
from slipstream._errors import BadArgument, BadInput

Name = Annotated[str, Field(min_length=1, max_length=300)]
#: a column and the field behind it, as --columns takes them
Column = Annotated[str, Field(pattern=r"^\w+=[\w. -]+(:\w+)?$", max_length=200)]
_NEW = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
#: endings of files of tuples that are no recordings of a network
_FEEDS = (".dat", ".txt", ".json", ".gz")
_MOST_CHARACTERS = 20_000


class JobSpecification(RequestBody):
    """A job to start: what it reads, what it computes, and the name of its folder."""

    job: Literal["toll", "archive", "network", "cuboid"] = Field(description="The kind of job.")
    out: str = Field(
        max_length=100, description="The name of its folder; a new one is chosen if it is empty.", default=""
    )
    inputs: dict[Annotated[str, Field(max_length=100)], Name] = Field(
        max_length=50,
        description="What it reads: a run or file of the workspace, kafka:HOST:PORT/TOPIC or tcp:HOST:PORT, by source. "
        "Jobs other than networks have one, named input.",
    )
    network: str = Field(default="", max_length=300, description="The network file, of a network.")
    definitions: str = Field(
        default="", max_length=_MOST_CHARACTERS, description="CREATE CUBOID, PATTERN and QUERY, of a cuboid."
    )
    columns: list[Column] = Field(
        default=[], max_length=100, description="The field of the input behind a column: id=vin."
    )
    format: str = Field(default="", pattern=r"^\w*$", max_length=20)
    follow: bool = Field(default=False, description="Keep reading as the input grows.")
    speed: float = Field(default=0.0, ge=0, le=1000, description="Of a run: 1 is real time, 0 as fast as possible.")
    rules: Literal["2004", "2003"] = "2004"
    archive: bool = Field(default=False, description="Also write trips, of a toll job.")
    snapshot: bool = Field(default=True, description="Publish state to query, of a toll job.")
    rate: float | None = Field(default=None, gt=0, le=1e7, description="Of recordings of a network: tuples per second.")
    parallel: Whole = Field(default=0, ge=0, le=256, description="Partitions; 0 for a suitable number.")


def read_specification(text: str) -> JobSpecification:
    """Read a job from YAML.

    >>> read_specification("job: toll\\ninputs: {input: runs/first}").inputs
    {'input': 'runs/first'}
    """
    if len(text) > _MOST_CHARACTERS:
        raise BadInput(
            f"The YAML has {len(text):,} characters; a job takes {_MOST_CHARACTERS:,}.",
            hint="Shorten it.",
            code="too-large",
        )
    refuse_aliases(text)
    try:
        body = yaml.safe_load(text)
        if not isinstance(body, dict):
            raise BadInput("The YAML is not a mapping.", hint="Begin with job: toll", code="unreadable-file")
        return JobSpecification.model_validate(_with_numbers_as_text(body))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"Line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or "not YAML"
        raise BadInput(f"{line}{problem}.", hint="Fix the YAML there.", code="unreadable-file") from error
    except ValidationError as error:
        details = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise BadInput("; ".join(details) + ".", hint="Fix these fields.", code="malformed-value") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"Not YAML ({type(error).__name__}).", hint="Fix the YAML.", code="unreadable-file") from error


def _with_numbers_as_text(body: dict[Any, Any]) -> dict[Any, Any]:
    """YAML reads ``rules: 2004`` and ``speed: 1`` as whole numbers."""
    converted = {"rules": str, "speed": float, "rate": float}
    return {
        key: converted[key](value) if key in converted and isinstance(value, int) else value
        for key, value in body.items()
    }


def list_inputs(workspace: Workspace) -> dict[str, Path]:
    """Return what a job can read, by name: runs, files of tuples, and folders of such files."""
    files = network_files.files(workspace, (*network_files.RECORDINGS, *_FEEDS))
    return files | network_files.folders_of(files, workspace) | workspace.runs()


def choose_folder(wanted: JobSpecification, workspace: Workspace) -> tuple[str, Path]:
    """Return the name and path of the folder of a new job."""
    if not wanted.out:
        return workspace.new({"toll": "tolls", "archive": "trips"}.get(wanted.job, wanted.job))
    if workspace.home is None:
        return workspace.new(wanted.out)  # says what is missing
    path = workspace.home / wanted.out
    if not _NEW.fullmatch(wanted.out):
        raise BadArgument(
            f"{wanted.out!r} is not a name for a folder.", hint="Use letters, digits, dots and dashes.", code="bad-name"
        )
    if path.exists() or path.is_symlink():
        raise Conflict(f"{workspace.name(path)} exists.", hint="Choose another name, or resume it.", code="exists")
    workspace.home.mkdir(exist_ok=True)
    return workspace.name(path), path


def make_command(wanted: JobSpecification, out: Path, workspace: Workspace) -> list[str]:
    """Return the arguments of the command that runs a job; all it names must be in the workspace."""
    places = {name: _find_input(where, workspace) for name, where in wanted.inputs.items()}
    return [*_begin_command(wanted, places, workspace), *_common(wanted), "--out", str(out)]


def _begin_command(wanted: JobSpecification, places: dict[str, str], workspace: Workspace) -> Iterator[str]:
    if wanted.job == "network":
        network = network_files.network(workspace, wanted.network)
        yield from ("network", "run", str(network))
        for name, where in places.items():
            if not re.fullmatch(r"\w+", name):
                raise BadArgument(f"{name!r} is not a source.", hint="Use names of the network.", code="bad-name")
            yield from ("--input", f"{name}={where}")
        yield from option("--rate", wanted.rate)
        yield from option("--parallel", wanted.parallel)
        return
    if len(places) != 1:
        raise BadArgument(
            f"A {wanted.job} job reads one input, not {len(places)}.", hint="Choose one.", code="missing-value"
        )
    (where,) = places.values()
    if wanted.job == "cuboid":
        if not any(map(str.isspace, wanted.definitions.strip())):
            raise BadArgument(
                "A cuboid needs its definition.",
                hint="CREATE CUBOID stock (stock_id INT KEY, price AST(10))",
                code="missing-value",
            )
        yield from ("cuboid", "run", "--input", where, "--schema", wanted.definitions.strip() + "\n")
        yield from option("--fragments", wanted.parallel)
        return
    yield from (wanted.job, where, "--no-text")
    yield from option("--speed", wanted.speed or None)
    yield from option("--parallel", wanted.parallel)
    if wanted.job == "toll":
        yield from ("--rules", wanted.rules)
        yield from option("--archive", wanted.archive)
        yield from option("--snapshot", wanted.snapshot)


def _common(wanted: JobSpecification) -> Iterator[str]:
    for column in wanted.columns:
        yield from ("--columns", column)
    yield from option("--format", wanted.format)
    yield from option("--follow", wanted.follow)
    yield "--json"


def _find_input(where: str, workspace: Workspace) -> str:
    if LIVE.match(where):
        return where
    hint = "Choose a run or a file of the workspace, or write kafka:HOST:PORT/TOPIC or tcp:HOST:PORT."
    return str(pick(list_inputs(workspace), where, "input", hint))
