"""A job without Spark that delivers numbered batches: ``python delivering.py FOLDER BATCHES DESTINATIONS``."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from slipstream._io import outputs
from slipstream._io.outputs import Outputs
from slipstream._io.outputs.destinations import Destinations

JOB = "job-1"
SCHEMAS = {"alerts": pa.schema([("id", pa.int64()), ("road", pa.string())]), "rejects": pa.schema([("l", pa.string())])}


def rows_of(batch: int) -> dict[str, pa.Table]:
    """What a batch delivers; some have nothing for an output."""
    ids = list(range(10 * batch, 10 * batch + (0 if batch == 1 else 3)))
    alerts = pa.table([ids, [f'"{i}", é' if i % 2 else None for i in ids]], schema=SCHEMAS["alerts"])
    rejects = pa.table([[f"line {batch}"]], schema=SCHEMAS["rejects"])
    return {name: table for name, table in (("alerts", alerts), ("rejects", rejects)) if table.num_rows}


def deliver(folder: Path, batches: int, to: Mapping[str, Sequence[str]]) -> None:
    """Deliver all batches from where the folder was left, as Spark would: the last one is repeated."""
    committed = Outputs(folder, JOB, SCHEMAS)
    sending = Destinations(folder, JOB, committed, to)
    for batch in range(max(committed.last_batch, 0), batches):
        written = [outputs.write(folder, name, table, batch) for name, table in rows_of(batch).items()]
        rows = sending.read(written)
        if committed.commit(batch, written, before_journal=lambda _, b=batch, r=rows: sending.send(b, r)):
            sending.show(rows)


if __name__ == "__main__":
    deliver(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
