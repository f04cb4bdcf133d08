"""The ten weeks before a run: the layout on disk, and how to open it.

    RUN/history/history.json               versions, row counts, sizes and digests
    RUN/history/segments/*.parquet         SegmentHistory: day, min, xway, dir, seg, lav, cnt, toll
    RUN/history/tolls/*.parquet            TollHistory: vid, day, xway, tolls
    RUN/history/arrays/speed-00000.npy     float32 [day of week, minute, direction, segment], ten-week means
    RUN/history/arrays/count-00000.npy     the same for the number of cars
    RUN/history/arrays/tolls.npy           uint16 [vehicle, day - 1]
    RUN/history/arrays/toll_xways.npy      int16 [vehicle, day - 1], -1 where TollHistory has no row

An array lookup replaces a search in the tables; arrays are memory-mapped, so a reader pays only for the pages it
touches. Copies of a multiplied run use the history of the original.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt

from slipstream._errors import MALFORMED, BadInput
from slipstream._feeds.run import Run
from slipstream._feeds.tuples import SEGMENTS
from slipstream._tools.strict_json import decode_as, parse_json

FORMAT = "slipstream-history"
VERSION = 1
FOLDER = "history"
INDEX = "history.json"

DAYS = 70
TOLL_DAYS = 69
WEEK = 7
WEEKS = DAYS // WEEK
MINUTES = 1440
DIRECTIONS = 2

#: the shape of one expressway's means
MEANS = (WEEK, MINUTES, DIRECTIONS, SEGMENTS)

SEGMENT_COLUMNS = ("day", "min", "xway", "dir", "seg", "lav", "cnt", "toll")
TOLL_COLUMNS = ("vid", "day", "xway", "tolls")

TOLLS = "arrays/tolls.npy"
TOLL_XWAYS = "arrays/toll_xways.npy"

Means = npt.NDArray[np.float32]

_AGAIN = "Generate it again: slipstream history RUN --overwrite"


def day_of_week(day: int) -> int:
    """The day of the week, 1 to 7, ``day`` days before the run, which takes place on day 1 of the week.

    >>> [day_of_week(day) for day in (0, 1, 2, 7, 70)]
    [1, 7, 6, 1, 1]
    """
    return -day % WEEK + 1


def speed_file(xway: int) -> str:
    """The file of an expressway's mean speeds, relative to the history."""
    return f"arrays/speed-{xway:05d}.npy"


def count_file(xway: int) -> str:
    """The file of an expressway's mean car counts, relative to the history."""
    return f"arrays/count-{xway:05d}.npy"


@dataclass(frozen=True)
class FileDigest:
    """The expected size and digest of a file."""

    bytes: int
    sha256: str


def digest_file(file: Path) -> FileDigest:
    """Compute the size and digest of a file."""
    with file.open("rb") as contents:
        return FileDigest(file.stat().st_size, hashlib.file_digest(contents, "sha256").hexdigest())


@dataclass(frozen=True)
class HistoryIndex:
    """The contents of ``history.json``."""

    seed: int
    xways: tuple[int, ...]  # the expressways it has means for
    vid_stride: int
    vehicles: int
    rows: dict[str, int]  # per table
    checks: dict[str, FileDigest]  # file -> its size and SHA-256
    versions: dict[str, str] = field(default_factory=dict)  # of the software that generated it

    def to_json(self) -> str:
        """The index as JSON; equal histories give equal text."""
        body = {"format": FORMAT, "version": VERSION, **asdict(self)}
        return json.dumps(body, indent=2, sort_keys=True) + "\n"

    @classmethod
    def read(cls, file: Path) -> HistoryIndex:
        """Read and check an index."""
        try:
            body = parse_json(file.read_bytes())
            made_by = body.pop("format"), body.pop("version")
            index = decode_as(cls, body)
        except (OSError, *MALFORMED) as error:
            raise BadInput(
                f"{file}: not the index of a history ({error}).", hint=_AGAIN, code="damaged-file"
            ) from error
        if made_by != (FORMAT, VERSION):
            raise BadInput(
                f"{file}: {made_by[0]} {made_by[1]}, expected {FORMAT} {VERSION}.", hint=_AGAIN, code="wrong-version"
            )
        return index


class History:
    """The history of a run, or the fact that it has none (``missing``).

    A run without a history is not an error: there are no means, no vehicle has a row, and queries return what the
    specification defines for that case.
    """

    def __init__(self, folder: Path, index: HistoryIndex | None) -> None:
        self.folder = folder
        self.index = index

    @classmethod
    def open(cls, run: Run) -> History:
        """Open the history of ``run``; refuse a damaged one, or that of another run."""
        folder = run.path / FOLDER
        if not folder.exists():
            return cls(folder, None)
        history = cls(folder, HistoryIndex.read(folder / INDEX))
        history._check_against(run)
        history._check_files()
        return history

    @property
    def missing(self) -> bool:
        """Whether the run has no history."""
        return self.index is None

    def _check_against(self, run: Run) -> None:
        manifest, index = run.manifest, self._index
        xways = tuple(expressway.xway for expressway in manifest.expressways)
        if (xways, manifest.vid_stride) != (index.xways, index.vid_stride):
            raise BadInput(f"{self.folder}: belongs to another run.", hint=_AGAIN, code="different-job")

    def _check_files(self) -> None:
        for name, check in self._index.checks.items():
            file = self.folder / name
            try:
                size = file.stat().st_size if file.is_file() else None
            except OSError as error:
                raise BadInput(f"{self.folder}: {error}.", hint=_AGAIN, code="damaged-file") from error
            if size != check.bytes:
                found = "missing" if size is None else f"{size:,} bytes, expected {check.bytes:,}"
                raise BadInput(f"{file}: {found}.", hint=_AGAIN, code="damaged-file")

    def verify(self) -> None:
        """Read every file and compare with the digests in the index."""
        for name, check in self._index.checks.items() if self.index else ():
            if digest_file(self.folder / name) != check:
                raise BadInput(
                    f"{self.folder / name}: contents differ from the index.", hint=_AGAIN, code="damaged-file"
                )

    @property
    def _index(self) -> HistoryIndex:
        assert self.index is not None
        return self.index

    @cached_property
    def speeds(self) -> Mapping[int, Means]:
        """Mean speed in mph per stored expressway: [day of week - 1, minute of the day, direction, segment]."""
        return {xway: self._map_array(speed_file(xway), MEANS, np.float32) for xway in self._xways}

    @cached_property
    def counts(self) -> Mapping[int, Means]:
        """Mean number of cars per stored expressway, in the same shape."""
        return {xway: self._map_array(count_file(xway), MEANS, np.float32) for xway in self._xways}

    @cached_property
    def tolls(self) -> npt.NDArray[np.uint16]:
        """Tolls paid, by [vehicle, day - 1]; no rows if the history is missing."""
        return self._map_array(TOLLS, self._toll_shape, np.uint16)

    @cached_property
    def toll_xways(self) -> npt.NDArray[np.int16]:
        """The expressway on which they were paid; -1 where there is no row."""
        return self._map_array(TOLL_XWAYS, self._toll_shape, np.int16)

    @property
    def _xways(self) -> tuple[int, ...]:
        return self.index.xways if self.index else ()

    @property
    def _toll_shape(self) -> tuple[int, int]:
        return (self.index.vid_stride if self.index else 0, TOLL_DAYS)

    def _map_array(self, name: str, shape: tuple[int, ...], kind: type[Any]) -> npt.NDArray[Any]:
        if self.missing:
            return np.empty(shape, dtype=kind)
        file = self.folder / name
        try:
            array = np.load(file, mmap_mode="r", allow_pickle=False)
        except (OSError, EOFError, TokenError, *MALFORMED) as error:
            raise BadInput(f"{file}: not a NumPy array ({error}).", hint=_AGAIN, code="damaged-file") from error
        if array.shape != shape or array.dtype != kind:
            raise BadInput(
                f"{file}: {array.dtype} {array.shape}, expected {np.dtype(kind)} {shape}.",
                hint=_AGAIN,
                code="damaged-file",
            )
        return np.asarray(array)
