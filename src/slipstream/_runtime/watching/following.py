"""Following a job: its journal and its metrics, read as they grow, by the job itself or by whoever watches it."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from slipstream._errors import MALFORMED
from slipstream._io.outputs import Batch, Tail
from slipstream._runtime.watching import metrics
from slipstream._runtime.watching.health import TimedBatch, time_batch
from slipstream._tools import object_logs
from slipstream._tools.files.remote_paths import RemotePath
from slipstream._tools.strict_json import parse_json

#: batches that are kept individually
RECENT = 200
#: bytes to read from the end of the metrics for these
_TAIL = 400_000

Costs = Mapping[int, metrics.BatchMetrics]
#: the longest response time of each result in a batch, in seconds, given the pace of the job
Measure = Callable[[Batch, float], dict[str, float]]


@dataclass
class FollowedJob:
    """A job as far as it has been read; how late its results are depends on its kind."""

    folder: Path
    measure: Measure
    limits: Mapping[str, float]
    batches: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)  # by output
    recent: deque[Batch] = field(default_factory=lambda: deque(maxlen=RECENT))
    _tail: Tail | None = None
    _costs: Costs = field(default_factory=dict)
    _read: tuple[int, int] = (-1, -1)

    def read(self) -> None:
        """Read what was committed since the last call."""
        self._tail = self._tail or Tail(self.folder)
        for batch in self._tail.batches():
            self.batches += 1
            self.counts.update(tuples=batch.tuples, rejects=batch.rejects)
            self.rows.update(batch.outputs)
            self.recent.append(batch)

    def costs(self) -> Costs:
        """Return the metrics of the last batches by number; for a repeated batch, the latest."""
        with suppress(OSError):
            log = self.folder / metrics.FILE
            if isinstance(log, RemotePath):
                self._costs = _parse_costs(object_logs.read_end(log, _TAIL).splitlines())
                return self._costs
            found = log.stat()
            if (found.st_size, found.st_mtime_ns) != self._read:
                self._read = (found.st_size, found.st_mtime_ns)
                self._costs = _read_costs(log)
        return self._costs

    def timed(self, pace: float) -> list[TimedBatch]:
        """Return the recent batches with their costs and response times, without the empty ones of the warm-up."""
        costs = self.costs()
        return [
            time_batch(batch, costs.get(batch.batch), self.measure(batch, pace))
            for batch in self.recent
            if batch.tuples or batch.outputs
        ]


def _read_costs(file: Path) -> Costs:
    with suppress(OSError, *MALFORMED), file.open("rb") as lines:
        lines.seek(max(lines.seek(0, os.SEEK_END) - _TAIL, 0))
        whole = lines.read().rpartition(b"\n")[0].split(b"\n")
        if lines.tell() > _TAIL:
            del whole[0]  # an incomplete line
        return _parse_costs(whole)
    return {}


def _parse_costs(lines: Sequence[bytes]) -> Costs:
    with suppress(*MALFORMED):
        found = [metrics.BatchMetrics(**parse_json(line)) for line in lines[-2 * RECENT :] if line]
        return {one.batch: one for one in found}
    return {}
