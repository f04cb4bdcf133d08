"""The writing side of a snapshot: what a task does with its fragment at the end of a batch.

It writes what the batch changed, bytes that the state store got already. Now and then it writes the whole fragment, so
that a reader who comes new reads little: when what was written since the last image is larger than that would be, a row
is written twice on average. A fragment that was loaded rather than kept warm begins with an image.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from slipstream.cuboid import files
from slipstream.cuboid.fragment import EMPTY, Changes, Fragment
from slipstream.cuboid.schema import KEY
from slipstream.kernels import Longs
from slipstream.logs import add_lines
from slipstream.staging import appearing

#: deltas between images at most, for small fragments, and the bytes below which an image is not worth a thought
MOST_DELTAS = 50
_SMALL = 1 << 20


def publish(snapshot: Path, name: str, number: int, batch: int, fragment: Fragment) -> None:
    """Write the state of a fragment after ``batch``; it is visible when the batch is committed."""
    folder = files.folder_of(snapshot, name, number)
    changes = fragment.changes
    if changes is None:
        folder.mkdir(parents=True, exist_ok=True)
        _publish_image(folder, batch, fragment)
        return
    if not any(changes.deltas) and not any(keys.size for keys in changes.forgotten):
        changes.deltas, changes.forgotten = [], []
        return
    whole = len(fragment) * fragment.schema.dtype.itemsize + fragment.parts.slots.nbytes
    if changes.tail > max(whole, _SMALL) or changes.files >= MOST_DELTAS:
        _publish_image(folder, batch, fragment)
        return
    gone = _gone(fragment, changes)
    changes.tail += files.write_delta(folder / files.name_of(batch, files.DELTA), changes.deltas, gone)
    changes.files += 1
    changes.deltas, changes.forgotten = [], []


def _gone(fragment: Fragment, changes: Changes) -> Longs:
    """The forgotten keys that have not come back."""
    if not changes.forgotten:
        return np.empty(0, np.int64)
    keys = np.unique(np.concatenate(changes.forgotten))
    return np.asarray(keys[fragment.find(keys) == EMPTY])


def _publish_image(folder: Path, batch: int, fragment: Fragment) -> None:
    files.write_image(folder / files.name_of(batch, files.IMAGE), fragment)
    fragment.changes = Changes()
    _prune(folder, batch)


def _prune(folder: Path, batch: int) -> None:
    """Remove what is older than the image before this one: that one is committed, since ``batch`` has begun."""
    before = [image for image in files.batches_of(folder, files.IMAGE) if image < batch]
    for kind in (files.IMAGE, files.DELTA):
        for old in files.batches_of(folder, kind) if before else ():
            if old < before[-1]:
                (folder / files.name_of(old, kind)).unlink(missing_ok=True)


def publish_results(snapshot: Path, query: str, number: int, batch: int, found: pa.Table) -> None:
    """Write what a continuous query found in a batch."""
    place = snapshot / "results" / query / f"fragment={number}" / files.name_of(batch, files.RESULT)
    if not found.num_rows:
        place.unlink(missing_ok=True)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    with appearing(place) as file:
        pq.write_table(found, file, compression="zstd")


def note_metrics(snapshot: Path, number: int, values: dict[str, Any]) -> None:
    """Add a line on what a batch of a fragment cost; of lines for one batch the last counts."""
    place = snapshot / "metrics" / f"fragment={number}.jsonl"
    place.parent.mkdir(parents=True, exist_ok=True)
    add_lines(place, [values])


def become(fragment: Fragment, rows: npt.NDArray[np.void]) -> None:
    """Make a fragment hold these rows and no others; those that differ count as changed."""
    at = fragment.find(np.ascontiguousarray(rows[KEY]))
    there = np.flatnonzero(at != EMPTY)
    # compared as bytes: NaN equals NaN
    size = rows.dtype.itemsize
    old, new = (part.tobytes() for part in (fragment.parts.rows.take(at[there]), rows.take(there)))
    same = (np.frombuffer(old, np.uint8) == np.frombuffer(new, np.uint8)).reshape(-1, size).all(axis=1)
    changed = np.ones(rows.size, np.bool_)
    changed[there[same]] = False
    if there.size < len(fragment):
        fragment.remove(np.setdiff1d(fragment.rows[KEY], rows[KEY]))
    fragment.put(rows.compress(changed))
    fragment.delta()
