"""Vehicles that are known by text: numbered on their way in, named again on their way out.

    parcels with names --> names, by hash of the name --> parcels with numbers --> intake ... --> files

The stages between know a vehicle by its number. Those who number vehicles tell everybody who writes files about the
names that are new, in the same batch, so a number can be turned back into its text wherever it comes out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from slipstream._feeds import names
from slipstream._feeds.intake import Parcel
from slipstream._io import chunks
from slipstream._io.report_packing import VID, NamedParcel, merge_named, parcels_by_fragment
from slipstream._linear_road.job.layout import Layout
from slipstream._runtime.names import MAX_NAMES, Names
from slipstream._runtime.stage import Stage
from slipstream._runtime.store import Store


class NameStage(Stage[Names]):
    """Numbers the vehicles of a feed that are known by text: those whose names hash to one part."""

    name = "names"
    maps = ("names",)

    def __init__(self, engine: str, layout: Layout) -> None:
        super().__init__(engine)
        self._fragments = layout.fragments

    def fresh(self) -> Names:
        """Nobody has a number."""
        return Names()

    def load(self, stores: list[Store]) -> Names:
        """The names from the store."""
        return Names.load(stores[0])

    def take(self, state: Names, rows: list[Any]) -> Iterator[chunks.ChunkRow]:
        """Parcels with names in; parcels with numbers, and the names that are new, out to all fragments."""
        before = len(state.texts)
        parcels = [NamedParcel.decode(bytes(row.chunk)) for row in rows if row.what == chunks.CHUNK]
        if parcels:
            numbered = parcels_by_fragment(self._numbered(state, parcels), len(self._fragments))
            for key, parcel in zip(self._fragments, numbered, strict=True):
                yield chunks.ChunkRow(key, 0, chunks.CHUNK, 0, parcel.encode())
        if len(state.texts) > before:
            part, new = self._fragments.index(self.key), names.encode(state.texts.since(before))
            yield from (chunks.ChunkRow(key, before, chunks.NAMED, part, new) for key in self._fragments)
        for row in rows:
            if row.what != chunks.CHUNK:
                yield chunks.ChunkRow(self.key, int(row.seq), int(row.what), int(row.arrived), bytes(row.chunk or b""))

    def _numbered(self, state: Names, parcels: list[NamedParcel]) -> Parcel:
        parts = len(self._fragments)
        tuples, known = merge_named([(one.parcel.tuples, one.names) for one in parcels])
        numbers = self._fragments.index(self.key) + parts * state.number(known, MAX_NAMES // parts)
        progress = np.concatenate([one.parcel.progress for one in parcels])
        return Parcel(progress, {**tuples, VID: numbers[tuples[VID]].astype(np.int32)})

    def save(self, state: Names, stores: list[Store]) -> None:
        """Write the names that are new."""
        state.save(stores[0])
