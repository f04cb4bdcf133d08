"""The folders whose runs and results the page may see.

The page uses names, never paths. A name is looked up among the folders found here, so nothing outside is accessible.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from slipstream._archive.trip_tables import is_archive
from slipstream._console.errors import Conflict, NotFound
from slipstream._errors import MALFORMED, BadInput
from slipstream._feeds.run import FORMAT, Run
from slipstream._linear_road.job.toll_layout import TOLL, Layout
from slipstream._runtime.job import FILE, JobFile

#: limits of the search below a folder: someone may start the console in a home folder
_DEPTH = 5
MOST = 5_000


@dataclass(frozen=True)
class Workspace:
    """Folders with runs, results, networks and journeys."""

    roots: tuple[Path, ...]
    base: Path  # names are relative to it
    home: Path | None  # for new results; None if only single runs or results were given

    @classmethod
    def over(cls, folders: Sequence[Path], home: Path | None = None) -> Workspace:
        """Create a workspace of folders, or of single runs and results; new results go to ``home`` below them."""
        roots = tuple(dict.fromkeys(folder.resolve() for folder in folders))
        shared = Path(os.path.commonpath(roots))
        base = shared.parent if shared in roots and is_closed(shared) else shared
        return cls(roots, base, home.resolve() if home else next((root for root in roots if not is_closed(root)), None))

    def runs(self) -> dict[str, Path]:
        """Return the runs by name: their path within the workspace."""
        # an unreadable manifest may be that of a run; opening it reports the error
        return self.find(lambda folder: format_of(folder) in (FORMAT, ""))

    def results(self) -> dict[str, Path]:
        """Return the folders of toll jobs, by name."""
        return self.find(is_result)

    def run(self, name: str) -> Run:
        """Open the run with a name."""
        return Run.open(pick(self.runs(), name, "run", "Create one with `slipstream simulate --out RUN`."))

    def result(self, name: str) -> Path:
        """Return the folder of a toll job with a name."""
        hint = "Start a run on the page, or with `slipstream toll RUN --out FOLDER`."
        return pick(self.results(), name, "result", hint)

    def new(self, stem: str) -> tuple[str, Path]:
        """Return the name and path of a new folder: the stem with a number."""
        if self.home is None:
            raise Conflict(
                "There is no folder for new results.", hint="Start the console with one: slipstream console FOLDER"
            )
        self.home.mkdir(exist_ok=True)
        taken = {folder.name for folder in self.home.iterdir()}
        path = self.home / next(name for n in range(1, 10**6) if (name := f"{stem}-{n}") not in taken)
        return self.name(path), path

    def run_of(self, result: Path) -> Run | None:
        """Return the run of a result, if it is in the workspace.

        A result only stores the last part of its run's path. Of several such runs, the nearest one counts; if that is
        ambiguous too, the displayed traffic might be wrong, so none is used.
        """
        kind, _, name = Layout.read(result).source.partition(" ")
        found = [path for path in self.runs().values() if path.name == name] if kind == "run" else []
        near = max((_shared_parts(path, result) for path in found), default=0)
        nearest = [path for path in found if _shared_parts(path, result) == near]
        if len({(path / "manifest.json").read_bytes() for path in nearest}) > 1:
            raise BadInput(
                f"{self.name(result)} is the result of a run {name!r}, which is ambiguous: "
                f"{', '.join(sorted(map(self.name, nearest)))}.",
                hint="Start the console with the folders that belong together: slipstream console RUN RESULT",
                code="ambiguous-name",
            )
        return Run.open(nearest[0]) if nearest else None

    def find(self, wanted: Callable[[Path], bool]) -> dict[str, Path]:
        """Return the folders that match, by name."""
        return {self.name(folder): folder for folder in self.folders() if folder != self.base and wanted(folder)}

    def name(self, path: Path) -> str:
        """Return the name of a path on the page."""
        return path.relative_to(self.base).as_posix()

    def folders(self) -> Iterator[Path]:
        """Return the roots and the folders below, nearest first; none inside a run or result, hidden, or linked."""
        return islice(self._levels(), MOST)

    @property
    def is_truncated(self) -> bool:
        """Whether there are more folders than are searched."""
        return next(islice(self._levels(), MOST, None), None) is not None

    def _levels(self) -> Iterator[Path]:
        level = list(self.roots)
        for _ in range(_DEPTH):
            yield from level
            level = sorted(child for folder in level if not is_closed(folder) for child in _subfolders(folder))


def _shared_parts(one: Path, other: Path) -> int:
    return len(Path(os.path.commonpath((one, other))).parts)


def _subfolders(folder: Path) -> list[Path]:
    """Return the accessible folders in a folder; none if it has disappeared."""
    try:
        with os.scandir(folder) as entries:
            inside = [Path(entry) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [path for path in inside if _is_plain(path) and os.access(path, os.R_OK | os.X_OK)]


def format_of(folder: Path) -> str | None:
    """Return the format in a folder's manifest; None without a manifest, empty if it cannot be read."""
    file = folder / "manifest.json"
    if not file.is_file():
        return None
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["format"])
    except (OSError, *MALFORMED):
        return ""


def is_job(folder: Path) -> bool:
    """Return whether a folder is that of a job, of any kind."""
    return (folder / FILE).is_file()


def is_result(folder: Path) -> bool:
    """Return whether a folder is that of a toll job; assume so if its layout cannot be read."""
    if not is_job(folder):
        return False
    try:
        return JobFile.read(folder).kind == TOLL and Layout.read(folder).makes_answers
    except BadInput:
        return True


def is_closed(folder: Path) -> bool:
    """Return whether a folder is a single object: a run, the folder of a job, a data set."""
    return (folder / "manifest.json").is_file() or is_job(folder) or is_archive(folder)


def plain_files(folder: Path) -> list[Path]:
    """Return the files in a folder, without hidden files and links."""
    try:
        return sorted(path for path in folder.iterdir() if _is_plain(path) and path.is_file())
    except OSError:
        return []


def _is_plain(path: Path) -> bool:
    return not path.is_symlink() and not path.name.startswith(".")


def pick(found: dict[str, Path], name: str, kind: str, hint: str) -> Path:
    """Return the path with a name."""
    if name not in found:
        raise NotFound(f"No {kind} {name!r} in the workspace.", hint=hint)
    return found[name]
