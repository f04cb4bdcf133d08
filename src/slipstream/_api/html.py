"""What notebooks show: tables, the status of a job, and maps of trips; plain HTML and SVG, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream._tools.html_table import table

if TYPE_CHECKING:
    from slipstream._api.streaming.results import JobStatus

#: trips that a map shows
MOST_TRIPS = 200
_WIDTH, _HEIGHT, _MARGIN, _LINE = 640, 400, 12, 16
#: a map that is this many times as wide as high, or as high as wide, has a scale for each
_NARROW = 20
_COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#17becf")


def status(folder: Path | None, found: JobStatus) -> str:
    """Return the status of a job as a table."""
    facts = {
        "state": f"{found.state} ({found.why})" if found.why else found.state,
        "batches": f"{found.batches:,}",
        "tuples": f"{found.tuples:,}",
        "rejects": f"{found.rejects:,}",
        **{f"output {name}": f"{rows:,}" for name, rows in sorted(found.outputs.items())},
    }
    title = f"<b>{escape(str(folder))}</b>" if folder else ""
    return title + table([{"": name, "value": value} for name, value in facts.items()], ["", "value"])


def progress(folder: Path, found: JobStatus) -> str:
    """Return how far a job has come, in a line.

    >>> from slipstream._api.streaming.results import JobStatus
    >>> progress(Path("out"), JobStatus("running", batches=3, tuples=1200, outputs={"slow": 7}))
    '<b>out</b>: running, 3 batches, 1,200 tuples, slow 7'
    """
    rows = [f"{name} {count:,}" for name, count in sorted(found.outputs.items()) if count]
    batches = f"{found.batches:,} {'batch' if found.batches == 1 else 'batches'}"
    facts = [f"{found.state} ({found.why})" if found.why else found.state, batches, f"{found.tuples:,} tuples", *rows]
    return f"<b>{escape(str(folder))}</b>: {escape(', '.join(facts))}"


def trips(points: Iterable[Mapping[str, Any] | None], title: str) -> str:
    """Return the paths of moving points as a map; x to the right, y upwards, and how many metres it shows.

    Both have the same scale, unless one would be too narrow to be seen, as the lanes of a long road are.

    >>> svg = trips([{"x": [0.0, 10.0], "y": [0.0, 5.0], "starts": [0]}], "trips")
    >>> svg.count("<polyline"), "trips" in svg, "10 m by 5 m" in svg
    (1, True, True)
    """
    lines = [line for trip in points if trip for line in _split_sequences(trip)]
    if not lines:
        return f"<p>{escape(title)}: no trips yet</p>"
    xs, ys = [x for line in lines for x, _ in line], [y for line in lines for _, y in line]
    left, low, wide, high = min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)
    across, up = (_WIDTH - 2 * _MARGIN) / (wide or 1), (_HEIGHT - 2 * _MARGIN) / (high or 1)
    if max(across, up) < _NARROW * min(across, up) or not (wide and high):
        across = up = min(across, up)
    drawn = "".join(
        f'<polyline fill="none" stroke="{_COLOURS[number % len(_COLOURS)]}" points="'
        + " ".join(f"{_MARGIN + (x - left) * across:.1f},{_HEIGHT - _MARGIN - (y - low) * up:.1f}" for x, y in line)
        + '"/>'
        for number, line in enumerate(lines)
    )
    stretched = "" if across == up else ", not to scale"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT + _LINE}" role="img">'
        f'<title>{escape(title)}</title><g stroke-width="2" stroke-linecap="round">{drawn}</g>'
        f'<text x="{_MARGIN}" y="{_HEIGHT + _LINE - 4}" font-family="sans-serif" font-size="12" fill="#888">'
        f"{_format_metres(wide)} by {_format_metres(high)}{stretched}</text></svg>"
    )


def _format_metres(length: float) -> str:
    """Return a length in words.

    >>> _format_metres(152_000.0), _format_metres(17.6)
    ('152 km', '18 m')
    """
    return f"{length / 1000:,.0f} km" if length >= 10_000 else f"{length:,.0f} m"


def _split_sequences(trip: Mapping[str, Any]) -> list[list[tuple[float, float]]]:
    """The stretches of a moving point, between which it is nowhere."""
    path = list(zip(trip["x"], trip["y"], strict=True))
    starts = [*trip["starts"], len(path)]
    # a line of one point is drawn as a dot if it has two ends
    return [path[start:end] * (2 if end - start == 1 else 1) for start, end in pairwise(starts) if end > start]
