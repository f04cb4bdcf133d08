"""An engine's folder that grows batch by batch on demand: the job's own stages and commits, without Spark."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

from linear_road.delivering import deliver, delivery
from slipstream._feeds.clock import Clock
from slipstream._feeds.run import Run
from slipstream._linear_road.job.toll_layout import ANSWERS, Layout
from slipstream._linear_road.replay import Replay, ReplayReader
from slipstream._linear_road.rules import find_rules
from slipstream._linear_road.state.accounts import Accounts
from slipstream._linear_road.state.past_queries import Past
from slipstream._linear_road.state.toll_fragment import TollFragment
from slipstream._linear_road.tasks.toll_stages import Hop, account_stage, toll_stage
from slipstream._runtime.watching import metrics
from slipstream._tools.logs import append_lines

#: milliseconds after the end of a second at which its answers become visible
DELAY_MS = 800


class Recording:
    """The results of a run, as far as they were committed."""

    def __init__(self, run: Run, out: Path, speed: float = 1.0) -> None:
        self._run, self._out, self._speed = run, out, speed
        checkpoint = out / "checkpoint"
        fixed = {"source": f"run {run.path.name}", "rules": "2004", "lateness": 0}
        Layout.load_or_create(out, 1, {**fixed, "outputs": ANSWERS, "start": "", "until": -1})
        checkpoint.mkdir(parents=True)
        (checkpoint / "clock.json").write_text(json.dumps(asdict(Clock(speed, 0))))
        self._tolls, self._accounts = TollFragment(find_rules("2004")), Accounts(find_rules("2004"), Past(None))
        self._second, self._batch = 0, 0

    def commit(self, seconds: int) -> Recording:
        """Take the next seconds of the run as one batch."""
        end = min(self._second + seconds, self._run.manifest.seconds)
        pace = self._out / "checkpoint" / "pace.json"
        Clock(1.0, round(time.time() * 1000) - end * 1000 - DELAY_MS).write(pace)
        began = time.time()
        hops = account_stage(self._accounts, toll_stage(self._tolls, self._arriving(end), (0,)))
        deliver(delivery(self._out, text=False, clock=pace), self._batch, list(hops))
        took = round((time.time() - began) * 1000)
        measured = metrics.BatchMetrics(self._batch, began, self._second, end, took, {}, 0, "recording")
        append_lines(self._out / metrics.FILE, [asdict(measured)])
        self._second, self._batch = end, self._batch + 1
        return self

    def to_the_end(self, seconds: int) -> Recording:
        """Commit batches until the run is over."""
        while self._second < self._run.manifest.seconds:
            self.commit(seconds)
        return self

    def _arriving(self, end: int) -> list[Hop]:
        replay = Replay(str(self._run.path), self._run.copies, (0,), 0, end, "", 10**6, 1)
        reader = ReplayReader(replay)
        parts = reader.partitions({"second": self._second}, {"second": end})
        batches = [batch for part in parts for batch in reader.read(part)]  # type: ignore[arg-type]
        return [Hop(**row) for batch in batches for row in batch.to_pylist()]
