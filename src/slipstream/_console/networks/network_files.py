"""What the network editor may open and save: network files and recordings below the workspace, by name.

The page's names are looked up among what is found; a new file gets a plain name in a folder that is there. So nothing
outside the workspace is read or written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from pyarrow import csv

from slipstream._console.refusals import NotNow, NotThere
from slipstream._console.workspace import Workspace, is_closed, pick, plain_files
from slipstream._errors import BadInput
from slipstream._feeds.tuples import FIELDS

_MOST = 2000
#: names of files that may be saved: nothing hidden, no way up
PLAIN_NAME = r"^(?:[A-Za-z0-9_-][A-Za-z0-9_. -]*/)*[A-Za-z0-9_-][A-Za-z0-9_. -]*\.ya?ml$"
RECORDINGS = (".csv", ".jsonl", ".ndjson", ".parquet")
NETWORKS = (".yaml", ".yml")
#: what every network file has, and other YAML below a folder of somebody's choice does not
_IS_NETWORK = re.compile(rb"""(?:^|[{,])[\s"']*network["']?\s*:""", re.MULTILINE)
_BEGINNING = 65_536


def _files(workspace: Workspace, endings: tuple[str, ...]) -> dict[str, Path]:
    files = (path for folder in _open_folders(workspace) for path in plain_files(folder) if path.suffix in endings)
    return {workspace.name(path): path for path in islice(files, _MOST)}


def _open_folders(workspace: Workspace) -> Iterator[Path]:
    return (folder for folder in workspace.folders() if not is_closed(folder))


def networks(workspace: Workspace) -> dict[str, Path]:
    """The network files, by name."""
    return {name: path for name, path in _files(workspace, NETWORKS).items() if _is_network(path)}


def _is_network(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _IS_NETWORK.search(file.read(_BEGINNING)) is not None
    except OSError:
        return False


def recordings(workspace: Workspace) -> dict[str, Path]:
    """What can stream into a network: files of tuples, and runs of the simulator."""
    return _files(workspace, RECORDINGS) | workspace.runs()


def network(workspace: Workspace, name: str) -> Path:
    """The network file of that name."""
    return pick(networks(workspace), name, "network", "`slipstream network --help` shows how files look.")


def recording(workspace: Workspace, name: str) -> Path:
    """The recording of that name."""
    return pick(recordings(workspace), name, "recording", "Put a CSV, JSON lines or Parquet file there.")


def new_network(workspace: Workspace, name: str) -> Path:
    """Where a network of that name is saved."""
    if known := networks(workspace).get(name):
        return known
    path = workspace.base / name
    if not re.fullmatch(PLAIN_NAME, name) or path.parent not in set(_open_folders(workspace)):
        place = workspace.name(workspace.home / "border.yaml") if workspace.home else "FOLDER/border.yaml"
        raise NotThere(
            f"There is no place for {name!r}.", hint=f"Give a name such as {place}, in a folder that the console shows."
        )
    if path.exists() or path.is_symlink():
        raise NotNow(f"{name!r} is something else already.", hint="Choose another name.")
    return path


def new_run(workspace: Workspace, network_name: str) -> tuple[str, Path]:
    """A folder that is not there yet, for a network to run in."""
    stem = re.sub(r"\W+", "-", network_name)[:60].strip("-") or "network"
    return workspace.new(f"{stem}-run")


def columns(path: Path) -> dict[str, str]:
    """The columns of a recording and what a network would call their types, guessed from its beginning."""
    if path.is_dir():
        return dict.fromkeys(FIELDS, "integer")
    try:
        schema = _schema(path)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{path.name}: {str(error).splitlines()[0]}", hint="Mend the file.") from error
    return {field.name: _type(field.type) for field in schema}


def _schema(path: Path) -> pa.Schema:
    if path.suffix == ".parquet":
        return pq.read_schema(path)
    if path.suffix == ".csv":
        with csv.open_csv(path) as reader:
            return reader.schema
    return pj.open_json(path).schema


def _type(found: pa.DataType) -> str:
    if pa.types.is_boolean(found):
        return "boolean"
    if pa.types.is_integer(found):
        return "integer"
    return "float" if pa.types.is_floating(found) or pa.types.is_decimal(found) else "text"
