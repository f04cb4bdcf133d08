"""Where a network's tuples go: tasks write files aside, the driver makes the files of a batch visible as one.

    OUT/staging/                        what tasks have written and nobody sees yet
    OUT/results/batch=N/output=NAME/    what batch N delivered; a batch that is repeated replaces itself
    OUT/points/NAME/                    what connection points and views remember
    OUT/monitor.jsonl                   one line a batch

Between the two goes a row for each output that got something: the file, and what is to be said of its tuples. One more
row says what the batch took; a batch without it was an opening.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from slipstream.failpoints import failpoint
from slipstream.network.algebra import ConnectionPoint, Network
from slipstream.network.monitor import Measured
from slipstream.network.points import History
from slipstream.network.trains import SEQ, TS
from slipstream.network.windows import arrow_array

Array = npt.NDArray[Any]

#: the Spark columns of the word that something was written
COLUMNS = "output string, file string, measured string"
STAGING = "staging"
#: stands for an output in the word that a batch brought something, and how much
TAKEN = ""


@dataclass(frozen=True)
class Tuples:
    """What an output gets in a batch: arrival times, order keys by their names, columns and their types."""

    ts: Array
    keys: Mapping[str, Array]
    columns: Mapping[str, Array]
    types: Mapping[str, str]

    def arrays(self) -> dict[str, pa.Array]:
        """The columns with their nulls."""
        return {name: arrow_array(values, self.types[name]) for name, values in self.columns.items()}


@dataclass(frozen=True)
class Sink:
    """The folder that a network delivers into, as its tasks see it."""

    folder: str
    network: Network

    def write(self, output: str, tuples: Tuples, batch: int) -> tuple[str, str, str]:
        """Write what an output, a point or a tap gets into a file aside; returns a row of ``COLUMNS``."""
        points = {point.name: point for point in self.network.kept}
        values = {o.name: o.quality.value_column for o in self.network.outputs if o.quality.value}
        arrays = tuples.arrays()
        point = points.get(output)
        table = _kept(tuples, arrays, point, batch) if point else _delivered(tuples, arrays, output)
        file = f"{uuid.uuid4().hex}.parquet"
        failpoint("network.before-write")
        pq.write_table(table, Path(self.folder) / STAGING / file)
        measured = Measured.of(tuples.ts, arrays[values[output]] if output in values else None)
        return output, file, json.dumps(asdict(measured))


def _delivered(tuples: Tuples, arrays: Mapping[str, pa.Array], output: str) -> pa.Table:
    struct = pa.StructArray.from_arrays(list(arrays.values()), names=list(arrays))
    return pa.table({"ts": tuples.ts, **tuples.keys, output: struct})


def _kept(tuples: Tuples, arrays: Mapping[str, pa.Array], point: ConnectionPoint, batch: int) -> pa.Table:
    """Tuples as a train, with their arrival numbers at the point; sorted by its key, if it has one."""
    number = np.empty(tuples.ts.size, np.int64)
    number[np.lexsort([*tuples.keys.values()][::-1])] = (batch << 32) + 1 + np.arange(tuples.ts.size)
    table = pa.table({SEQ: number, TS: tuples.ts, **arrays}).sort_by(SEQ)
    return table.sort_by([(point.key, "ascending"), (SEQ, "ascending")]) if point.key else table


def prepare(folder: Path) -> None:
    """Throw away what tasks wrote for batches that never came to be."""
    shutil.rmtree(folder / STAGING, ignore_errors=True)
    (folder / STAGING).mkdir(parents=True)


def commit(folder: Path, histories: Mapping[str, History], files: Mapping[str, Sequence[str]], batch: int) -> None:
    """Make what a batch wrote visible: first what points remember, then the results."""
    failpoint("network.before-points")
    staging = folder / STAGING
    for name, history in histories.items():
        # what is remembered is numbered, so it comes from one task
        _remember(history, batch, staging / files[name][0] if name in files else None)
    shown = {name: [staging / file for file in mine] for name, mine in files.items() if name not in histories}
    _show(folder, shown, batch)
    discard(folder, files)  # what a point remembered before a crash


def discard(folder: Path, files: Mapping[str, Sequence[str]]) -> None:
    """Throw away what a batch wrote."""
    for file in chain.from_iterable(files.values()):
        (folder / STAGING / file).unlink(missing_ok=True)


def _show(folder: Path, files: Mapping[str, Sequence[Path]], batch: int) -> None:
    """Put a batch's files in place as one, so that nobody sees half of them."""
    shown, aside = folder / "results" / f"batch={batch}", folder / STAGING / f"batch={batch}"
    failpoint("network.before-results")
    aside.mkdir()
    for name, mine in files.items():
        (aside / f"output={name}").mkdir()
        for number, file in enumerate(mine):
            file.rename(aside / f"output={name}" / f"part-{number}.parquet")
    failpoint("network.before-show")
    shutil.rmtree(shown, ignore_errors=True)
    shown.parent.mkdir(exist_ok=True)
    aside.rename(shown)
    failpoint("network.after-show")


def _remember(history: History, batch: int, file: Path | None) -> None:
    def put(target: Path) -> int:
        if file is None:
            return 0
        file.rename(target)
        return int(pq.read_metadata(target).num_rows)

    history.add(batch, put)
