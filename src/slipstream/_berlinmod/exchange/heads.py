"""Check the first rows of a large file before Spark starts.

Whether it has the required columns, which reference system it names, and whether its coordinates are degrees instead of
metres (:func:`slipstream._moving.space.plane.are_degrees`).
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import IO, cast

import numpy as np

from slipstream._errors import MALFORMED, BadInput
from slipstream._moving.moving_point import micros
from slipstream._moving.space import plane
from slipstream._tools.numba_tools import Floats

#: rows to read: enough to see how fast things move, and quick to read
ROWS = 10_000

HINT = "Project them to metres first (for example with slipstream.{plane}); if they are metres, use --metres."

#: returns x, y and the reference system of a geometry given as text
ParsePlace = Callable[[str], tuple[str, str, str]]


@dataclass(frozen=True)
class Head:
    """The places in the first rows of a file, how fast things move between them, and their reference system."""

    path: Path
    columns: str
    x: Floats
    y: Floats
    speed: Floats
    srid: int = 0

    @property
    def is_small(self) -> bool:
        """Whether coordinates are metres though so close to the origin that they could pass for degrees."""
        near = (np.abs(self.x) <= 360) & (np.abs(self.y) <= 90)
        return bool(near.all()) and not plane.are_degrees(self.x, self.y, self.speed)

    def refuse_degrees(self) -> None:
        """Reject coordinates that look like degrees, unless the file names a reference system in metres."""
        if not self.srid:
            plane.refuse_degrees(str(self.path), self.x, self.y, self.speed, columns=self.columns, hint=HINT)


def read_header(path: Path, columns: tuple[str, ...]) -> dict[str, int]:
    """Return the positions of the columns of a CSV file by lower-case name; requires those in ``columns``."""
    return _positions(path, _rows(path, 1), columns)


def read_units_head(path: Path, columns: tuple[str, ...]) -> Head:
    """Read the head of a file of units: ``..., Tstart, Tend, Xstart, Ystart, Xend, Yend``."""
    found = _columns(path, columns)
    t0, t1 = (_times(found[name]) for name in columns[2:4])
    x0, y0, x1, y1 = (_numbers(found[name]) for name in columns[4:])
    with np.errstate(all="ignore"):
        speed = np.hypot(x1 - x0, y1 - y0) / (t1 - t0)
    x, y = np.concatenate([x0, x1]), np.concatenate([y0, y1])
    return Head(path, f"columns {', '.join(columns[4:])}", x, y, speed)


def read_instants_head(path: Path, columns: tuple[str, ...], place: ParsePlace) -> Head:
    """Read the head of a file of instants: ``tripid, vehicleid, t`` and ``x, y`` or ``point``, parsed by ``place``."""
    found = _columns(path, columns)
    systems: list[str] = []
    if "point" in columns:
        taken = [place(text) for text in found["point"]]
        found |= {"x": [x for x, _, _ in taken], "y": [y for _, y, _ in taken]}
        systems = [srid for _, y, srid in taken if y]
    x, y, t = _numbers(found["x"]), _numbers(found["y"]), _times(found["t"])
    good = np.isfinite(x) & np.isfinite(y) & np.isfinite(t)
    trips = np.unique(np.array(found["tripid"], dtype=str), return_inverse=True)[1]
    speed = plane.speeds((t[good] * 1e6).astype(np.int64), x[good], y[good], trips[good])
    what = "column point" if "point" in columns else "columns x, y"
    return Head(path, what, x[good], y[good], speed, common_srid(str(path), systems))


def common_srid(where: str, systems: list[str]) -> int:
    """Return the one reference system that geometries name; 0 if they name none."""
    named = sorted({srid for srid in systems if srid not in ("", "0")})
    if len(named) > 1:
        raise BadInput(
            f"{where}: SRIDs {' and '.join(named)} in one data set.",
            hint="Project all geometries to one system.",
            code="bad-coordinates",
        )
    return int(named[0]) if named and named[0].isdecimal() else 0


def _open_text(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return cast(IO[str], gzip.open(path, "rt", encoding="utf-8", errors="replace", newline=""))
    return path.open(encoding="utf-8", errors="replace", newline="")


def _rows(path: Path, count: int) -> list[list[str]]:
    try:
        with _open_text(path) as file:
            return list(islice(csv.reader(file), count))
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise BadInput(
            f"{path}: cannot be read ({error}).", hint="Use a CSV file, gzipped or not.", code="unreadable-file"
        ) from error


def _positions(path: Path, rows: list[list[str]], columns: tuple[str, ...]) -> dict[str, int]:
    there = {name.strip().lower(): number for number, name in enumerate(rows[0] if rows else [])}
    if missing := [name for name in columns if name.lower() not in there]:
        raise BadInput(
            f"{path}, line 1: no column {', '.join(missing)}.",
            hint=f"Expected {', '.join(columns)}.",
            code="unknown-column",
            found=[*there],
            expected=[*columns],
        )
    return there


def _columns(path: Path, columns: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the first rows by column; rows with a wrong number of fields are left to the check of all rows."""
    rows = _rows(path, 1 + ROWS)
    there = _positions(path, rows, columns)
    whole = [row for row in rows[1:] if len(row) == len(rows[0])]
    return {name: [row[there[name.lower()]] for row in whole] for name in columns}


def _numbers(texts: list[str]) -> Floats:
    return np.array([_number(text) for text in texts], dtype=float)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


def _times(texts: list[str]) -> Floats:
    """Return seconds since 1970; NaN for invalid instants, which the check of all rows finds."""
    return np.array([_time(text.strip()) for text in texts], dtype=float)


def _time(text: str) -> float:
    try:
        return micros(datetime.fromisoformat(f"{text[:10]} {text[11:]}" if len(text) > 10 else text)) / 1e6
    except MALFORMED:
        return np.nan
