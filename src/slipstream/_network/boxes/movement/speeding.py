"""The speeding box: matched positions at which a vehicle is faster than its roads allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from slipstream._errors import BadInput
from slipstream._network.algebra import Schema
from slipstream._network.boxes.archive import to_micros
from slipstream._network.boxes.movement.fences import check_new, floats
from slipstream._network.boxes.operators import KeyedTable, Operator, State, register, require
from slipstream._network.boxes.windows.window_functions import nulls
from slipstream._network.flow import Train
from slipstream._roads.matching.speeding_rules import MICROS, NOWHERE, find_speeding

_IDS, _LAST = "ids", ("t", "x", "y", "limit", "stretch")


@register
@dataclass(frozen=True)
class Speeding(Operator):
    """The matched positions at which an id is more than ``over`` km/h faster than the limit, with ``speed_kmh``.

    The tuples are those of a match box. The speed is measured over at least ``seconds``, within a stretch.
    """

    name = "speeding"
    passes_key = True
    id: str
    time: str
    over: float = 0.0
    seconds: float = 10.0
    x: str = "matched_x"
    y: str = "matched_y"
    limit: str = "limit_kmh"
    stretch: str = "stretch"

    @property
    def key(self) -> tuple[str, ...]:
        """Ids never meet."""
        return (self.id,)

    def outputs(self, tuples: Schema) -> Mapping[str, Schema]:
        """The tuples, with their speed."""
        require(tuples, self.id, "bigint", "string")
        require(tuples, self.time, "bigint", "double")
        for column in (self.x, self.y, self.limit):
            require(tuples, column, "double")
        require(tuples, self.stretch, "bigint")
        check_new(self.name, "speed_kmh", tuples)
        if not 0 <= self.seconds <= 86_400 or not self.over >= 0:
            raise BadInput(
                "speeding: over or seconds is out of range.", hint="Give 0 or more, up to a day.", code="out-of-range"
            )
        return {"out": {**tuples, "speed_kmh": "float"}}

    def fresh(self, tuples: Schema) -> State:
        """No ids."""
        numbers = dict.fromkeys(("x", "y", "limit"), ("float", 0.0))
        last = {"t": ("integer", 0), **numbers, "stretch": ("integer", NOWHERE)}
        return {_IDS: KeyedTable({self.id: tuples[self.id]}, last)}

    def step(self, state: State, tuples: Train) -> Mapping[str, Train]:
        """Compare each position with one before."""
        ids = state[_IDS]
        rows = ids.rows(tuples.columns)
        x, y, limit = floats(tuples, self.x, self.y, self.limit)
        stretch = np.where(nulls(tuples[self.stretch]), NOWHERE, tuples[self.stretch])
        found, speed, _ = find_speeding(
            rows,
            to_micros(tuples[self.time]),
            x,
            y,
            limit,
            stretch,
            round(self.seconds * MICROS),
            np.full(len(ids), float(self.over)),
            *(ids[name] for name in _LAST),
        )
        return {"out": tuples.take(found).plus(speed_kmh=speed[found])}
