"""What every batch took: arrival rate, commit time and the capacity left, as real-time consistency wants them known.

A batch is consistent in real time when all it changed is committed before the next one needs it. Its commit time is the
time from its trigger to its commit; the query time capacity is what is left of the time in which its tuples arrived.
The stream is stable while that is not negative on average.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FILE = "metrics.jsonl"


@dataclass(frozen=True)
class BatchMetrics:
    """One batch: the seconds of the run it took in, and what it cost."""

    batch: int
    since: int
    until: int
    commit_ms: int
    phases_ms: dict[str, int]
    state_bytes: int

    @classmethod
    def of(cls, progress: dict[str, Any]) -> BatchMetrics:
        """From Spark's own account of a batch."""
        since, until = (_second(progress["sources"][0][name]) for name in ("startOffset", "endOffset"))
        operators = progress["stateOperators"]
        phases = {name: int(ms) for name, ms in progress["durationMs"].items()}
        state = sum(int(operator["customMetrics"].get("rocksdbSstFileSize", 0)) for operator in operators)
        return cls(int(progress["batchId"]), since, until, phases.pop("triggerExecution", 0), phases, state)


def _second(offset: Any) -> int:
    """The second in a source's offset, -1 where there is none."""
    body = json.loads(offset) if isinstance(offset, str) else offset
    return int(body.get("second", -1)) if isinstance(body, dict) else -1


class Recorder:
    """Appends the metrics of a query's batches to a file, as Spark reports them."""

    def __init__(self, out: Path) -> None:
        self._file = out / FILE
        self._last = -1

    def record(self, progress: dict[str, Any]) -> None:
        """Write a batch if it is new and had something to do."""
        if progress["batchId"] > self._last and "addBatch" in progress["durationMs"]:
            self._last = progress["batchId"]
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(BatchMetrics.of(progress))) + "\n")


def read(out: Path) -> list[BatchMetrics]:
    """The metrics of a run; a last line that was cut short does not count."""
    file = out / FILE
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return [BatchMetrics(**json.loads(line)) for line in text.splitlines(keepends=True) if line.endswith("\n")]
