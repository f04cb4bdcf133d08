"""A box that tests use: it compares each tuple with the one before it in its group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oracles.network import OPERATORS, Event
from slipstream._network import KeyedTable, Operator, Train, register, require
from slipstream._network.boxes.windows.window_functions import nulls


@register
@dataclass(frozen=True)
class Jump(Operator):
    """A tuple whose ``v`` differs from that of the tuple before it in its group, by more than ``by``, or by less."""

    name = "jump"
    ports = ("far", "near")
    by: int = 3
    group: str = "g"

    @property
    def key(self) -> tuple[str, ...]:
        return (self.group,)

    def outputs(self, tuples: dict[str, str]) -> dict[str, dict[str, str]]:
        require(tuples, "v", "integer")
        return {port: {**tuples, "before": "integer"} for port in self.ports}

    def fresh(self, tuples: dict[str, str]) -> dict[str, KeyedTable]:
        return {"last": KeyedTable({self.group: tuples[self.group]}, {"v": ("integer", 99)})}

    def step(self, state: dict[str, KeyedTable], tuples: Train) -> dict[str, Train]:
        tuples = tuples.take(~nulls(tuples["v"]))
        before = state["last"].swap("v", state["last"].rows(tuples.columns), tuples["v"])
        far = np.abs(before - tuples["v"]) > self.by
        told = tuples.plus(before=before)
        return {"far": told.take(far), "near": told.take(~far)}


class PlainJump:
    def __init__(self, box: Jump) -> None:
        self.box, self.last = box, {}

    def push(self, side: int, event: Event) -> list[tuple[int, Event]]:
        v, g = event.values["v"], event.values[self.box.group]
        if v is None:
            return []
        before, self.last[g] = self.last.get(g, 99), v
        return [(int(abs(before - v) <= self.box.by), Event(event.ts, {**event.values, "before": before}))]


OPERATORS[Jump] = PlainJump
