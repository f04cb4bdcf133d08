"""The folders whose runs and results the page may see.

The page names things; it never gives paths. A name is looked up among what is found here, so nothing outside can be
reached, whatever the name says.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from slipstream._archive.files import is_archive
from slipstream._console.refusals import NotNow, NotThere
from slipstream._errors import MALFORMED, BadInput
from slipstream._feeds.run import FORMAT, Run
from slipstream._linear_road.job.layout import TOLL, Layout
from slipstream._runtime.job import FILE, Job

#: how deep below a given folder things are looked for, and in how many folders: somebody may start it at home
_DEPTH = 5
MOST = 5_000


@dataclass(frozen=True)
class Workspace:
    """Folders with runs, with engines' results, with networks and journeys."""

    roots: tuple[Path, ...]
    base: Path  # what names are relative to
    home: Path | None  # where new things go; nowhere if only single runs or results were given

    @classmethod
    def over(cls, folders: Sequence[Path], home: Path | None = None) -> Workspace:
        """A workspace of some folders, or of runs and results themselves; new things go into ``home`` below them."""
        roots = tuple(dict.fromkeys(folder.resolve() for folder in folders))
        shared = Path(os.path.commonpath(roots))
        base = shared.parent if shared in roots and is_closed(shared) else shared
        return cls(roots, base, home.resolve() if home else next((root for root in roots if not is_closed(root)), None))

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
        """A folder that does not exist yet, and its name: the stem with a number."""
        if self.home is None:
            raise NotNow("There is no folder for new results.", hint="Give the console one: slipstream console FOLDER")
        self.home.mkdir(exist_ok=True)
        taken = {folder.name for folder in self.home.iterdir()}
        path = self.home / next(name for n in range(1, 10**6) if (name := f"{stem}-{n}") not in taken)
        return self.name(path), path

    def run_of(self, result: Path) -> Run | None:
        """The run that a folder's answers are about, where it is in the workspace.

        A result only knows the last part of its run's path. Of several such runs the nearest is meant; if that does not
        tell them apart either, the traffic shown might be another's, so nothing is.
        """
        kind, _, name = Layout.read(result).source.partition(" ")
        found = [path for path in self.runs().values() if path.name == name] if kind == "run" else []
        near = max((_shared_parts(path, result) for path in found), default=0)
        nearest = [path for path in found if _shared_parts(path, result) == near]
        if len({(path / "manifest.json").read_bytes() for path in nearest}) > 1:
            raise BadInput(
                f"{self.name(result)} answers a run {name!r}; there are {', '.join(sorted(map(self.name, nearest)))}.",
                hint="Start the console over the folders that belong together: slipstream console RUN RESULT",
            )
        return Run.open(nearest[0]) if nearest else None

    def find(self, wanted: Callable[[Path], bool]) -> dict[str, Path]:
        """The folders that are wanted, by name."""
        return {self.name(folder): folder for folder in self.folders() if folder != self.base and wanted(folder)}

    def name(self, path: Path) -> str:
        """What the page calls something of the workspace."""
        return path.relative_to(self.base).as_posix()

    def folders(self) -> Iterator[Path]:
        """The roots and what is below them, the nearest first; not what is inside a run or result, hidden or a link."""
        return islice(self._levels(), MOST)

    @property
    def is_cut_short(self) -> bool:
        """Whether there are more folders than are looked through."""
        return next(islice(self._levels(), MOST, None), None) is not None

    def _levels(self) -> Iterator[Path]:
        level = list(self.roots)
        for _ in range(_DEPTH):
            yield from level
            level = sorted(child for folder in level if not is_closed(folder) for child in _subfolders(folder))


def _shared_parts(one: Path, other: Path) -> int:
    return len(Path(os.path.commonpath((one, other))).parts)


def _subfolders(folder: Path) -> list[Path]:
    """The folders in a folder that may be looked into; one that vanishes meanwhile has none."""
    try:
        with os.scandir(folder) as entries:
            inside = [Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [path for path in inside if _is_plain(path) and os.access(path, os.R_OK | os.X_OK)]


def format_of(folder: Path) -> str | None:
    """What a folder's manifest says it is; nothing without one, and no name if it cannot be read."""
    file = folder / "manifest.json"
    if not file.is_file():
        return None
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["format"])
    except (OSError, *MALFORMED):
        return ""


def is_job(folder: Path) -> bool:
    """Whether a folder is that of a job, of any kind."""
    return (folder / FILE).is_file()


def is_result(folder: Path) -> bool:
    """Whether a job wrote answers into this folder; one whose layout cannot be read may have."""
    if not is_job(folder):
        return False
    try:
        return Job.read(folder).kind == TOLL and Layout.read(folder).makes_answers
    except BadInput:
        return True


def is_closed(folder: Path) -> bool:
    """Whether a folder is one thing: a run, the folder of a job, a data set."""
    return (folder / "manifest.json").is_file() or is_job(folder) or is_archive(folder)


def plain_files(folder: Path) -> list[Path]:
    """The files in a folder; no hidden ones, and no links."""
    try:
        return sorted(path for path in folder.iterdir() if _is_plain(path) and path.is_file())
    except OSError:
        return []


def _is_plain(path: Path) -> bool:
    return not path.is_symlink() and not path.name.startswith(".")


def pick(found: dict[str, Path], name: str, kind: str, hint: str) -> Path:
    """What has that name."""
    if name not in found:
        raise NotThere(f"No {kind} {name!r} in the workspace.", hint=hint)
    return found[name]
