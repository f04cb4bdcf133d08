"""The outputs of jobs: one Delta Lake table per output, all committed together, batch by batch, exactly once.

    OUT/outputs/NAME/     the table of an output; every row has the number of its batch in the column ``_batch``
    OUT/batches.jsonl     the journal: one line per committed batch

Tasks write Parquet files straight into a table's folder (:func:`write`). No commit names these files yet, so no reader
sees them. The driver learns about them through small rows (:class:`Written`), and :class:`Outputs` commits the batch:
it adds the files to each table in a transaction with the job and the batch, does whatever else belongs to the batch,
and appends the journal line last. That line is the commit point. A reader who takes the rows up to the last batch of
the journal (:func:`read`, :func:`to_frame`, :func:`read_newest`) sees all outputs as of the same commit.

A batch that is repeated after a crash skips the tables that already have it and deletes its second set of files.
"""

from slipstream._io.outputs.commit import Outputs, check_tables
from slipstream._io.outputs.data_files import (
    BATCH,
    COLUMNS,
    Written,
    WrittenRow,
    note,
    read_written,
    stored_schema,
    write,
)
from slipstream._io.outputs.delta_tables import FOLDER, REJECTS
from slipstream._io.outputs.journal import (
    CHECKPOINT,
    JOURNAL,
    RESCUE,
    Batch,
    Tail,
    check_journal,
    last_batch,
    read_journal,
    text_lengths,
)
from slipstream._io.outputs.maintenance import COMPACT_EVERY, compact, compact_in_background
from slipstream._io.outputs.reading import output_names, read, read_newest, to_frame, visible_files

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
    "Tail",
    "Written",
    "WrittenRow",
    "check_journal",
    "check_tables",
    "compact",
    "compact_in_background",
    "last_batch",
    "note",
    "output_names",
    "read",
    "read_journal",
    "read_newest",
    "read_written",
    "stored_schema",
    "text_lengths",
    "to_frame",
    "visible_files",
    "write",
]
