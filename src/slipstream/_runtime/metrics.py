"""What every batch took: ``OUT/metrics.jsonl``, one line a batch, from Spark's own account of a running query.

A batch is consistent in real time when all it changed is committed before the next one needs it. Its commit time is the
time from its trigger to its commit; of a recorded run it is also known which of its seconds the batch took in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream._tools.background import Ended, beside
from slipstream._tools.logs import add_lines, whole_lines

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

FILE = "metrics.jsonl"
#: seconds between looks at a query; Spark remembers its last hundred batches
_EVERY = 2.0


@dataclass(frozen=True)
class BatchMetrics:
    """One batch: when it began, the seconds of the run it took in (-1 of a source without), and what it cost."""

    batch: int
    start: float  # seconds of the Unix clock
    since: int  # the second of the run at which it begins
    until: int  # the second at which it ends, not included
    commit_ms: int  # from trigger to commit
    phases_ms: dict[str, int]  # where that went, in Spark's words
    state_bytes: int  # in RocksDB's files and its memory, over all operators
    run: str  # one start of the query

    @classmethod
    def of(cls, progress: dict[str, Any]) -> BatchMetrics:
        """From Spark's own account of a batch."""
        since, until = (_second(progress["sources"][0][name]) for name in ("startOffset", "endOffset"))
        operators = progress["stateOperators"]
        phases = {name: int(ms) for name, ms in progress["durationMs"].items()}
        return cls(
            batch=int(progress["batchId"]),
            start=datetime.fromisoformat(progress["timestamp"]).timestamp(),
            since=since,
            until=until,
            commit_ms=phases.pop("triggerExecution", 0),
            phases_ms=phases,
            state_bytes=sum(map(_stored, operators)),
            run=str(progress["runId"]),
        )


def _stored(operator: dict[str, Any]) -> int:
    """Bytes of an operator's state: in RocksDB's files, and in its memory on the way there."""
    return int(operator["customMetrics"].get("rocksdbSstFileSize", 0)) + int(operator["memoryUsedBytes"])


def _second(offset: Any) -> int:
    """The second in a source's offset, -1 where there is none."""
    body = json.loads(offset) if isinstance(offset, str) else offset
    return int(body.get("second", -1)) if isinstance(body, dict) else -1


@contextmanager
def recorded(query: StreamingQuery, out: Path) -> Iterator[None]:
    """While the block runs, and once more at its end, note what the query's batches took."""
    recorder = _Recorder(query, out / FILE)

    def watch(ended: Ended) -> None:
        while not ended.wait(_EVERY):
            recorder.note()

    try:
        with beside(watch):
            yield
    finally:
        recorder.note()


class _Recorder:
    def __init__(self, query: StreamingQuery, file: Path) -> None:
        self._query, self._file, self._last = query, file, -1

    def note(self) -> None:
        """Write the batches that are new and had something to do; a full disk or a dead JVM is for others to tell."""
        from py4j.protocol import Py4JError

        with suppress(OSError, Py4JError):
            self._write()

    def _write(self) -> None:
        found = [json.loads(progress.json) for progress in self._query.recentProgress]
        fresh = [one for one in found if one["batchId"] > self._last and "addBatch" in one["durationMs"]]
        if fresh:
            self._last = fresh[-1]["batchId"]
            add_lines(self._file, [asdict(BatchMetrics.of(one)) for one in fresh])


def read(out: Path) -> list[BatchMetrics]:
    """The metrics of a run; a last line that was cut short does not count."""
    return [BatchMetrics(**line) for line in whole_lines(out / FILE)]
