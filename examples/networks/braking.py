"""A box of your own: vehicles that brake hard, and those that pick up speed again.

    slipstream network run examples/networks/braking.yaml --functions examples/networks/braking.py \\
        --input reports=examples/networks/braking.csv --out runs/braking
"""

from __future__ import annotations

from dataclasses import dataclass

from slipstream._network import KeyedTable, Operator, Train, register, require


@register
@dataclass(frozen=True)
class Braking(Operator):
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
        require(reports, "vid")
        require(reports, "speed", "integer")
        return {port: {**reports, "before": "integer"} for port in self.ports}

    def fresh(self, reports: dict[str, str]) -> dict[str, KeyedTable]:
        """The last speed of each vehicle; -1 before its first report."""
        return {"cars": KeyedTable({"vid": reports["vid"]}, {"speed": ("integer", -1)})}

    def step(self, state: dict[str, KeyedTable], reports: Train) -> dict[str, Train]:
        """Compare each report with the one before it."""
        rows = state["cars"].rows(reports.columns)
        before = state["cars"].swap("speed", rows, reports["speed"])
        told, change = reports.plus(before=before), reports["speed"] - before
        known = before >= 0
        return {"slower": told.take(known & (change < -self.by)), "faster": told.take(known & (change > self.by))}
