"""The folder whose runs and results the page may see.

The page names things; it never gives paths. A name is looked up among what is found here, so nothing outside can be
reached, whatever the name says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slipstream.console.refusals import NotThere
from slipstream.feeds.run import Run
from slipstream.tolls.engine import CHECKPOINT
from slipstream.tolls.layout import FILE

#: how deep below the workspace runs are looked for
_DEPTH = 3


@dataclass(frozen=True)
class Workspace:
    """A folder with runs, and with engines' results."""

    root: Path

    def runs(self) -> dict[str, Path]:
        """The runs by name: their path within the workspace."""
        return {self._name(folder): folder for folder in self._folders() if (folder / "manifest.json").is_file()}

    def results(self) -> dict[str, Path]:
        """The folders that engines wrote, by name."""
        return {self._name(folder): folder for folder in self._folders() if is_result(folder)}

    def run(self, name: str) -> Run:
        """The run of that name."""
        return Run.open(_pick(self.runs(), name, "run", "`slipstream simulate --out RUN` makes one."))

    def result(self, name: str) -> Path:
        """The engine's folder of that name."""
        return _pick(
            self.results(), name, "result", "Start a run from the page, or `slipstream toll RUN --out FOLDER`."
        )

    def new_result(self, run: str) -> tuple[str, Path]:
        """A folder that is not there yet, for the answers to a run."""
        taken = {folder.name for folder in self.root.iterdir()}
        stem = Path(run).name + "-tolls"
        name = next(name for n in range(1, 10**6) if (name := f"{stem}-{n}") not in taken)
        return name, self.root / name

    def run_of(self, result: Path) -> Run | None:
        """The run that a folder's answers are about, where it is in the workspace."""
        source = json.loads((result / CHECKPOINT / FILE).read_text(encoding="utf-8"))["source"]
        kind, _, name = source.partition(" ")
        found = [path for path in self.runs().values() if path.name == name] if kind == "run" else []
        return Run.open(found[0]) if found else None

    def _name(self, folder: Path) -> str:
        return folder.relative_to(self.root).as_posix()

    def _folders(self) -> Iterator[Path]:
        level = [self.root]
        for _ in range(_DEPTH):
            level = sorted(child for folder in level for child in _subfolders(folder))
            yield from level


def is_result(folder: Path) -> bool:
    """Whether an engine wrote this folder."""
    return (folder / CHECKPOINT / FILE).is_file()


def _subfolders(folder: Path) -> Iterator[Path]:
    """The folders in a folder; not those in runs and results, not hidden ones, and no links that lead elsewhere."""
    if is_result(folder) or (folder / "manifest.json").is_file():
        return
    for child in folder.iterdir():
        if child.is_dir() and not child.is_symlink() and not child.name.startswith("."):
            yield child


def _pick(found: dict[str, Path], name: str, kind: str, hint: str) -> Path:
    if name not in found:
        raise NotThere(f"No {kind} {name!r} in the workspace.", hint=hint)
    return found[name]
