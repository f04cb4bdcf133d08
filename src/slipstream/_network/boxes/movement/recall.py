"""A memory of what happened to each id, returned for each query tuple."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slipstream._errors import BadInput
from slipstream._network.algebra import Schema
from slipstream._network.boxes.operators import Array, KeyedTable, Operator, RowTable, State, register, require
from slipstream._network.boxes.windows.window_functions import expand
from slipstream._network.column_types import plain_type
from slipstream._network.flow import Train
from slipstream._tools.numba_tools import Longs

_IDS, _EVENTS, _WHO = "ids", "events", "id of the event"


@register
@dataclass(frozen=True)
class Recall(Operator):
    """For each left tuple, all right tuples of its id with ``time`` up to its own ``at``, again each time.

    With ``within`` > 0, those with a time in [at - within, at) instead; older ones are forgotten, so left tuples must
    come in the order of ``at``.
    """

    name = "recall"
    takes: ClassVar[int] = 2
    passes_key = True
    id: str
    at: str
    time: str
    within: int = 0

    @property
    def key(self) -> tuple[str, ...]:
        """Ids never meet."""
        return (self.id,)

    def outputs(self, asked: Schema, events: Schema) -> Mapping[str, Schema]:
        """The left tuple's id and ``at``, and the columns of the right one."""
        for schema in (asked, events):
            require(schema, self.id, "bigint", "string")
        require(asked, self.at, "bigint")
        require(events, self.time, "bigint")
        if self.at in events or plain_type(asked[self.id]) != plain_type(events[self.id]):
            raise BadInput(
                f"recall: {self.at!r} is a column of both inputs, or {self.id!r} has two types.",
                hint="Rename columns with a map box.",
                code="duplicate-name",
            )
        return {"out": {self.at: "integer", **events}}

    def fresh(self, asked: Schema, events: Schema) -> State:  # noqa: ARG002
        """Nothing happened."""
        kept = {name: type_ for name, type_ in events.items() if name != self.id}
        return {_IDS: KeyedTable({self.id: events[self.id]}, {}), _EVENTS: RowTable({_WHO: "integer", **kept})}

    def step(self, state: State, asked: Train, events: Train) -> Mapping[str, Train]:
        """Remember events, and answer."""
        ids, kept = state[_IDS], state[_EVENTS]
        if len(events):
            columns = {name: values for name, values in events.columns.items() if name != self.id}
            kept.add({_WHO: ids.rows(events.columns), **columns})
        if not len(asked):
            return {}
        slots = kept.slots()
        one, found = self._pairs(ids.rows(asked.columns), asked[self.at], kept, slots)
        out = asked.take(one)
        columns = {name: kept.table.take(name, found) for name in kept.columns if name != _WHO}
        answer = out.with_columns({self.id: out[self.id], self.at: out[self.at], **columns})
        if self.within:
            kept.pop(slots[kept.table.take(self.time, slots) < asked[self.at][-1]])
        return {"out": answer}

    def _pairs(self, who: Longs, at: Array, kept: RowTable, slots: Longs) -> tuple[Longs, Longs]:
        """Return each asking tuple with the events that answer it, in the order of both."""
        whose = kept.table.take(_WHO, slots)
        order = np.argsort(whose, kind="stable")
        slots, whose = slots[order], whose[order]
        one, place = expand(np.searchsorted(whose, who, "left"), np.searchsorted(whose, who, "right"))
        time = kept.table.take(self.time, slots[place])
        fits = (time >= at[one] - self.within) & (time < at[one]) if self.within else time <= at[one]
        return one[fits], slots[place][fits]
