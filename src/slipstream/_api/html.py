"""What notebooks show: tables, the status of a job, and maps of trips; plain HTML and SVG, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream._tools.html_table import table
from slipstream._tools.svg_map import draw_map

if TYPE_CHECKING:
    from slipstream._api.streaming.results import JobStatus

#: trips that a map shows
MOST_TRIPS = 200


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
    """Return the paths of moving points as a map.

    >>> svg = trips([{"x": [0.0, 10.0], "y": [0.0, 5.0], "starts": [0]}], "trips")
    >>> svg.count("<polyline"), "trips" in svg, "10 m by 5 m" in svg
    (1, True, True)
    """
    paths = [path for trip in points if trip for path in _split_sequences(trip)]
    return draw_map(paths, title) if paths else f"<p>{escape(title)}: no trips yet</p>"


def _split_sequences(trip: Mapping[str, Any]) -> list[list[tuple[float, float]]]:
    """The stretches of a moving point, between which it is nowhere."""
    path = list(zip(trip["x"], trip["y"], strict=True))
    return [path[start:end] for start, end in pairwise([*trip["starts"], len(path)]) if end > start]
