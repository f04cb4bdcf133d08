"""A rating as one HTML page: the result, every trial, response times, and the QoS map of the confirmed window."""

from __future__ import annotations

import html
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from slipstream._bench.rating.search import Rating
from slipstream._bench.rating.trial import MOST_BUSY, ResponseSummary, Trial
from slipstream._bench.validation.validation_page import COLOURS, STYLE, embed_image, make_figure, plot_qos
from slipstream._runtime.watching import metrics

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>L-rating: {expressways}</title><style>{style}</style></head>
<body>
<h1>L = {expressways} on {cores} cores <small>({per_core} per core, {engine}, {how})</small></h1>
<p>{statement} {machine}; {versions}.</p>
<p>The largest L with all answers in time in a short trial was {highest}; the rating requires headroom, too.</p>
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
        highest=rating.highest,
        cores=rating.cores,
        per_core=rating.per_core,
        engine=html.escape(rating.engine),
        how=html.escape(rating.how),
        statement=html.escape(rating.statement),
        machine=rating.machine,
        versions=", ".join(f"{name} {number}" for name, number in rating.versions.items()),
        tries=tabulate(TRIAL_HEADS, map(make_trial_row, rating.tries)),
        ladder=embed_image(plot_ladder(rating.tries), "slowest answer against the number of expressways"),
        responses=tabulate_responses(rating.confirmed.responses),
        qos=f"<h2>QoS map</h2>{embed_image(plot_qos(batches), described)}" if batches else "",
    )
    path.write_text(page, encoding="utf-8")


TRIAL_HEADS = ("L", "seconds", "slowest", "busy", "cores", "driver late", "start", "memory", "")


def make_trial_row(tried: Trial) -> tuple[str, ...]:
    """Return a trial as cells of a table."""
    return (
        str(tried.expressways),
        str(tried.seconds),
        f"{tried.slowest:.1f} s",
        " ".join(f"{share:.0%}" for share in tried.busy),
        " ".join(f"{name} {cores:.2f}" for name, cores in tried.cores.items()),
        f"{tried.lag:.2f} s",
        f"{tried.startup:.0f} s",
        f"{tried.gib:.1f} GiB",
        tried.outcome + (f", {tried.restarts} restart" if tried.restarts else ""),
    )


def tabulate(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in HTML; the last column is text."""
    lines = []
    for row in rows:
        *cells, last = map(html.escape, row)
        lines.append(f'<tr>{"".join(f"<td>{cell}</td>" for cell in cells)}<td class="text">{last}</td></tr>')
    return f"<table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>{''.join(lines)}</table>"


def tabulate_responses(responses: dict[str, ResponseSummary]) -> str:
    """Return response times by kind as a table in HTML."""
    heads = ("", "p50", "p99", "max", "limit", "late")
    rows = [
        (name, *(f"{getattr(response, head):.2f} s" for head in heads[1:5]), f"{response.late:,}")
        for name, response in responses.items()
    ]
    return tabulate(heads, rows)


def plot_ladder(tries: tuple[Trial, ...]) -> Figure:
    """Plot the slowest answer of every trial, like the paper's table of response times against L, and how busy it was.

    Void trials say nothing about the engine and are left out.
    """
    figure, (times, shares) = make_figure(2, 5)
    shown = [tried for tried in tries if not tried.void]
    groups = (
        ("with headroom", COLOURS[2], [tried for tried in shown if tried.held]),
        ("in time", COLOURS[0], [tried for tried in shown if tried.in_time and not tried.held]),
        ("late", COLOURS[1], [tried for tried in shown if not tried.in_time]),
    )
    for label, colour, mine in groups:
        if mine:
            times.plot([t.expressways for t in mine], [t.slowest for t in mine], "o", color=colour, label=label)
            busy = [(t.expressways, 100 * share) for t in mine for share in t.busy]
            shares.plot([at for at, _ in busy], [share for _, share in busy], "o", color=colour)
    times.axhline(5, color="#a40000", linestyle="--", linewidth=1)
    times.set(ylabel="slowest answer, s (limit dashed)", ylim=(0, None))
    times.legend(frameon=False)
    shares.axhline(100 * MOST_BUSY, color="#a40000", linestyle="--", linewidth=1)
    shares.set(xlabel="expressways", ylabel="busy, % (limit dashed)", ylim=(0, None))
    return figure
