"""A validation as one self-contained HTML page: the verdict, a table by kind, plots, examples."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from slipstream._bench.validation.validator import ResponseCount, Tally, Verdict
from slipstream._cuboid import consistency
from slipstream._cuboid.snapshots.snapshot_files import FILE, FOLDER
from slipstream._runtime.watching import metrics
from slipstream._runtime.watching.metrics import BatchMetrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: one colour per kind of answer, also distinct for colour-blind readers (Okabe and Ito)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A6D00")

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem; color: #1b1f24 }
h1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin-top: 2rem }
.pass { color: #00663e } .fail { color: #a40000 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .8rem; text-align: right; border-bottom: 1px solid #d8dee4 }
th:first-child, td:first-child { text-align: left }
td.bad { color: #a40000; font-weight: 600 } td.text { text-align: left }
img { max-width: 100% } code { background: #f3f5f7; padding: 0 .2rem }
"""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Linear Road validation: {result}</title><style>{style}</style></head>
<body>
<h1>Linear Road validation: <span class="{mark}">{result}</span></h1>
<p>{summary}</p>
{hints}
<h2>By kind of answer</h2>
{table}
{examples}
{responses}
<h2>Throughput</h2>
{throughput}
{consistency}
</body></html>
"""


def write_report(verdict: Verdict, path: Path) -> None:
    """Write ``verdict`` as HTML to ``path``."""
    page = PAGE.format(
        style=STYLE,
        result="passed" if verdict.passed else "failed",
        mark="pass" if verdict.passed else "fail",
        summary=_write_summary(verdict),
        hints="".join(f"<p><b>{html.escape(hint)}</b></p>" for hint in verdict.hints),
        table=_write_table(verdict),
        examples=_write_examples(verdict),
        responses=_write_responses(verdict),
        throughput=embed_image(plot_throughput(verdict), "tuples in and answers out per second of the run"),
        consistency="".join(_plot_consistency(Path(output)) for output in verdict.outputs),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def _write_summary(verdict: Verdict) -> str:
    outputs = ", ".join(f"<code>{html.escape(output)}</code>" for output in verdict.outputs)
    timed = "" if verdict.response_times else " Response times were not judged."
    return (
        f"{outputs} against <code>{html.escape(verdict.run)}</code> ({verdict.tuples:,} tuples), seconds "
        f"{verdict.since} to {verdict.until - 1}, rules of {verdict.rules}.{timed}"
    )


def _write_table(verdict: Verdict) -> str:
    times = ("limit", "median", "p99", "max") if verdict.response_times else ()
    head = "".join(f"<th>{name}</th>" for name in ("", "expected", "given", *verdict.problems, *times))
    return f"<table><tr>{head}</tr>{''.join(_write_row(verdict, tally) for tally in verdict.tallies)}</table>"


def _write_row(verdict: Verdict, tally: Tally) -> str:
    cells = [f"<td>{tally.name}</td>", f"<td>{tally.expected:,}</td>", f"<td>{tally.given:,}</td>"]
    for problem in verdict.problems:
        count = getattr(tally, problem)
        cells.append(f'<td class="bad">{count:,}</td>' if count else "<td>0</td>")
    if verdict.response_times:
        times = tally.response
        shown = (times.median, times.p99, times.max) if times else ()
        cells += [f"<td>{tally.limit} s</td>", *(f"<td>{value:.1f} s</td>" for value in shown)]
    return f"<tr>{''.join(cells)}</tr>"


def _write_examples(verdict: Verdict) -> str:
    rows = [
        f'<tr><td>{verdict.name(e.kind)}</td><td class="text">{e.problem}</td>'
        f'<td class="text">{html.escape(e.text)}</td><td class="text">{html.escape(e.rule)}</td></tr>'
        for e in verdict.examples
    ]
    rows += [
        f'<tr><td>unreadable</td><td></td><td class="text"><code>{html.escape(line)}</code></td><td></td></tr>'
        for line in verdict.unreadable_examples
    ]
    return f"<h2>First examples of each error</h2><table>{''.join(rows)}</table>" if rows else ""


def _write_responses(verdict: Verdict) -> str:
    if not verdict.response_times:
        return ""
    heading = "<h2>Response times</h2>"
    if not verdict.cells:
        return f"{heading}<p>No answers.</p>"
    distribution = embed_image(plot_distribution(verdict), "share of answers by response time, a curve per kind")
    over_time = embed_image(
        plot_over_time(verdict), "longest response time over the run, a panel per kind, with its limit"
    )
    return heading + distribution + over_time


def _plot_consistency(output: Path) -> str:
    """Plot commit times and the capacity left for queries, for an engine that records metrics."""
    folder = output if output.is_dir() else output.parent
    batches = [batch for batch in metrics.read(folder) if batch.until > batch.since >= 0]
    if not batches:
        return ""
    parts = [embed_image(plot_qos(batches), "commit time of each batch, and query time capacity over the run")]
    if (folder / FOLDER / FILE).exists() and (found := consistency.read_moments(folder)):
        parts.append(embed_image(consistency.plot_qos_map(found), "QoS map: time per tuple of commits and queries"))
    return f"<h2>Real-time consistency</h2>{''.join(parts)}"


def embed_image(figure: Figure, description: str) -> str:
    """Return a figure as an HTML image."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    data = base64.b64encode(picture.getvalue()).decode()
    return f'<img alt="{html.escape(description)}" src="data:image/png;base64,{data}">'


def make_figure(rows: int, height: float) -> tuple[Figure, list[Axes]]:
    """Create a figure with stacked panels, in the style of all reports."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, height), layout="constrained")
    axes = figure.subplots(rows, 1, sharex=True, squeeze=False)[:, 0]
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#e5e9ee")
    return figure, list(axes)


def _group_cells(verdict: Verdict) -> dict[int, list[ResponseCount]]:
    cells: dict[int, list[ResponseCount]] = {}
    for cell in verdict.cells:
        cells.setdefault(cell.kind, []).append(cell)
    return cells


def plot_distribution(verdict: Verdict) -> Figure:
    """Plot the share of answers within a time; wide lines lie below narrow ones, so that equal curves stay visible."""
    figure, (axis,) = make_figure(1, 3.8)
    limits = {tally.kind: tally.limit for tally in verdict.tallies}
    for kind, cells in _group_cells(verdict).items():
        tenths = np.array([cell.tenths for cell in cells])
        order = np.argsort(tenths)
        within = np.cumsum(np.array([cell.answers for cell in cells])[order])
        seconds, share = np.insert(tenths[order] / 10, 0, 0), np.insert(100 * within / within[-1], 0, 0)
        limit = limits[kind]
        label = f"{verdict.name(kind)} (limit {limit} s)"
        axis.step(seconds, share, where="post", color=COLOURS[kind], linewidth=5.5 - kind, label=label)
        axis.axvline(limit, color=COLOURS[kind], linestyle=":", linewidth=1.5)
    axis.set(xlabel="seconds from Time to Emit; limits dotted", ylabel="% of answers", ylim=(0, 102))
    axis.set_xlim(left=min(0.0, axis.get_xlim()[0]))
    axis.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
    return figure


def plot_over_time(verdict: Verdict) -> Figure:
    """Plot the longest response time in each stretch of the run."""
    present = _group_cells(verdict)
    limits = {tally.kind: tally.limit for tally in verdict.tallies}
    figure, axes = make_figure(len(present), 0.8 + 1.5 * len(present))
    for axis, (kind, cells) in zip(axes, present.items(), strict=True):
        longest: dict[int, float] = {}
        for cell in cells:
            longest[cell.start] = max(longest.get(cell.start, cell.tenths / 10), cell.tenths / 10)
        axis.plot(list(longest), list(longest.values()), ".-", markersize=3, color=COLOURS[kind], linewidth=1)
        axis.axhline(limits[kind], color="#a40000", linestyle="--", linewidth=1)
        axis.set_title(f"{verdict.name(kind)}: longest, and limit (dashed)", loc="left", fontsize=10)
        axis.set(ylabel="s", ylim=(min(0.0, *longest.values()), None))
    axes[-1].set_xlabel("second of the run")
    return figure


def plot_throughput(verdict: Verdict) -> Figure:
    """Plot input tuples and answers per second of the run."""
    figure, (axis,) = make_figure(1, 3.4)
    starts = np.arange(verdict.since // verdict.stretch * verdict.stretch, verdict.until, verdict.stretch)
    lengths = np.minimum(starts + verdict.stretch, verdict.until) - np.maximum(starts, verdict.since)
    axis.plot(starts, _spread_over_stretches(starts, verdict.arrivals) / lengths, color="#5b6570", label="input tuples")
    for kind, cells in _group_cells(verdict).items():
        rates = _spread_over_stretches(starts, ((cell.start, cell.answers) for cell in cells)) / lengths
        axis.plot(starts, rates, color=COLOURS[kind], linewidth=1.2, label=f"{verdict.name(kind)}s")
    axis.set_yscale("symlog", linthresh=1)
    axis.set(xlabel="second of the run", ylabel="per second (log scale)")
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
    return figure


def plot_qos(batches: list[BatchMetrics]) -> Figure:
    """Plot the commit time of each batch, and the capacity left for queries."""
    figure, (times, share) = make_figure(2, 5)
    at = np.array([batch.until for batch in batches])
    took = np.array([batch.commit_ms for batch in batches]) / 1000
    arrived = np.array([batch.until - batch.since for batch in batches])
    times.plot(at, took, color=COLOURS[0], linewidth=1, label="RTC commit time of a batch")
    times.plot(at, arrived, color="#5b6570", linewidth=1, label="seconds of the stream in it")
    times.set(ylabel="s", ylim=(0, None))
    times.legend(frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1))
    share.plot(at, 100 * (1 - np.cumsum(took) / np.cumsum(arrived)), color=COLOURS[2], linewidth=1.5)
    share.axhline(0, color="#a40000", linestyle="--", linewidth=1)
    share.set(xlabel="second of the run", ylabel="query time capacity, %\n(mean so far; stable above 0)")
    return figure


def _spread_over_stretches(starts: npt.NDArray[np.int64], counts: Iterable[tuple[int, int]]) -> npt.NDArray[np.float64]:
    found: dict[int, int] = {}
    for start, count in counts:
        found[start] = found.get(start, 0) + count
    return np.array([found.get(int(start), 0) for start in starts], dtype=np.float64)
