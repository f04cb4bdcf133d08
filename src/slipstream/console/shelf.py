"""What the network editor may open and save: network files and recordings below the workspace, by name.

The page's names are looked up among what is found; a new file gets a plain name in a folder that is there. So nothing
outside the workspace is read or written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.json as pj
import pyarrow.parquet as pq
from pyarrow import csv

from slipstream.console.refusals import NotThere
from slipstream.console.workspace import Workspace, is_result
from slipstream.errors import BadArgument, BadInput
from slipstream.feeds.tuples import FIELDS

_DEPTH = 4
_MOST = 2000
_NEW = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9_ -]*/)*[A-Za-z0-9][A-Za-z0-9_-]*\.ya?ml")
RECORDINGS = (".csv", ".jsonl", ".ndjson", ".parquet")
NETWORKS = (".yaml", ".yml")


def is_network_run(folder: Path) -> bool:
    """Whether a network runs, or has run, in a folder."""
    return (folder / "network.yaml").is_file() and (folder / "in").is_dir()


def _is_closed(folder: Path) -> bool:
    """Whether a folder is a thing by itself: a run, a result, a data set."""
    return (folder / "manifest.json").is_file() or is_result(folder) or is_network_run(folder)


def _folders(root: Path) -> Iterator[Path]:
    level = [root]
    for _ in range(_DEPTH):
        level = [folder for folder in level if not _is_closed(folder)]
        yield from level
        level = sorted(child for folder in level for child in folder.iterdir() if _is_plain_folder(child))


def _is_plain_folder(path: Path) -> bool:
    return not path.is_symlink() and not path.name.startswith(".") and path.is_dir()


def _files(workspace: Workspace, endings: tuple[str, ...]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in _folders(workspace.root):
        for path in sorted(folder.iterdir()):
            plain = path.suffix in endings and not path.name.startswith(".") and not path.is_symlink()
            if plain and path.is_file() and len(found) < _MOST:
                found[path.relative_to(workspace.root).as_posix()] = path
    return found


def networks(workspace: Workspace) -> dict[str, Path]:
    """The network files, by name."""
    return _files(workspace, NETWORKS)


def recordings(workspace: Workspace) -> dict[str, Path]:
    """What can stream into a network: files of tuples, and runs of the simulator."""
    runs = {name: path for name, path in workspace.runs().items() if not (path / "dataMtrip").exists()}
    return _files(workspace, RECORDINGS) | runs


def network(workspace: Workspace, name: str) -> Path:
    """The network file of that name."""
    return _pick(networks(workspace), name, "network", "`slipstream network --help` shows how files look.")


def recording(workspace: Workspace, name: str) -> Path:
    """The recording of that name."""
    return _pick(recordings(workspace), name, "recording", "Put a CSV, JSON lines or Parquet file there.")


def _pick(found: dict[str, Path], name: str, kind: str, hint: str) -> Path:
    if name not in found:
        raise NotThere(f"No {kind} {name!r} in the workspace.", hint=hint)
    return found[name]


def new_network(workspace: Workspace, name: str) -> Path:
    """Where a network of that name is saved."""
    if known := networks(workspace).get(name):
        return known
    path = workspace.root / name
    if not _NEW.fullmatch(name) or path.parent not in set(_folders(workspace.root)):
        raise BadArgument(
            f"{name!r} cannot be a network's file.", hint="Give a name such as border.yaml, in a folder that is there."
        )
    if path.exists() or path.is_symlink():
        raise BadArgument(f"{name!r} is something else already.", hint="Choose another name.")
    return path


def new_run(workspace: Workspace, network_name: str) -> tuple[str, Path]:
    """A folder that is not there yet, for a network to run in."""
    stem = re.sub(r"\W+", "-", network_name)[:60].strip("-") or "network"
    taken = {folder.name for folder in workspace.root.iterdir()}
    name = next(name for n in range(1, 10**6) if (name := f"{stem}-run-{n}") not in taken)
    return name, workspace.root / name


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
