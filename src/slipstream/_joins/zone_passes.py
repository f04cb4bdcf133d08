"""Who passed which zones, and when: zones go to every task, trips stay where they are.

A tree over the boxes of all zones gives each short piece of a trip the zones that it may touch.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import shapely

from slipstream._joins.grouping import offsets, whole_groups
from slipstream._joins.pieces import replaced
from slipstream._joins.trip_meetings import SLACK, join_touching
from slipstream._moving import types
from slipstream._moving.columns import Lines, MPoints, Periods, Points, check, freeze_all, read, read_unchecked, write
from slipstream._moving.kernels.motion import boxes, runs, split_by_extent
from slipstream._moving.kernels.places import when_inside, when_near

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: the width of pieces, in metres
EXTENT = 500.0
VISIT = ("id", "zone_id")


def passes(trips: DataFrame, zones: DataFrame, reach: float, duration: int) -> DataFrame:
    """Return when objects (``id``, ``Trip``) pass zones (``id``, ``Zone``: regions, or points within ``reach``)."""
    table = zones.where("id IS NOT NULL AND Zone IS NOT NULL").select("id", "Zone").toArrow()
    check(table.column("Zone").combine_chunks())
    kinds = [frame.schema["id"].dataType.simpleString() for frame in (trips, zones)]
    known = trips.select("id", "Trip").where("id IS NOT NULL AND Trip IS NOT NULL")
    visits = known.mapInArrow(
        partial(_to_visits, zones=_pack(table), reach=reach),
        f"id {kinds[0]}, zone_id {kinds[1]}, begin timestamp, end timestamp",
    )
    together = visits.repartition(*VISIT).sortWithinPartitions(*VISIT, "begin")
    return together.mapInArrow(
        partial(_to_passes, duration=duration), f"id {kinds[0]}, zone_id {kinds[1]}, times {types.PERIODS.sql}"
    )


def _pack(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _to_visits(batches: Iterator[pa.RecordBatch], zones: bytes, reach: float) -> Iterator[pa.RecordBatch]:
    table = pa.ipc.open_stream(zones).read_all().combine_chunks()
    ids, places = (table.column(name).combine_chunks() for name in ("id", "Zone"))
    tree = shapely.STRtree(_boxes(read_unchecked(places), reach + SLACK))
    for batch in batches:
        offsets_, parts = split_by_extent(read(batch.column("Trip")), EXTENT)
        owner = np.repeat(np.arange(batch.num_rows), np.diff(offsets_))
        piece, zone = tree.query(shapely.box(*boxes(parts)))
        rows, begin, end = _times(parts, piece, places.take(pa.array(zone)), reach)
        which = np.repeat(np.arange(len(piece)), np.diff(rows))
        piece, zone = piece[which], zone[which]
        over = replaced(parts, owner)[piece] & (begin == end) & (end == parts.t[parts.rows[1:] - 1][piece])
        yield pa.RecordBatch.from_arrays(
            [
                batch.column("id").take(pa.array(owner[piece])),
                ids.take(pa.array(zone)),
                *(write(instants, types.INSTANT_TYPE) for instants in (begin, end)),
            ],
            names=[*VISIT, "begin", "end"],
        ).filter(pa.array(~over))


def _boxes(places: Points | Lines, reach: float) -> np.ndarray[Any, Any]:
    """Return boxes around places; an empty region has an empty one."""
    if isinstance(places, Points):
        found = (places.x, places.y, places.x, places.y)
    else:
        found = boxes(MPoints(places.rows, np.zeros(0, np.int64), places.x, places.y, places.parts, places.starts))
    x0, y0, x1, y1 = found
    grown: np.ndarray[Any, Any] = shapely.box(x0 - reach, y0 - reach, x1 + reach, y1 + reach)
    return np.where(np.isfinite(x0), grown, shapely.Polygon())


def _times(parts: MPoints, piece: np.ndarray[Any, Any], places: pa.Array, reach: float) -> Periods:
    """Return when each piece is at its place."""
    moving = freeze_all(runs(parts, parts.rows[:-1][piece], parts.rows[1:][piece] - 1))
    at = read_unchecked(places)
    return when_near(moving, at, reach, False) if isinstance(at, Points) else when_inside(moving, at, False)


def _to_passes(batches: Iterator[pa.RecordBatch], duration: int) -> Iterator[pa.RecordBatch]:
    for batch in whole_groups(batches, VISIT):
        groups = offsets(batch, VISIT)
        begin, end = (read(batch.column(name)) for name in ("begin", "end"))
        starts, ends = join_touching(groups, begin, end, 1)
        begins = begin[starts[:-1]]
        kept = ends - begins >= duration
        rows = np.concatenate(([0], np.cumsum(kept)))[np.searchsorted(starts, groups)].astype(np.int32)
        times = write(Periods(rows, begins[kept], ends[kept]), types.PERIODS)
        who = batch.select(VISIT).take(pa.array(groups[:-1]))
        found = pa.RecordBatch.from_arrays([*who.columns, times], names=[*VISIT, "times"])
        yield found.filter(pc.greater(pa.array(np.diff(rows)), 0))
