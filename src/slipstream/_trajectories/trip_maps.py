"""Maps of trips: a page of HTML that needs nothing but a browser, and pictures.

The page has its data and its script inline and loads nothing, so it works offline, in a notebook and as an attachment.
A map shows a limited number of positions; where there are more, every n-th of each trip is drawn, and the page says so.
Speeds are those between the positions that are drawn.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slipstream._errors import BadArgument, BadInput
from slipstream._moving.columns import MPoints, read
from slipstream._moving.space.systems import System
from slipstream._tools.numba_tools import Floats, Ints, Longs
from slipstream._trajectories.cutting.assembling import TRIP

#: positions that a map shows, and trips that it shows by default
MOST_POSITIONS, MOST_TRIPS = 200_000, 5_000
HTML, PICTURES = ".html", (".png", ".svg", ".pdf")
#: degrees with six decimals are a tenth of a metre
_DIGITS = 6


@dataclass(frozen=True)
class Track:
    """What is drawn of one sequence of a trip."""

    name: str
    t: Longs  # milliseconds since 1970
    x: Floats
    y: Floats
    speed: Floats  # km/h from each position to the next; one fewer than positions


@dataclass(frozen=True)
class DrawnTrips:
    """Trips prepared for drawing."""

    tracks: tuple[Track, ...]
    in_degrees: bool
    step: int  # every step-th position is drawn
    trips: int


def check_format(out: Path) -> None:
    """Refuse a file whose name is neither that of a page nor that of a picture."""
    if out.suffix.lower() not in (HTML, *PICTURES):
        raise BadArgument(
            f"--out {out}: not a map or a picture.",
            hint=f"Its name must end in {HTML} (a map) or {', '.join(PICTURES)}.",
            code="wrong-file-type",
        )


def prepare(table: pa.Table, crs: str, *, most: int = MOST_POSITIONS) -> DrawnTrips:
    """Choose what is drawn of a table of trips: all positions, or every n-th if there are too many."""
    column = table[TRIP].combine_chunks()
    moving = read(column.chunk(0) if isinstance(column, pa.ChunkedArray) else column)
    if not len(moving.t):
        raise BadInput("There are no trips to draw.", hint="Select at least one.", code="empty-input")
    step = max(1, -(-len(moving.t) // most))
    names = table["id"].to_pylist() if "id" in table.column_names else list(range(table.num_rows))
    system = System.parse(crs) if crs else None
    found = [track for row, name in enumerate(names) for track in _tracks(str(name), moving, row, step, system)]
    return DrawnTrips(tuple(found), system is not None, step, table.num_rows)


def _tracks(name: str, m: MPoints, row: int, step: int, system: System | None) -> list[Track]:
    """The sequences of a trip."""
    low, high = int(m.rows[row]), int(m.rows[row + 1])
    starts = [*m.starts[m.parts[row] : m.parts[row + 1]].tolist(), high - low]
    return [
        _track(name, m, low + _thin(first, end, step), system)
        for first, end in itertools.pairwise(starts)
        if end > first
    ]


def _thin(first: int, end: int, step: int) -> Ints:
    """Every ``step``-th index, and always the last."""
    chosen = np.arange(first, end, step, dtype=np.int32)
    return chosen if chosen[-1] == end - 1 else np.append(chosen, np.int32(end - 1))


def _track(name: str, m: MPoints, at: Ints, system: System | None) -> Track:
    t, x, y = m.t[at], m.x[at], m.y[at]
    seconds = np.diff(t) / 1e6
    with np.errstate(divide="ignore", invalid="ignore"):
        speed = np.where(seconds > 0, np.hypot(np.diff(x), np.diff(y)) / seconds * 3.6, 0.0)
    if system is not None:
        x, y = system.locate(x, y)
    return Track(name, t // 1000, x, y, speed)


def make_page(found: DrawnTrips, title: str) -> str:
    """Return a page with a map, a slider for the time, and the speeds as colours.

    >>> line = Track("van", np.array([0, 60_000]), np.array([13.4, 13.5]), np.array([52.5, 52.5]), np.array([40.0]))
    >>> page = make_page(DrawnTrips((line,), True, 1, 1), "vans")
    >>> "<title>vans</title>" in page, "http" in page.replace("http://www.w3.org", "")
    (True, False)
    """
    template = files("slipstream._trajectories").joinpath("map.html").read_text(encoding="utf-8")
    # "<" would let a name end the script
    data = json.dumps(_to_json(found), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return template.replace("@TITLE@", escape(title)).replace("@DATA@", data)


def _to_json(found: DrawnTrips) -> dict[str, Any]:
    begin = min(int(track.t[0]) for track in found.tracks)
    end = max(int(track.t[-1]) for track in found.tracks)
    speeds = np.concatenate([track.speed for track in found.tracks])
    digits = _DIGITS if found.in_degrees else 2
    return {
        "begin": begin,
        "end": end,
        "degrees": found.in_degrees,
        "step": found.step,
        "trips": found.trips,
        "fast": _round_up(float(np.quantile(speeds, 0.98))) if len(speeds) else 1,
        "tracks": [
            {
                "id": track.name,
                "t": (track.t - begin).tolist(),
                "x": track.x.round(digits).tolist(),
                "y": track.y.round(digits).tolist(),
                "v": track.speed.round(1).tolist(),
            }
            for track in found.tracks
        ],
    }


def _round_up(speed: float) -> float:
    """The end of a scale: 1, 2 or 5 times a power of ten, and above the speed.

    >>> _round_up(47.0), _round_up(0.0)
    (50.0, 1.0)
    """
    if speed <= 0:
        return 1.0
    unit = 10.0 ** np.floor(np.log10(speed))
    return float(next(unit * k for k in (1, 2, 5, 10) if unit * k >= speed))


def draw_picture(found: DrawnTrips, title: str, out: Path) -> None:
    """Write a picture of the paths, with speeds as colours."""
    import matplotlib as mpl
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 7), layout="constrained")
    axes = figure.add_subplot()
    pieces = [np.stack([np.c_[t.x[:-1], t.y[:-1]], np.c_[t.x[1:], t.y[1:]]], axis=1) for t in found.tracks]
    segments, speeds = np.concatenate(pieces), np.concatenate([track.speed for track in found.tracks])
    fastest = _round_up(float(np.quantile(speeds, 0.98))) if len(speeds) else 1.0
    lines = LineCollection(list(segments), array=speeds, cmap="viridis", norm=mpl.colors.Normalize(0, fastest))
    axes.add_collection(lines)
    dots = [(track.x[0], track.y[0]) for track in found.tracks if len(track.x) == 1]
    if dots:
        axes.plot(*zip(*dots, strict=True), ".", color="#c0392b", markersize=4)
    axes.autoscale_view()
    _label(axes, found)
    axes.set_title(title)
    figure.colorbar(lines, label="km/h", extend="max")
    figure.savefig(out, dpi=130)


def _label(axes: Any, found: DrawnTrips) -> None:
    names = ("longitude", "latitude") if found.in_degrees else ("x (m)", "y (m)")
    axes.set_xlabel(names[0])
    axes.set_ylabel(names[1])
    middle = float(np.mean([track.y.mean() for track in found.tracks])) if found.in_degrees else 0.0
    axes.set_aspect(1 / max(0.05, np.cos(np.radians(middle))), adjustable="datalim")
    axes.ticklabel_format(useOffset=False, style="plain")
    axes.grid(alpha=0.3)


def draw(table: pa.Table, crs: str, title: str, out: Path) -> DrawnTrips:
    """Write a map or a picture of trips, as the name of the file says."""
    check_format(out)
    found = prepare(table, crs)
    if out.suffix.lower() == HTML:
        out.write_text(make_page(found, title), encoding="utf-8")
    else:
        draw_picture(found, title, out)
    return found
