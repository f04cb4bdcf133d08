"""Publishing a fragment: what a task writes to the snapshot at the end of a batch.

It writes what the batch changed, the same bytes as in the state store. From time to time it writes the whole fragment,
so that a new reader reads little: it does so when the deltas since the last image exceed its size, so a row is written
twice on average. A fragment that was loaded from the store begins with an image.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from slipstream._cuboid.fragment import EMPTY, Changes, Fragment, decode
from slipstream._cuboid.schema import Schema
from slipstream._cuboid.snapshots import snapshot_files
from slipstream._feeds.text_ids import encode
from slipstream._runtime.state.id_numbers import Names
from slipstream._tools.logs import append_lines
from slipstream._tools.numba_tools import Longs

#: the most deltas between images, and the size in bytes below which they are not limited otherwise
MOST_DELTAS = 50
_SMALL = 1 << 20


class Shown(Protocol):
    """The view of a fragment for readers, if it differs from its rows."""

    @property
    def schema(self) -> Schema:
        """The schema that readers see."""

    def rows(self, held: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
        """The rows that readers see, each key once."""

    def gone(self, forgotten: Longs) -> Longs:
        """The keys that readers no longer see, given the keys of removed rows."""


def publish(
    snapshot: Path,
    name: str,
    number: int,
    batch: int,
    fragment: Fragment,
    shown: Shown | None = None,
    names: Names | None = None,
) -> None:
    """Write the state of a fragment after ``batch``; it is visible when the batch is committed.

    ``names`` has the texts of its keys, if the fragment itself has not.
    """
    folder = snapshot_files.locate_fragment(snapshot, name, number)
    changes = fragment.changes
    names = fragment.names if names is None else names
    if changes is None:
        folder.mkdir(parents=True, exist_ok=True)
        snapshot_files.note_first(folder, batch)
        _publish_image(folder, batch, fragment, shown, names)
        return
    deltas, gone = _find_changes(fragment, changes, shown)
    whole = len(fragment) * fragment.schema.dtype.itemsize + fragment.parts.slots.nbytes
    if not any(deltas) and not gone.size:
        changes.deltas, changes.forgotten = [], []
    elif changes.tail > max(whole, _SMALL) or changes.files >= MOST_DELTAS:
        _publish_image(folder, batch, fragment, shown, names)
    else:
        place = folder / snapshot_files.name_file(batch, snapshot_files.DELTA)
        changes.tail += snapshot_files.write_delta(
            place, deltas, gone, changes.named, _encode_texts(names, changes.named)
        )
        changes.files += 1
        changes.deltas, changes.forgotten, changes.named = [], [], _count(names)


def _find_changes(fragment: Fragment, changes: Changes, shown: Shown | None) -> tuple[list[bytes], Longs]:
    """The changed rows and the removed keys that readers see."""
    forgotten = np.unique(np.concatenate([np.empty(0, np.int64), *changes.forgotten]))
    if shown is None:
        return changes.deltas, np.asarray(forgotten[fragment.find(forgotten) == EMPTY])
    rows = (decode(fragment.schema, delta) for delta in changes.deltas)
    return [shown.rows(part).tobytes() for part in rows], shown.gone(forgotten)


def _publish_image(folder: Path, batch: int, fragment: Fragment, shown: Shown | None, names: Names | None) -> None:
    seen = Fragment.with_rows(shown.schema, shown.rows(fragment.rows)) if shown else fragment
    snapshot_files.write_image(
        folder / snapshot_files.name_file(batch, snapshot_files.IMAGE), seen, _encode_texts(names, 0)
    )
    fragment.changes = Changes(named=_count(names))
    _prune(folder, batch)


def _count(names: Names | None) -> int:
    return len(names.texts) if names is not None else 0


def _encode_texts(names: Names | None, first: int) -> bytes:
    """Encode the names from number ``first`` on."""
    return encode(names.texts.since(first)) if names is not None else b""


def publish_rows(
    snapshot: Path, name: str, number: int, batch: int, schema: Schema, rows: npt.NDArray[np.void]
) -> None:
    """Write all rows of a small cuboid after ``batch``, whose keys are distinct."""
    folder = snapshot_files.locate_fragment(snapshot, name, number)
    folder.mkdir(parents=True, exist_ok=True)
    snapshot_files.note_first(folder, batch)
    snapshot_files.write_image(
        folder / snapshot_files.name_file(batch, snapshot_files.IMAGE), Fragment.with_rows(schema, rows)
    )
    _prune(folder, batch)


def _prune(folder: Path, batch: int) -> None:
    """Remove what is older than the previous image, which is committed, since ``batch`` has begun."""
    before = [image for image in snapshot_files.list_batches(folder, snapshot_files.IMAGE) if image < batch]
    for kind in (snapshot_files.IMAGE, snapshot_files.DELTA):
        for old in snapshot_files.list_batches(folder, kind) if before else ():
            if old < before[-1]:
                (folder / snapshot_files.name_file(old, kind)).unlink(missing_ok=True)


def append_metrics(snapshot: Path, number: int, values: dict[str, Any]) -> None:
    """Append the cost of a fragment's batch; the last of several lines for a batch counts."""
    place = snapshot / "metrics" / f"fragment={number}.jsonl"
    place.parent.mkdir(parents=True, exist_ok=True)
    append_lines(place, [values])
