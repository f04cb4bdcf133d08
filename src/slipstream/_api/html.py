"""What notebooks show: tables, the status of a job, and maps of trips; plain HTML and SVG, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream._tools.html_table import table

if TYPE_CHECKING:
    from slipstream._api.results import JobStatus

#: trips that a map shows
MOST_TRIPS = 200
_WIDTH, _HEIGHT, _MARGIN = 640, 400, 12
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

    >>> from slipstream._api.results import JobStatus
    >>> progress(Path("out"), JobStatus("running", batches=3, tuples=1200, outputs={"slow": 7}))
    '<b>out</b>: running, 3 batches, 1,200 tuples, slow 7'
    """
    rows = [f"{name} {count:,}" for name, count in sorted(found.outputs.items()) if count]
    batches = f"{found.batches:,} {'batch' if found.batches == 1 else 'batches'}"
    facts = [f"{found.state} ({found.why})" if found.why else found.state, batches, f"{found.tuples:,} tuples", *rows]
    return f"<b>{escape(str(folder))}</b>: {escape(', '.join(facts))}"


def trips(points: Iterable[Mapping[str, Any] | None], title: str) -> str:
    """Return the paths of moving points as a map; x to the right, y upwards, the same scale for both.

    >>> svg = trips([{"x": [0.0, 10.0], "y": [0.0, 5.0], "starts": [0]}], "trips")
    >>> svg.count("<polyline"), "trips" in svg
    (1, True)
    """
    lines = [line for trip in points if trip for line in _sequences(trip)]
    if not lines:
        return f"<p>{escape(title)}: no trips yet</p>"
    xs, ys = [x for line in lines for x, _ in line], [y for line in lines for _, y in line]
    scale = min((_WIDTH - 2 * _MARGIN) / (max(xs) - min(xs) or 1), (_HEIGHT - 2 * _MARGIN) / (max(ys) - min(ys) or 1))
    drawn = "".join(
        f'<polyline fill="none" stroke="{_COLOURS[number % len(_COLOURS)]}" stroke-width="1.5" points="'
        + " ".join(
            f"{_MARGIN + (x - min(xs)) * scale:.1f},{_HEIGHT - _MARGIN - (y - min(ys)) * scale:.1f}" for x, y in line
        )
        + '"/>'
        for number, line in enumerate(lines)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" role="img">'
        f"<title>{escape(title)}</title>{drawn}</svg>"
    )


def _sequences(trip: Mapping[str, Any]) -> list[list[tuple[float, float]]]:
    """The stretches of a moving point, between which it is nowhere."""
    path = list(zip(trip["x"], trip["y"], strict=True))
    starts = [*trip["starts"], len(path)]
    return [path[start:end] for start, end in pairwise(starts) if end > start]
