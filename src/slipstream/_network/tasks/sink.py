"""Writing a network's results: outputs and taps to tables, the histories of connection points and views to trains.

    OUT/outputs/NAME/                   the table of an output, a tap, or the rejects (``_io.outputs``)
    OUT/points/NAME/                    the history of a connection point or a view (``connection_points``)
    OUT/points/NAME/.aside-*.parquet    what a task wrote for it that is not committed yet

An output's columns are those of its schema, preceded by ``batch``, ``_ts`` (the arrival of the tuple, in microseconds),
and the order key ``_q0``, ``_q1``...
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._io import outputs
from slipstream._io.outputs import COLUMNS, Written
from slipstream._io.train_files import TS
from slipstream._network.algebra import ConnectionPoint, Network, Schema
from slipstream._network.boxes.archive import archive_boxes, to_trips
from slipstream._network.boxes.windows.window_functions import ARROW_TYPES, to_arrow
from slipstream._network.quality.monitor import Measured
from slipstream._network.running.connection_points import PointHistory
from slipstream._network.running.train_folder import SEQ
from slipstream._tools.files.locations import to_path
from slipstream._tools.files.remote_paths import arrow_sink

__all__ = [
    "COLUMNS",
    "Sink",
    "Tuples",
    "discard_uncommitted",
    "key_columns",
    "merge_measured",
    "stored_schema",
    "update_histories",
]

Array = npt.NDArray[Any]

_POINTS, _ASIDE = "points", ".aside-"
#: in the note about a point's tuples: the file
_TRAIN = "train"


@dataclass(frozen=True)
class Tuples:
    """The tuples of an output in a batch: arrival times, order keys by name, columns and their types."""

    ts: Array
    keys: Mapping[str, Array]
    columns: Mapping[str, Array]
    types: Mapping[str, str]

    def arrays(self) -> dict[str, pa.Array]:
        """The columns with their nulls."""
        return {name: to_arrow(values, self.types[name]) for name, values in self.columns.items()}


def key_columns(keys: Iterable[str]) -> list[str]:
    """Return the columns in which an order key is stored, in order.

    >>> key_columns(["q0", "q1"])
    ['_q0', '_q1']
    """
    return [f"_{key}" for key in keys]


def stored_schema(schema: Schema, keys: Iterable[str]) -> pa.Schema:
    """Return the stored schema of an output, without the batch."""
    hidden = [(TS, pa.int64()), *((name, pa.int64()) for name in key_columns(keys))]
    return pa.schema(hidden + [(name, ARROW_TYPES[type_]) for name, type_ in schema.items()])


@dataclass(frozen=True)
class Sink:
    """Writes results into the folder of a network, on its tasks."""

    folder: str
    network: Network

    def write(self, output: str, tuples: Tuples, batch: int) -> Written:
        """Write the tuples of an output, a point or a tap in a batch."""
        points = {point.name: point for point in self.network.kept}
        values = {o.name: o.quality.value_column for o in self.network.outputs if o.quality.value}
        arrays = tuples.arrays()
        measured = asdict(Measured.measure(tuples.ts, arrays[values[output]] if output in values else None))
        if output in points:
            file = _write_aside(to_path(self.folder), points[output], _to_train(tuples, arrays, points[output], batch))
            return outputs.note({_TRAIN: file, **measured}, about=output)
        if output in (boxes := archive_boxes(self.network)):
            return outputs.write(to_path(self.folder), output, to_trips(boxes[output], arrays), batch, measured)
        keys = dict(zip(key_columns(tuples.keys), tuples.keys.values(), strict=True))
        return outputs.write(to_path(self.folder), output, pa.table({TS: tuples.ts, **keys, **arrays}), batch, measured)


def _to_train(tuples: Tuples, arrays: Mapping[str, pa.Array], point: ConnectionPoint, batch: int) -> pa.Table:
    """Convert tuples to a train, with their arrival numbers at the point; sorted by its key, if it has one."""
    number = np.empty(tuples.ts.size, np.int64)
    number[np.lexsort([*tuples.keys.values()][::-1])] = (batch << 32) + 1 + np.arange(tuples.ts.size)
    table = pa.table({SEQ: number, TS: tuples.ts, **arrays}).sort_by(SEQ)
    return table.sort_by([(point.key, "ascending"), (SEQ, "ascending")]) if point.key else table


def _write_aside(folder: Path, point: ConnectionPoint, train: pa.Table) -> str:
    place = folder / _POINTS / point.name / f"{_ASIDE}{uuid.uuid4().hex}.parquet"
    place.parent.mkdir(parents=True, exist_ok=True)
    with arrow_sink(place) as sink:
        pq.write_table(train, sink)
    return place.name


def merge_measured(written: Iterable[Written]) -> dict[str, Measured]:
    """Return the measurements of each output, point and tap that got tuples."""
    found: dict[str, list[Measured]] = {}
    for one in written:
        if one.output:
            facts = {name: value for name, value in one.note.items() if name != _TRAIN}
            found.setdefault(one.output, []).append(Measured(**facts))
    return {name: Measured.merge(parts) for name, parts in found.items()}


def update_histories(histories: Mapping[str, PointHistory], written: Iterable[Written], batch: int) -> None:
    """Add the tuples of a batch to the histories of points and views; a batch that they already have is skipped."""
    trains: dict[str, list[Path]] = {name: [] for name in histories}
    for one in written:
        if _TRAIN in one.note:
            trains[one.output].append(histories[one.output].folder / one.note[_TRAIN])
    for name, parts in trains.items():
        histories[name].add(batch, partial(_merge_trains, parts, batch))
        for part in parts:
            part.unlink(missing_ok=True)


def _merge_trains(parts: list[Path], batch: int, target: Path) -> int:
    """Merge what the tasks of a batch wrote into one train; returns the number of its tuples."""
    if not parts:
        return 0
    if len(parts) == 1:
        parts[0].rename(target)
        return int(pq.read_metadata(target).num_rows)
    table = pa.concat_tables([pq.read_table(part) for part in parts])
    numbers = pa.array((batch << 32) + 1 + np.arange(table.num_rows))
    pq.write_table(table.set_column(0, SEQ, numbers), target)
    return int(table.num_rows)


def discard_uncommitted(folder: Path) -> None:
    """Delete what tasks wrote for points in batches that were never committed."""
    for file in (folder / _POINTS).glob(f"*/{_ASIDE}*"):
        file.unlink(missing_ok=True)
