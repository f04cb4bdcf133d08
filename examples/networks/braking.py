"""A box of your own: vehicles that brake hard, and those that pick up speed again.

    slipstream network run examples/networks/braking.yaml --functions examples/networks/braking.py \\
        --input reports=examples/networks/braking.csv --out runs/braking
"""

from __future__ import annotations

from dataclasses import dataclass

import slipstream as ss


@ss.udf.box
@dataclass(frozen=True)
class Braking(ss.Box):
    """Reports of vehicles that are slower or faster by more than ``by`` than in their report before."""

    name = "braking"
    ports = ("slower", "faster")
    by: int = 20

    @property
    def key(self) -> tuple[str, ...]:
        """Vehicles know nothing of each other."""
        return ("vid",)

    def outputs(self, reports: dict[str, str]) -> dict[str, dict[str, str]]:
        """The reports, with the speed before."""
        ss.udf.require(reports, "vid")
        ss.udf.require(reports, "speed", "bigint")
        return {port: {**reports, "before": "bigint"} for port in self.ports}

    def fresh(self, reports: dict[str, str]) -> dict[str, ss.KeyedTable]:
        """The last speed of each vehicle; -1 before its first report."""
        return {"cars": ss.KeyedTable({"vid": reports["vid"]}, {"speed": ("bigint", -1)})}

    def step(self, state: dict[str, ss.KeyedTable], reports: ss.Train) -> dict[str, ss.Train]:
        """Compare each report with the one before it."""
        rows = state["cars"].rows(reports.columns)
        before = state["cars"].swap("speed", rows, reports["speed"])
        told, change = reports.plus(before=before), reports["speed"] - before
        known = before >= 0
        return {"slower": told.take(known & (change < -self.by)), "faster": told.take(known & (change > self.by))}
