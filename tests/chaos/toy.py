"""A toll engine without Spark: made-up answers, batch by batch, through the engine's own sink or a broken one.

    python toy.py good|doubling|losing|silent|stubborn toll RUN --out OUT ...

It goes on where its folder says it was, as the real one does. The broken ones are canaries: a harness that lets one
pass is worth nothing.
"""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.errors import BadInput, SlipstreamError
from slipstream.linear_road import sink
from slipstream.linear_road.answers import ANSWER
from slipstream.linear_road.sink import AnswerWriter, Batch, Sink, Written, journal
from slipstream.linear_road.stages import ANSWERS, Hop, to_arrow

BATCHES = 60
PACE_S = 0.05


class Doubling(AnswerWriter):
    """Appends without cutting off what an unfinished commit left."""

    def _commit(self, written: list[Written], batch: int, last: Batch) -> None:
        texts = [(self._out / name).stat().st_size if (self._out / name).exists() else 0 for name in _TEXTS]
        super()._commit(written, batch, replace(last, text_bytes=texts[0], rejects_bytes=texts[1]))


class Losing(AnswerWriter):
    """Takes a batch for done when its text is written, and not when it is in the journal."""

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        done = self._out / "done"
        if not done.exists() or int(done.read_text()) < batchId:
            done.write_text(str(batchId))
            for lost in range(len(journal(self._out)), batchId):
                super().commit([], lost)
            super().commit(messages, batchId)


_TEXTS = (sink.TEXT, sink.REJECTED)
WRITERS: dict[str, type[AnswerWriter]] = {
    "good": AnswerWriter,
    "silent": AnswerWriter,
    "stubborn": AnswerWriter,
    "doubling": Doubling,
    "losing": Losing,
}


def hops(batch: int) -> list[Hop]:
    answers = np.zeros(3, ANSWER)
    answers["kind"], answers["time"], answers["vid"] = 0, batch, [1, 2, 3]
    answers["qid"], answers["a"], answers["b"] = -1, batch, 7
    return [Hop(0, ANSWERS, batch, 0, 3, 0, answers.tobytes())]


def stop(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def run(writer: AnswerWriter, out: Path) -> None:
    done = journal(out)
    first = done[-1].batch + 1 if done else 0
    if isinstance(writer, Losing) and (out / "done").exists():
        first = int((out / "done").read_text()) + 1
    for batch in range(first, BATCHES):
        writer.commit([writer.write(iter([to_arrow(hops(batch))]))], batch)
        time.sleep(PACE_S)


def main() -> int:
    out = Path(sys.argv[sys.argv.index("--out") + 1])
    out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, stop)
    if sys.argv[1] == "silent":
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    try:
        if sys.argv[1] == "stubborn" and journal(out):
            raise BadInput(f"{out}: something is there.", hint="Start afresh.")
        run(WRITERS[sys.argv[1]](Sink(str(out), str(out / "clock.json"))), out)
    except KeyboardInterrupt:
        print("slipstream: stopped.", file=sys.stderr)
        return 130
    except (SlipstreamError, OSError) as error:
        print(f"slipstream: {error}\nMend that and start again.", file=sys.stderr)
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main())
