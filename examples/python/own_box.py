"""A box of your own: finds reports that are farther from the vehicle's last one than it can have driven.

A box is a frozen dataclass with a vectorised ``step``: it gets all tuples of a batch as NumPy arrays, and keeps what it
must remember in a ``KeyedTable``, which survives crashes and restarts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import slipstream as ss


@dataclass(frozen=True)
class Jumps(ss.Box):
    """Reports whose ``position`` is more than ``limit`` from the last one of the same vehicle, and by how much."""

    name = "position_jumps"
    limit: int
    id: str = "id"
    position: str = "position"

    @property
    def key(self) -> tuple[str, ...]:
        """Reports of different vehicles never meet, so they can be processed in parallel."""
        return (self.id,)

    def outputs(self, reports: dict[str, str]) -> Mapping[str, dict[str, str]]:
        """A jump has the columns of the report, and the distance."""
        return {"out": {**reports, "jump": "bigint"}}

    def fresh(self, reports: dict[str, str]) -> dict[str, Any]:
        """A row per vehicle with its last position; -1 before its first report."""
        return {"last": ss.KeyedTable({self.id: reports[self.id]}, {"position": ("bigint", -1)})}

    def step(self, state: Mapping[str, Any], reports: ss.Train) -> Mapping[str, ss.Train]:
        """Compare every report with the one before it, and remember it."""
        rows = state["last"].rows(reports.columns)
        before = state["last"].swap("position", rows, reports[self.position])
        jump = np.where(before < 0, 0, np.abs(reports[self.position] - before))
        return {"out": reports.plus(jump=jump).take(jump > self.limit)}


if __name__ == "__main__":
    reports = ss.read("positions.csv")
    ss.Job("out").write(reports.through(Jumps(limit=10_000)), name="jumps").run()
    print(ss.open("out")["jumps"].to_pandas())
