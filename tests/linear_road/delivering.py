"""Run batches of a job without Spark: its own tasks and commit, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from slipstream._io.named_feeds import CLOCK
from slipstream._io.outputs import CHECKPOINT, Outputs, Written
from slipstream._linear_road import output_tables
from slipstream._linear_road.answer_text import REJECTED, TEXT
from slipstream._linear_road.job.delivery import Delivery, write_batch
from slipstream._linear_road.tasks.toll_stages import Hop

JOB = "a job"


def delivery(out: Path, *, text: bool = True, trips: bool = False, clock: Path | None = None) -> Delivery:
    """What commits the batches of a job in a folder that may have some already."""
    made = Outputs(out, JOB, output_tables.schemas(answers=True, trips=trips))
    return Delivery(out, made, clock or out / CHECKPOINT / CLOCK, (TEXT, REJECTED) if text else ())


def deliver(to: Delivery, batch: int, *tasks: Sequence[Hop]) -> bool:
    """Do a batch: what each task has, written and committed."""
    written: list[Written] = [one for hops in tasks for one in write_batch(to.out, hops, batch, 0)]
    return to.commit(batch, written)
