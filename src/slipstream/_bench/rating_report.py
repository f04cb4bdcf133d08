"""A rating as one HTML page: the result, every trial, response times, and the QoS map of the confirmed window."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING

from slipstream._bench.rating import Rating, Trial
from slipstream._bench.validation.report import COLOURS, STYLE, embed_image, new_figure, plot_qos
from slipstream._runtime import metrics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>L-rating: {expressways}</title><style>{style}</style></head>
<body>
<h1>L = {expressways} on {cores} cores <small>({per_core} per core, {engine})</small></h1>
<p>{statement} {machine}; {versions}.</p>
<h2>Trials</h2>
{tries}
{ladder}
<h2>Response times of the confirmed window</h2>
{responses}
{qos}
</body></html>
"""


def write_rating(rating: Rating, path: Path) -> None:
    """Write ``rating`` as HTML to ``path``."""
    batches = [batch for batch in metrics.read(Path(rating.output)) if batch.since >= rating.window.since]
    described = "commit time and query time capacity over the window"
    page = PAGE.format(
        style=STYLE,
        expressways=rating.expressways,
        cores=rating.cores,
        per_core=rating.per_core,
        engine=rating.engine,
        statement=html.escape(rating.statement),
        machine=rating.machine,
        versions=", ".join(f"{name} {number}" for name, number in rating.versions.items()),
        tries=_tries(rating),
        ladder=embed_image(plot_ladder(rating.tries), "slowest answer against the number of expressways"),
        responses=_responses(rating),
        qos=f"<h2>QoS map</h2>{embed_image(plot_qos(batches), described)}" if batches else "",
    )
    path.write_text(page, encoding="utf-8")


def _tries(rating: Rating) -> str:
    rows = [
        f"<tr><td>{tried.expressways}</td><td>{tried.seconds}</td><td>{tried.slowest:.1f} s</td>"
        f'<td>{tried.gib:.1f}</td><td class="text">{html.escape(tried.outcome)}</td></tr>'
        for tried in rating.tries
    ]
    return f"<table><tr><th>L</th><th>seconds</th><th>slowest</th><th>GiB</th><th></th></tr>{''.join(rows)}</table>"


def _responses(rating: Rating) -> str:
    heads = ("", "p50", "p99", "max", "limit")
    rows = [
        f"<tr><td>{name}</td>{''.join(f'<td>{getattr(response, head):.2f} s</td>' for head in heads[1:])}</tr>"
        for name, response in rating.confirmed.responses.items()
    ]
    return f"<table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>{''.join(rows)}</table>"


def plot_ladder(tries: tuple[Trial, ...]) -> Figure:
    """Plot the slowest answer of every trial, like the paper's table of response times against L."""
    figure, (axis,) = new_figure(1, 3.2)
    for held, colour, label in ((True, COLOURS[2], "sustained"), (False, COLOURS[1], "not sustained")):
        mine = [tried for tried in tries if tried.held == held]
        if mine:
            axis.plot([t.expressways for t in mine], [t.slowest for t in mine], "o", color=colour, label=label)
    axis.axhline(5, color="#a40000", linestyle="--", linewidth=1)
    axis.set(xlabel="expressways", ylabel="slowest answer, s (limit dashed)", ylim=(0, None))
    axis.legend(frameon=False)
    return figure
