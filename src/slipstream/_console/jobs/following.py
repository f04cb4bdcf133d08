"""Following a job: its journal and its metrics, read as they grow."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from slipstream._errors import MALFORMED, SlipstreamError
from slipstream._io.outputs import Batch, Tail
from slipstream._linear_road.answers import LIMITS, NAMES
from slipstream._linear_road.job.toll_journal import response_times
from slipstream._linear_road.job.toll_layout import TOLL
from slipstream._network import yaml_files
from slipstream._network.quality.monitor import delay_limits, longest_delays
from slipstream._network.running.run_folder import FILE as NETWORK_FILE
from slipstream._runtime import metrics
from slipstream._runtime.health import TimedBatch, time_batch
from slipstream._tools.strict_json import parse_json

#: batches that the page shows individually
RECENT = 200
#: bytes to read from the end of the metrics for these
_TAIL = 400_000

Costs = Mapping[int, metrics.BatchMetrics]


@dataclass
class FollowedJob:
    """A job as far as it has been read."""

    folder: Path
    kind: str
    tail: Tail
    batches: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    recent: deque[Batch] = field(default_factory=lambda: deque(maxlen=RECENT))
    _costs: Costs = field(default_factory=dict)
    _read: tuple[int, int] = (-1, -1)
    _limits: Mapping[str, float] | None = None

    def read(self) -> None:
        """Read what was committed since the last call."""
        for batch in self.tail.batches():
            self.batches += 1
            self.counts.update(tuples=batch.tuples, rejects=batch.rejects)
            self.recent.append(batch)

    def costs(self) -> Costs:
        """Return the metrics of the last batches by number; for a repeated batch, the latest."""
        with suppress(OSError):
            found = (self.folder / metrics.FILE).stat()
            if (found.st_size, found.st_mtime_ns) != self._read:
                self._read = (found.st_size, found.st_mtime_ns)
                self._costs = _read_costs(self.folder / metrics.FILE)
        return self._costs

    def timed(self, pace: float) -> list[TimedBatch]:
        """Return the recent batches with their costs and response times, without the empty ones of the warm-up."""
        costs, measure = self.costs(), self.measure(pace)
        return [
            time_batch(batch, costs.get(batch.batch), measure(batch))
            for batch in self.recent
            if batch.tuples or batch.outputs
        ]

    def measure(self, pace: float) -> Callable[[Batch], dict[str, float]]:
        """Return the function that gives the longest response times of a batch."""
        if (self.folder / NETWORK_FILE).is_file():
            return longest_delays
        return lambda batch: response_times(batch, pace)

    def limits(self) -> Mapping[str, float]:
        """Return the limits of response times: the benchmark's, or those that a network states."""
        if self._limits is None:
            self._limits = self._read_limits()
        return self._limits

    def _read_limits(self) -> Mapping[str, float]:
        if self.kind == TOLL:
            return dict(zip(NAMES, map(float, LIMITS), strict=True))
        with suppress(SlipstreamError):
            if (self.folder / NETWORK_FILE).is_file():
                return delay_limits(yaml_files.load(self.folder / NETWORK_FILE, unloaded=True))
        return {}


def _read_costs(file: Path) -> Costs:
    with suppress(OSError, *MALFORMED), file.open("rb") as lines:
        lines.seek(max(lines.seek(0, os.SEEK_END) - _TAIL, 0))
        whole = lines.read().rpartition(b"\n")[0].split(b"\n")
        if lines.tell() > _TAIL:
            del whole[0]  # an incomplete line
        found = [metrics.BatchMetrics(**parse_json(line)) for line in whole[-2 * RECENT :] if line]
        return {one.batch: one for one in found}
    return {}
