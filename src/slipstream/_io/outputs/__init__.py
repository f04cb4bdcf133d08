"""What jobs write: one Delta Lake table per output, committed together, one batch at a time, exactly once.

    OUT/outputs/NAME/     the table of an output; every row has the number of its batch in the column ``_batch``
    OUT/batches.jsonl     the journal: one line per committed batch

Tasks write Parquet files straight into a table's folder (:func:`write`). No commit names these files yet, so no reader
sees them. The driver learns about them through small rows (:class:`Written`), and :class:`Outputs` commits the batch:
it adds the files to each table in a transaction that carries the job and the batch, does whatever else belongs to the
batch, and appends the journal line last. That line is the commit point. A reader who takes the rows up to the last
batch of the journal (:func:`read`, :func:`frame`, :func:`newest`) sees all outputs as of the same commit.

A batch that is repeated after a crash skips the tables that already have it and deletes its second set of files.
"""

from slipstream._io.outputs.commit import Outputs
from slipstream._io.outputs.committed import (
    CHECKPOINT,
    JOURNAL,
    RESCUE,
    Batch,
    Tail,
    check_journal,
    journal,
    last_batch,
)
from slipstream._io.outputs.files import BATCH, COLUMNS, Row, Written, note, read_written, stored, write
from slipstream._io.outputs.maintenance import COMPACT_EVERY, compact, compacting
from slipstream._io.outputs.reading import frame, names, newest, read, visible
from slipstream._io.outputs.tables import FOLDER, REJECTS

__all__ = [
    "BATCH",
    "CHECKPOINT",
    "COLUMNS",
    "COMPACT_EVERY",
    "FOLDER",
    "JOURNAL",
    "REJECTS",
    "RESCUE",
    "Batch",
    "Outputs",
    "Row",
    "Tail",
    "Written",
    "check_journal",
    "compact",
    "compacting",
    "frame",
    "journal",
    "last_batch",
    "names",
    "newest",
    "note",
    "read",
    "read_written",
    "stored",
    "visible",
    "write",
]
