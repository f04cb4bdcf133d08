"""Shared by results and trips: which batch a moment refers to, and which columns of an output are the user's."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from slipstream._errors import BadArgument
from slipstream._io import outputs
from slipstream._io.outputs import BATCH
from slipstream._io.train_files import TS
from slipstream._network.running import output_results


def batch_at(folder: Path, moment: int | datetime) -> int:
    """Return the last batch that was committed at a moment; -1 before the first."""
    batches = outputs.read_journal(folder)
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return sum(batch.committed_ms <= aware.timestamp() * 1000 for batch in batches) - 1
    if not -1 <= moment < len(batches):
        raise BadArgument(
            f"{folder}: batch {moment} is not committed.", hint=_describe_committed(len(batches)), code="not-kept"
        )
    return moment


def _describe_committed(count: int) -> str:
    """Say which batches there are.

    >>> _describe_committed(0), _describe_committed(1), _describe_committed(4)
    ('No batch is committed yet.', 'Only batch 0 is.', 'Batches 0 to 3 are.')
    """
    return (
        f"Batches 0 to {count - 1} are." if count > 1 else "Only batch 0 is." if count else "No batch is committed yet."
    )


def own_columns(columns: list[str]) -> list[str]:
    """Return the columns of an output that are the user's.

    >>> own_columns(["id", BATCH])
    ['id']
    """
    hidden = {BATCH, TS, *output_results.order_columns(columns)}
    return [name for name in columns if name not in hidden]


def quote_columns(columns: list[str]) -> list[str]:
    """Return names as Spark selects columns of any name.

    >>> quote_columns(["speed (km/h)", "a`b"])
    ['`speed (km/h)`', '`a``b`']
    """
    return ["`" + name.replace("`", "``") + "`" for name in columns]
