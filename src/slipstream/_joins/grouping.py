"""Rows of one key together: what a task reads in order of its keys, in tables that cut no group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slipstream._moving.columns import freeze
from slipstream._tools.numba_tools import Longs


def whole_groups(batches: Iterator[pa.RecordBatch], keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Return the rows in batches of whole groups; equal keys are next to each other."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        cut = _last_group(batch, keys)
        if cut == 0 and held and _key(held[-1], -1, keys) == _key(batch, 0, keys):
            held.append(batch)
            continue
        if ready := [*held, *([batch.slice(0, cut)] if cut else [])]:
            yield _joined(ready)
        held = [batch.slice(cut)]
    if held:
        yield _joined(held)


def offsets(batch: pa.RecordBatch, keys: Sequence[str]) -> Longs:
    """Return where each group begins, and the number of rows."""
    changed = np.zeros(max(0, batch.num_rows - 1), np.bool_)
    for key in keys:
        column = batch.column(key)
        changed |= pc.not_equal(column.slice(1), column.slice(0, batch.num_rows - 1)).to_numpy(zero_copy_only=False)
    found: Longs = np.concatenate(([0], np.flatnonzero(changed) + 1, [batch.num_rows]))
    return freeze(found)


def _last_group(batch: pa.RecordBatch, keys: Sequence[str]) -> int:
    """Return where the last group of a batch begins."""
    return int(offsets(batch, keys)[-2])


def _key(batch: pa.RecordBatch, row: int, keys: Sequence[str]) -> list[Any]:
    return [batch.column(key)[row % batch.num_rows].as_py() for key in keys]


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.concat_batches(batches) if len(batches) > 1 else batches[0]
