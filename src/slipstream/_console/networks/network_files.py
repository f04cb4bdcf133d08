"""The network files and recordings of the workspace that the editor may open and save, by name.

Names from the page are looked up among the files found; a new file must have a plain name in an existing folder. So
nothing outside the workspace is read or written.
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

from slipstream._console.errors import Conflict, NotFound
from slipstream._console.workspace import Workspace, is_closed, pick, plain_files
from slipstream._errors import BadInput
from slipstream._feeds.run import Run
from slipstream._feeds.tuples import FIELDS

_MOST = 2000
#: names of files that may be saved: no hidden files, no parent folders
PLAIN_NAME = r"^(?:[A-Za-z0-9_-][A-Za-z0-9_. -]*/)*[A-Za-z0-9_-][A-Za-z0-9_. -]*\.ya?ml$"
RECORDINGS = (".csv", ".jsonl", ".ndjson", ".parquet")
NETWORKS = (".yaml", ".yml")
#: distinguishes network files from other YAML files
_IS_NETWORK = re.compile(rb"""(?:^|[{,])[\s"']*network["']?\s*:""", re.MULTILINE)
_BEGINNING = 65_536


def files(workspace: Workspace, endings: tuple[str, ...]) -> dict[str, Path]:
    """Return the files with certain endings in folders of the workspace, by name."""
    found = (path for folder in _open_folders(workspace) for path in plain_files(folder) if path.suffix in endings)
    return {workspace.name(path): path for path in islice(found, _MOST)}


def _open_folders(workspace: Workspace) -> Iterator[Path]:
    return (folder for folder in workspace.folders() if not is_closed(folder))


def networks(workspace: Workspace) -> dict[str, Path]:
    """Return the network files, by name."""
    return {name: path for name, path in files(workspace, NETWORKS).items() if _is_network(path)}


def _is_network(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _IS_NETWORK.search(file.read(_BEGINNING)) is not None
    except OSError:
        return False


def recordings(workspace: Workspace) -> dict[str, Path]:
    """Return what a network can read: files of tuples, and simulated runs."""
    return files(workspace, RECORDINGS) | workspace.runs()


def folders_of(found: dict[str, Path], workspace: Workspace) -> dict[str, Path]:
    """Return the folders that contain files, by name: a feed may follow one."""
    return {
        workspace.name(path.parent): path.parent
        for path in found.values()
        if path.parent not in workspace.roots and not is_closed(path.parent)
    }


def folders(workspace: Workspace) -> dict[str, Path]:
    """Return the folders with files of tuples, by name."""
    return folders_of(files(workspace, RECORDINGS), workspace)


def network(workspace: Workspace, name: str) -> Path:
    """Return the network file with a name."""
    return pick(networks(workspace), name, "network", "`slipstream network --help` explains the file format.")


def recording(workspace: Workspace, name: str) -> Path:
    """Return the recording with a name."""
    return pick(recordings(workspace), name, "recording", "Add a CSV, JSON lines or Parquet file to the workspace.")


def new_network(workspace: Workspace, name: str) -> Path:
    """Return the path for saving a network with a name."""
    if known := networks(workspace).get(name):
        return known
    path = workspace.base / name
    if not re.fullmatch(PLAIN_NAME, name) or path.parent not in set(_open_folders(workspace)):
        place = workspace.name(workspace.home / "border.yaml") if workspace.home else "FOLDER/border.yaml"
        raise NotFound(
            f"{name!r} is not a valid file name.",
            hint=f"Use a name such as {place}, in a folder of the workspace.",
            code="bad-name",
        )
    if path.exists() or path.is_symlink():
        raise Conflict(f"{name!r} exists and is not a network file.", hint="Choose another name.", code="exists")
    return path


def new_run(workspace: Workspace, network_name: str) -> tuple[str, Path]:
    """Return a new folder for a network to run in."""
    stem = re.sub(r"\W+", "-", network_name)[:60].strip("-") or "network"
    return workspace.new(f"{stem}-run")


def columns(path: Path) -> dict[str, str]:
    """Return the columns of a recording and their types in a network, inferred from its first rows."""
    if path.is_dir():
        return dict.fromkeys(FIELDS, "bigint")
    return types(read_first(path))


def read_first(path: Path, most: int = 1) -> pa.Table:
    """Return the first tuples of a file, or of the first minute of a run."""
    try:
        if path.is_dir():
            run = Run.open(path)
            return run.tuples(list(run.minutes)[:1]).slice(0, most)
        return _read_batch(path, most).slice(0, most)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(
            f"{path.name}: {str(error).splitlines()[0]}", hint="Fix the file.", code="unreadable-file"
        ) from error


def _read_batch(path: Path, most: int) -> pa.Table:
    if path.suffix == ".parquet":
        with pq.ParquetFile(path) as file:
            return pa.Table.from_batches(islice(file.iter_batches(batch_size=most), 1), file.schema_arrow)
    with csv.open_csv(path) if path.suffix == ".csv" else pj.open_json(path) as reader:
        return pa.Table.from_batches(islice(reader, 1), reader.schema)


def types(table: pa.Table) -> dict[str, str]:
    """Return the columns of a table with their types in a network."""
    return {field.name: _type(field.type) for field in table.schema}


def _type(found: pa.DataType) -> str:
    if pa.types.is_boolean(found):
        return "boolean"
    if pa.types.is_integer(found):
        return "bigint"
    return "double" if pa.types.is_floating(found) or pa.types.is_decimal(found) else "string"
