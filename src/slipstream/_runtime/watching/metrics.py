"""The cost of every batch: ``OUT/metrics.jsonl``, one line per batch, from Spark's progress reports.

A batch is consistent in real time when all it changed is committed before the next one needs it. Its commit time is the
time from its trigger to its commit; for a recorded run, the seconds of the run that the batch processed are known too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream._tools.logs import append_lines, read_lines
from slipstream._tools.processes.background import Ended, background_task

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

FILE = "metrics.jsonl"
#: seconds between polls of a query; Spark remembers its last hundred batches
_EVERY = 2.0


@dataclass(frozen=True)
class BatchMetrics:
    """One batch: when it began, the seconds of the run it processed (-1 for other sources), and what it cost."""

    batch: int
    start: float  # seconds of the Unix clock
    since: int  # the second of the run at which it begins
    until: int  # the second before which it ends
    commit_ms: int  # from trigger to commit
    phases_ms: dict[str, int]  # the parts of that time, by Spark's names
    state_bytes: int  # in RocksDB's files and memory, over all operators
    run: str  # the id of this start of the query
    stages_ms: dict[str, int] = field(default_factory=dict)  # time in each stateful operator, summed over its tasks

    @classmethod
    def from_progress(cls, progress: dict[str, Any], stages: Sequence[str] = ()) -> BatchMetrics:
        """Convert Spark's progress report of a batch; ``stages`` are the operators of the query from source to sink."""
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
            state_bytes=sum(map(_count_stored, operators)),
            run=str(progress["runId"]),
            stages_ms=_time_stages(operators, stages),
        )


def _count_stored(operator: dict[str, Any]) -> int:
    """Bytes of an operator's state, in RocksDB's files and memory."""
    return int(operator["customMetrics"].get("rocksdbSstFileSize", 0)) + int(operator["memoryUsedBytes"])


def _time_stages(operators: list[dict[str, Any]], stages: Sequence[str]) -> dict[str, int]:
    """The time in each stage; empty if the stages are not known."""
    if len(operators) != len(stages):
        return {}
    # Spark lists operators from the sink to the source
    pairs = zip(stages, reversed(operators), strict=True)
    return {name: int(one["allUpdatesTimeMs"]) + int(one["commitTimeMs"]) for name, one in pairs}


def _second(offset: Any) -> int:
    """The second in a source's offset, or -1 if it has none."""
    body = json.loads(offset) if isinstance(offset, str) else offset
    return int(body.get("second", -1)) if isinstance(body, dict) else -1


@contextmanager
def record_metrics(query: StreamingQuery, out: Path, stages: Sequence[str] = ()) -> Iterator[None]:
    """Record the query's batches while the block runs, and once more at its end."""
    recorder = _Recorder(query, out / FILE, stages)

    def watch(ended: Ended) -> None:
        while not ended.wait(_EVERY):
            recorder.write_new()

    try:
        with background_task(watch):
            yield
    finally:
        recorder.write_new()


class _Recorder:
    def __init__(self, query: StreamingQuery, file: Path, stages: Sequence[str]) -> None:
        self._query, self._file, self._stages, self._last = query, file, stages, -1

    def write_new(self) -> None:
        """Write new batches that had work to do; a full disk or a dead JVM is reported elsewhere."""
        from py4j.protocol import Py4JError

        with suppress(OSError, Py4JError):
            self._write()

    def _write(self) -> None:
        found = [json.loads(progress.json) for progress in self._query.recentProgress]
        fresh = [one for one in found if one["batchId"] > self._last and "addBatch" in one["durationMs"]]
        if fresh:
            self._last = fresh[-1]["batchId"]
            append_lines(self._file, [asdict(BatchMetrics.from_progress(one, self._stages)) for one in fresh])


def read(out: Path) -> list[BatchMetrics]:
    """Read the metrics of a job; a truncated last line is ignored."""
    return [BatchMetrics(**line) for line in read_lines(out / FILE)]
