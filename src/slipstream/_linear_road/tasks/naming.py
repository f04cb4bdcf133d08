"""Vehicles identified by text: numbered on input, named again on output.

    parcels with names --> names, by hash of the name --> parcels with numbers --> intake ... --> files

The stages in between identify a vehicle by its number. The stages that assign numbers send new names to all stages that
write files, in the same batch, so that every one of these can turn a number back into its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from slipstream._feeds import text_ids
from slipstream._feeds.lane_parcels import Parcel
from slipstream._io import chunks
from slipstream._io.report_packing import VID, NamedParcel, make_fragment_parcels, merge_named
from slipstream._linear_road.job.toll_layout import Layout
from slipstream._runtime.stages.stage import Stage
from slipstream._runtime.state.id_numbers import MAX_NAMES, Names
from slipstream._runtime.state.store import Store


class NameStage(Stage[Names]):
    """Assigns numbers to vehicles identified by text: those whose names hash to one part."""

    name = "names"
    maps = ("names",)

    def __init__(self, engine: str, layout: Layout) -> None:
        super().__init__(engine)
        self._fragments = layout.fragments

    def fresh(self) -> Names:
        """Return no names."""
        return Names()

    def load(self, stores: list[Store]) -> Names:
        """Load the names from the store."""
        return Names.load(stores[0])

    def take(self, state: Names, rows: list[Any]) -> Iterator[chunks.ChunkRow]:
        """Take parcels with names; return parcels with numbers, and the new names for all fragments."""
        before = len(state.texts)
        parcels = [NamedParcel.decode(bytes(row.chunk)) for row in rows if row.what == chunks.CHUNK]
        if parcels:
            numbered = make_fragment_parcels(self._assign_numbers(state, parcels), len(self._fragments))
            for key, parcel in zip(self._fragments, numbered, strict=True):
                yield chunks.ChunkRow(key, 0, chunks.CHUNK, 0, parcel.encode())
        if len(state.texts) > before:
            part, new = self._fragments.index(self.key), text_ids.encode(state.texts.since(before))
            yield from (chunks.ChunkRow(key, before, chunks.NAMED, part, new) for key in self._fragments)
        for row in rows:
            if row.what != chunks.CHUNK:
                yield chunks.ChunkRow(self.key, int(row.seq), int(row.what), int(row.arrived), bytes(row.chunk or b""))

    def _assign_numbers(self, state: Names, parcels: list[NamedParcel]) -> Parcel:
        parts = len(self._fragments)
        tuples, known = merge_named([(one.parcel.tuples, one.names) for one in parcels])
        numbers = self._fragments.index(self.key) + parts * state.number(known, MAX_NAMES // parts)
        progress = np.concatenate([one.parcel.progress for one in parcels])
        return Parcel(progress, {**tuples, VID: numbers[tuples[VID]].astype(np.int32)})

    def save(self, state: Names, stores: list[Store]) -> None:
        """Save the new names."""
        state.save(stores[0])
