"""A toll job without Spark: made-up answers, batch by batch, through the job's own commit or a broken one.

    python toy.py good|doubling|losing|silent|stubborn toll RUN --out OUT ...

It goes on where its folder says it was, as the real one does. The broken ones are canaries: a harness that lets one
pass is worth nothing.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slipstream._errors import BadInput, SlipstreamError
from slipstream._io.outputs import Outputs, Written
from slipstream._linear_road import output_tables
from slipstream._linear_road.answers import ANSWER
from slipstream._linear_road.job.delivery import Delivery, write_batch
from slipstream._linear_road.job.toll_journal import read_journal
from slipstream._linear_road.tasks.toll_stages import ANSWERS, REJECTS, Hop

BATCHES = 40
PACE_S = 0.05


class Doubling(Delivery):
    """Commits whatever a crash left of the batch before: it does not ask the tables whether they have it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for table in self.outputs._tables.values():
            table.last_batch = lambda _: -1  # type: ignore[method-assign]


class Losing(Delivery):
    """Takes a batch for done when its commit begins, and not when it is in the journal."""

    def commit(self, batch: int, written: Sequence[Written]) -> bool:
        done = self.out / "done"
        if done.exists() and int(done.read_text()) >= batch:
            return False
        done.write_text(str(batch))
        for lost in range(len(read_journal(self.out)), batch):
            super().commit(lost, [])
        return super().commit(batch, written)


DELIVERIES: dict[str, type[Delivery]] = {
    "good": Delivery,
    "silent": Delivery,
    "stubborn": Delivery,
    "doubling": Doubling,
    "losing": Losing,
}


def delivery(kind: type[Delivery], out: Path) -> Delivery:
    return kind(out, Outputs(out, "toy", output_tables.schemas(answers=True, trips=False)), out / "clock.json")


def hops(batch: int) -> list[Hop]:
    answers = np.zeros(3, ANSWER)
    answers["kind"], answers["time"], answers["vid"] = [0, 0, 1], batch, [1, 2, 3]
    answers["qid"], answers["a"], answers["b"] = -1, batch, [7, 7, -1]
    return [
        Hop(0, ANSWERS, batch, 0, 3, 0, answers.tobytes()),
        Hop(0, REJECTS, batch, 0, 1, 0, f"late,{batch}\n".encode()),
    ]


def stop(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def run(to: Delivery) -> None:
    first = to.outputs.last_batch + 1
    if isinstance(to, Losing) and (to.out / "done").exists():
        first = int((to.out / "done").read_text()) + 1
    for batch in range(first, BATCHES):
        to.commit(batch, list(write_batch(to.out, hops(batch), batch, 0)))
        time.sleep(PACE_S)


def main() -> int:
    out = Path(sys.argv[sys.argv.index("--out") + 1])
    out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, stop)
    if sys.argv[1] == "silent":
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    try:
        if sys.argv[1] == "stubborn" and read_journal(out):
            raise BadInput(f"{out}: something is there.", hint="Start afresh.")
        run(delivery(DELIVERIES[sys.argv[1]], out))
    except KeyboardInterrupt:
        print("slipstream: stopped.", file=sys.stderr)
        return 130
    except (SlipstreamError, OSError) as error:
        print(f"slipstream: {error}\nMend that and start again.", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
