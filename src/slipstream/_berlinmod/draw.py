"""Plot a data set: the network, trips, the input of a query, and its result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstream._berlinmod import queries
from slipstream._berlinmod.dataset import Dataset
from slipstream._errors import BadArgument
from slipstream._moving.columns import Lines, MPoints, read
from slipstream._roads.street_network import StreetNetwork
from slipstream._tools.numba_tools import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession

STREETS, TRIPS, INPUT, RESULT = "#c9ccd1", "#4878a8", "#c0392b", "#e67e22"
PICTURES = (".png", ".svg", ".pdf")
_WIDTHS = {30.0: 0.35, 50.0: 0.7, 70.0: 1.4}


def draw_network(axes: Axes, network: StreetNetwork) -> None:
    """Draw streets; faster ones are bolder."""
    from matplotlib.collections import LineCollection

    lines = [
        np.c_[network.shape_x[a:b], network.shape_y[a:b]]
        for a, b in zip(network.shape[:-1], network.shape[1:], strict=True)
    ]
    one_way = network.source < network.target
    widths = [_WIDTHS.get(v, 0.7) for v in network.vmax[one_way].tolist()]
    chosen = [line for line, keep in zip(lines, one_way, strict=True) if keep]
    axes.add_collection(LineCollection(chosen, linewidths=widths, colors=STREETS, zorder=1))
    axes.autoscale_view()


def draw_movements(axes: Axes, movements: MPoints, color: str, width: float, zorder: int) -> None:
    """Draw the paths of moving points; a place without movement is a dot."""
    from matplotlib.collections import LineCollection

    lines: list[Floats] = []
    dots: list[Floats] = []
    for row in range(len(movements.rows) - 1):
        bounds = [*movements.starts[movements.parts[row] : movements.parts[row + 1]].tolist()]
        first, last = int(movements.rows[row]), int(movements.rows[row + 1])
        for a, b in zip(bounds, [*bounds[1:], last - first], strict=True):
            path = np.c_[movements.x[first + a : first + b], movements.y[first + a : first + b]]
            (lines if np.ptp(path, axis=0).any() else dots).append(path)
    axes.add_collection(LineCollection(lines, linewidths=width, colors=color, alpha=0.6, zorder=zorder))
    if dots:
        places = np.concatenate([dot[:1] for dot in dots])
        axes.plot(places[:, 0], places[:, 1], ".", color=color, markersize=2, alpha=0.5, zorder=zorder)
    axes.autoscale_view()


def draw_regions(axes: Axes, regions: Lines, color: str) -> None:
    """Draw outlines of regions, lightly filled."""
    for row in range(len(regions.rows) - 1):
        a, b = regions.rows[row], regions.rows[row + 1]
        axes.fill(regions.x[a:b], regions.y[a:b], facecolor=color, edgecolor=color, alpha=0.25, zorder=4)


def _column(spark: SparkSession, sql: str) -> Any:
    """Return the first column of a query's result as NumPy arrays; None if it has no rows."""
    table = spark.sql(sql).toArrow()
    return read(table.column(0).combine_chunks()) if table.num_rows else None


def _draw_input(axes: Axes, spark: SparkSession, text: str) -> None:
    """Draw the points and regions that a query uses; all of them without a query."""
    few = "1" if "QueryPoints1" in text or "Id <= 10" in text else ""
    points = _column(spark, f"SELECT Pos FROM QueryPoints{few}")
    if points is not None and (not text or "Point" in text):
        axes.plot(points.x, points.y, "o", color=INPUT, markersize=4, zorder=5, label="query points")
    regions = _column(spark, f"SELECT Region FROM QueryRegions{'1' if text else ''}")
    if regions is not None and (not text or "Region" in text):
        draw_regions(axes, regions, INPUT)


def _draw_result(axes: Axes, spark: SparkSession, number: int) -> int:
    """Draw the result of a query: its places and movements, or the trips of the vehicles it returns."""
    answer = queries.query(spark, number, "tba")
    answer.createOrReplaceTempView("answer")
    fields = {field.name: field.dataType.simpleString() for field in answer.schema}
    if fields.get("Pos", "").startswith("struct<x"):
        places = _column(spark, "SELECT Pos FROM answer")
        if places is not None:
            axes.plot(places.x, places.y, "*", color=RESULT, markersize=9, zorder=6, label="result")
    elif "Pos" in fields:
        meetings = _column(spark, "SELECT Pos FROM answer")
        if meetings is not None:
            draw_movements(axes, meetings, RESULT, 2.0, 6)
    else:
        names = [f"SELECT {name} AS Licence FROM answer" for name in fields if name.startswith("Licence")]
        if names:
            who = " UNION ".join(names)
            sql = f"SELECT T.Trip FROM dataMtrip T WHERE T.Licence IN ({who}) LIMIT 300"
            paths = _column(spark, sql)
            if paths is not None:
                draw_movements(axes, paths, RESULT, 0.8, 3)
    return answer.count()


def check_picture(out: Path) -> None:
    """Reject a file name without the extension of a picture."""
    if out.suffix not in PICTURES:
        raise BadArgument(
            f"--out {out}: not a picture.",
            hint=f"Use one of the extensions {', '.join(PICTURES)}.",
            code="wrong-file-type",
        )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def picture(spark: SparkSession, data: Dataset, *, query: int | None = None, trips: int = 200) -> Figure:
    """Draw the figure; a notebook displays it."""
    from slipstream._city.picture import Picture

    figure = Picture(figsize=(10, 9), layout="constrained")
    axes = figure.add_subplot()
    if (network := data.network()) is not None:
        draw_network(axes, network)
    moving = _column(
        spark, f"SELECT Trip FROM dataMtrip WHERE size(Trip.t) > 2 ORDER BY TripId % 997, TripId LIMIT {trips}"
    )
    if query is None and moving is not None:
        draw_movements(axes, moving, TRIPS, 0.7, 2)
    _draw_input(axes, spark, queries.query_text(query, "tba") if query else "")
    title = f"{_count(data.manifest.vehicles, 'vehicle')}, {_count(data.manifest.trips, 'trip')}"
    if query is not None:
        rows = _draw_result(axes, spark, query)
        title = f"{queries.query_text(query, 'tba').splitlines()[0].removeprefix('-- ')} ({_count(rows, 'row')})"
    axes.set_title(title, loc="left", fontsize=10, wrap=True)
    axes.set_aspect("equal")
    axes.set_xlabel("metres east")
    axes.set_ylabel("metres north")
    return figure
