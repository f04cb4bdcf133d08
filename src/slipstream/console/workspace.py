"""The folder whose runs and results the page may see.

The page names things; it never gives paths. A name is looked up among what is found here, so nothing outside can be
reached, whatever the name says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from slipstream.console.refusals import NotThere
from slipstream.errors import MALFORMED
from slipstream.feeds.run import FORMAT, Run
from slipstream.tolls.engine import CHECKPOINT
from slipstream.tolls.layout import FILE

#: how deep below the workspace things are looked for
_DEPTH = 4


@dataclass(frozen=True)
class Workspace:
    """A folder with runs, with engines' results, with networks and journeys."""

    root: Path

    def runs(self) -> dict[str, Path]:
        """The runs by name: their path within the workspace."""
        # a manifest that cannot be read may be a run's; opening it says what is wrong
        return self.find(lambda folder: format_of(folder) in (FORMAT, ""))

    def results(self) -> dict[str, Path]:
        """The folders that engines wrote, by name."""
        return self.find(is_result)

    def run(self, name: str) -> Run:
        """The run of that name."""
        return Run.open(pick(self.runs(), name, "run", "`slipstream simulate --out RUN` makes one."))

    def result(self, name: str) -> Path:
        """The engine's folder of that name."""
        return pick(self.results(), name, "result", "Start a run from the page, or `slipstream toll RUN --out FOLDER`.")

    def new(self, stem: str) -> tuple[str, Path]:
        """A folder that is not there yet, and its name: the stem with a number."""
        taken = {folder.name for folder in self.root.iterdir()}
        name = next(name for n in range(1, 10**6) if (name := f"{stem}-{n}") not in taken)
        return name, self.root / name

    def run_of(self, result: Path) -> Run | None:
        """The run that a folder's answers are about, where it is in the workspace."""
        source = json.loads((result / CHECKPOINT / FILE).read_text(encoding="utf-8"))["source"]
        kind, _, name = source.partition(" ")
        found = [path for path in self.runs().values() if path.name == name] if kind == "run" else []
        return Run.open(found[0]) if found else None

    def find(self, wanted: Callable[[Path], bool]) -> dict[str, Path]:
        """The folders below the root that are wanted, by name."""
        return {self.name(folder): folder for folder in self.folders() if folder != self.root and wanted(folder)}

    def name(self, path: Path) -> str:
        """What the page calls something of the workspace."""
        return path.relative_to(self.root).as_posix()

    def folders(self) -> Iterator[Path]:
        """The root and what is below it; nothing inside things that are one, nothing hidden, no links."""
        level = [self.root]
        for _ in range(_DEPTH):
            yield from level
            inside = [child for folder in level if not is_closed(folder) for child in folder.iterdir()]
            level = sorted(child for child in inside if _is_plain(child) and child.is_dir())


def format_of(folder: Path) -> str | None:
    """What a folder's manifest says it is; nothing without one, and no name if it cannot be read."""
    file = folder / "manifest.json"
    if not file.is_file():
        return None
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["format"])
    except (OSError, *MALFORMED):
        return ""


def is_result(folder: Path) -> bool:
    """Whether an engine wrote this folder."""
    return (folder / CHECKPOINT / FILE).is_file()


def is_network_run(folder: Path) -> bool:
    """Whether a network runs, or has run, in a folder."""
    return (folder / "network.yaml").is_file() and (folder / "in").is_dir()


def is_closed(folder: Path) -> bool:
    """Whether a folder is a thing by itself: a run, a result, a data set."""
    return (folder / "manifest.json").is_file() or is_result(folder) or is_network_run(folder)


def plain_files(folder: Path) -> list[Path]:
    """The files in a folder; no hidden ones, and no links."""
    return sorted(path for path in folder.iterdir() if _is_plain(path) and path.is_file())


def _is_plain(path: Path) -> bool:
    return not path.is_symlink() and not path.name.startswith(".")


def pick(found: dict[str, Path], name: str, kind: str, hint: str) -> Path:
    """What has that name."""
    if name not in found:
        raise NotThere(f"No {kind} {name!r} in the workspace.", hint=hint)
    return found[name]
