"""Plot a run: its rate, its vehicles, its speeds by place and time with the accidents, its requests.

Colours are suitable for colour-blind readers (Okabe and Ito for lines, cividis for speed): light where traffic flows,
dark where it stands.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from slipstream._city.character import PUBLISHED_RATES, PUBLISHED_SPEEDS, PUBLISHED_VEHICLES, Character, characterise
from slipstream._feeds.run import MINUTE, Run
from slipstream._feeds.tuples import MILE, REPORT_EVERY, SEGMENTS
from slipstream._spark import session
from slipstream._tools.numba_tools import Floats

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INK, FAINT, PAPER = "#262626", "#8c8c8c", "#e6e6e6"
BLUE, VERMILLION = "#0072B2", "#D55E00"
MIX_COLOURS = {"balance": "#0072B2", "travel_time": "#56B4E9", "expenditure": "#E69F00"}
DIRECTIONS = ("Eastbound", "Westbound")
#: mph; a shared scale makes pictures of different runs comparable
TOP_SPEED = 70

STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}


class Picture(Figure):
    """A figure that a notebook displays."""

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png")
        return out.getvalue()


def show(run: Run, spark: SparkSession | None = None, *, xway: int | None = None) -> Picture:
    """Draw a run, for a notebook."""
    return draw(characterise(run, spark or session.build(), xway=xway))


def draw(character: Character) -> Picture:
    """Draw the character of a run."""
    from matplotlib import rc_context

    directions = character.directions
    with rc_context(STYLE):
        figure = Picture(figsize=(11, 4.2 + 2.7 * len(directions)), dpi=150, layout="constrained")
        figure.get_layout_engine().set(h_pad=0.08, w_pad=0.08, hspace=0.04)  # type: ignore[union-attr, call-arg]
        figure.suptitle(_format_title(character), x=0.012, ha="left", fontsize=10, color=INK)
        grid = figure.add_gridspec(2 + len(directions), 3, height_ratios=[2.1, *[2.7] * len(directions), 0.55])
        _draw_lines([figure.add_subplot(grid[0, place]) for place in range(3)], character)
        maps = [figure.add_subplot(grid[1 + place, :]) for place in range(len(directions))]
        _draw_speed_maps(figure, maps, character)
        _draw_mix(figure.add_subplot(grid[-1, :]), character)
    return figure


def _format_title(character: Character) -> str:
    manifest = character.run.manifest
    count = f"{character.expressways:g} expressway{'s' if character.expressways != 1 else ''}"
    parts = [
        f"{sum(manifest.counts.values()):,} tuples",
        count + (f" ({character.run.stored} stored, {manifest.multiply} times)" if manifest.multiply > 1 else ""),
        f"{manifest.seconds / MINUTE:.3g} minutes",
        manifest.source,
        *([f"seed {manifest.seed}"] if manifest.seed is not None else []),
    ]
    return f"$\\bf{{{_escape(character.run.path.resolve().name)}}}$\n" + "  ·  ".join(parts)


def _escape(name: str) -> str:
    """Escape a name for matplotlib's bold titles."""
    return "".join(c if c.isalnum() else rf"\{c}" if c in "_#$%&" else "{-}" if c == "-" else c for c in name)


# lines over time


def _draw_lines(axes: list[Axes], character: Character) -> None:
    seconds, length = character.seconds, character.run.manifest.seconds
    width = _choose_bin(length)
    bins = -(-length // width)
    covered = np.minimum(width, length - width * np.arange(bins))
    minutes = (width * np.arange(bins) + covered / 2) / MINUTE
    tuples, reports, speed = (
        seconds.sum_by_bin(values, width, bins) for values in (seconds.tuples, seconds.reports, seconds.speed)
    )
    copies = character.run.copies
    _plot_line(axes[0], minutes, copies * tuples / covered, "Tuples per second", length)
    _plot_line(axes[1], minutes, copies * reports * REPORT_EVERY / covered, "Vehicles on the road", length)
    with np.errstate(invalid="ignore"):
        _plot_line(axes[2], minutes, speed / reports, "Mean speed (mph)", length)
    if character.standard:
        _mark_published(axes, character)


def _choose_bin(length: int) -> int:
    """Return the seconds per point of a line: a multiple of the report interval, to avoid ripples; about 180 points."""
    return 5 if length < 4 * REPORT_EVERY else REPORT_EVERY * max(1, length // (180 * REPORT_EVERY))


def _plot_line(axes: Axes, minutes: Floats, values: Floats, title: str, length: int) -> None:
    axes.set_title(title)
    axes.plot(minutes, values, color=BLUE, linewidth=1.4)
    axes.fill_between(minutes, values, color=BLUE, alpha=0.12, linewidth=0)
    axes.set_xlim(0, length / MINUTE)
    axes.set_ylim(0, None)
    axes.margins(y=0.12)
    axes.set_xlabel("minute of the run")
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(axis="y", color=PAPER, linewidth=0.8)
    axes.set_axisbelow(True)


def _mark_published(axes: list[Axes], character: Character) -> None:
    """Mark the published figures as rings, where this run reaches their time."""
    scaled = character.expressways
    points = (
        (axes[0], [(start, end, value * scaled) for start, end, value in PUBLISHED_RATES]),
        (axes[1], [(*PUBLISHED_VEHICLES[:2], PUBLISHED_VEHICLES[2] * scaled)]),
        (axes[2], list(PUBLISHED_SPEEDS)),
    )
    for place, marks in points:
        reached = [
            ((start + end) / 2 / MINUTE, value) for start, end, value in marks if end <= character.run.manifest.seconds
        ]
        if reached:
            ring: dict[str, Any] = {"markerfacecolor": "white", "markeredgewidth": 1.5, "clip_on": False, "zorder": 3}
            x, y = zip(*reached, strict=True)
            place.plot(x, y, "o", color=VERMILLION, markersize=6, label="published run", **ring)
            place.set_ylim(0, max(place.get_ylim()[1], 1.1 * max(y)))
            place.legend(frameon=False, fontsize=8, handletextpad=0.2, borderpad=0.2)


# speed by place and time


def _draw_speed_maps(figure: Figure, maps: list[Axes], character: Character) -> None:
    colours = colormaps["cividis"].with_extremes(bad=PAPER)
    last = character.run.manifest.seconds / MINUTE
    for axes, direction in zip(maps, character.directions, strict=True):
        speeds = character.speeds[direction]
        end = speeds.shape[1] * character.speed_bin / MINUTE
        image = axes.imshow(
            speeds, origin="lower", aspect="auto", cmap=colours, vmin=0, vmax=TOP_SPEED, extent=(0, end, 0, SEGMENTS)
        )
        axes.set_xlim(0, last)
        axes.set_title(f"{DIRECTIONS[direction]} mean speed, expressway {character.xway}")
        axes.set_ylabel("segment (mile)")
        axes.spines[:].set_visible(False)
        _mark_accidents(axes, character, direction)
    if maps:
        maps[-1].set_xlabel("minute of the run")
        bar = figure.colorbar(image, ax=maps, pad=0.01, aspect=35, extend="max")
        bar.set_label("mph (grey: no reports)")
        bar.outline.set_visible(False)


def _mark_accidents(axes: Axes, character: Character, direction: int) -> None:
    """Draw a line for as long as the road was blocked, with a cross at the start."""
    label: str | None = "accident, until cleared"
    for accident in character.accidents:
        if accident.dir != direction:
            continue
        place = accident.pos / MILE
        # -1: not cleared before the end of the run
        end = accident.cleared if accident.cleared >= 0 else character.run.manifest.seconds
        span = [accident.stopped / MINUTE, end / MINUTE]
        axes.plot(span, [place, place], color="white", linewidth=4, solid_capstyle="butt")
        axes.plot(span, [place, place], color=VERMILLION, linewidth=2, solid_capstyle="butt", label=label)
        cross: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.8, "zorder": 4, "clip_on": False}
        axes.plot(span[0], place, "X", color=VERMILLION, markersize=8, **cross)
        label = None
    if label is None:
        axes.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, fontsize=8, borderpad=0, ncols=1)


# requests


def _draw_mix(axes: Axes, character: Character) -> None:
    """Draw one bar, divided by kind of request."""
    counts = character.run.manifest.counts
    total = sum(counts[name] for name in MIX_COLOURS)
    reports = max(1, counts["position"])
    axes.set_title(f"Requests: {total:,}, {100 * total / reports:.2f} % of the reports")
    axes.set_axis_off()
    axes.set_xlim(0, 1)
    left = 0.0
    for name, colour in MIX_COLOURS.items():
        share = character.mix.get(name, 0.0)
        axes.barh(0, share, left=left, color=colour, height=0.6, edgecolor="white")
        if share:
            axes.text(
                left + 0.004, -0.36, f"{name.replace('_', ' ')} {100 * share:.1f} %", va="top", fontsize=8, color=INK
            )
        left += share
    axes.set_ylim(-1.0, 0.32)
