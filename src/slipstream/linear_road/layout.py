"""How an engine is laid out over Spark: its fragments and shards, and the settings its checkpoint was made with."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slipstream.documents import fitted, json_of
from slipstream.errors import MALFORMED, BadInput
from slipstream.runtime.partitions import labels
from slipstream.staging import appearing

#: of the bytes that fragments and accounts put into the state store
STATE_VERSION = 4
FILE = "engine.json"

#: what a job makes
ANSWERS, TRIPS, ANSWERS_AND_TRIPS = "answers", "trips", "answers and trips"


@dataclass(frozen=True)
class Layout:
    """What must stay the same from the first start of an engine to its last restart."""

    source: str
    fragments: tuple[int, ...]  # the keys by which Spark knows them
    shards: tuple[int, ...]
    partitions: int
    rules: str
    lateness: int  # seconds
    state_version: int = STATE_VERSION  # of the bytes in the state store
    outputs: str = ANSWERS
    start: str = ""  # of trips: the instant of second 0
    until: int = -1  # of trips: the second of a run at which all are over

    @classmethod
    def agreed(cls, folder: Path, parallel: int, fixed: dict[str, Any]) -> Layout:
        """The layout that a checkpoint was made with, which must be ``fixed`` like this; a new one if there is none.

        It has ``parallel`` fragments and shards, each in a partition of its own.
        """
        stored = check_layout(folder, fixed)
        if stored is not None:
            return stored
        keys = labels(parallel)
        made = cls(fragments=keys, shards=keys, partitions=parallel, **fixed)
        folder.mkdir(parents=True, exist_ok=True)
        with appearing(folder / FILE) as file:
            file.write(json.dumps(asdict(made), indent=2).encode() + b"\n")
        return made

    @property
    def makes_answers(self) -> bool:
        """Whether the job tolls."""
        return self.outputs in (ANSWERS, ANSWERS_AND_TRIPS)

    @property
    def makes_trips(self) -> bool:
        """Whether the job archives."""
        return self.outputs in (TRIPS, ANSWERS_AND_TRIPS)

    @classmethod
    def read(cls, file: Path) -> Layout:
        """Read a stored layout."""
        try:
            layout = fitted(cls, json_of(file.read_bytes()))
            if not layout.fragments or not layout.shards or layout.partitions < 1:
                raise ValueError("no fragments, shards or partitions")
            if not (layout.makes_answers or layout.makes_trips):
                raise ValueError(f"outputs are {layout.outputs!r}")
            return layout
        except (OSError, *MALFORMED) as error:
            raise BadInput(f"{file}: damaged ({error}).", hint="Start afresh in another --out folder.") from error


def check_layout(folder: Path, fixed: dict[str, Any]) -> Layout | None:
    """The layout that a checkpoint was made with, if there is one; settings other than the ``fixed`` are refused."""
    file = folder / FILE
    if not file.exists():
        return None
    stored = Layout.read(file)
    if stored.state_version != STATE_VERSION:
        raise BadInput(
            f"{file}: state of version {stored.state_version}, this program reads {STATE_VERSION}.",
            hint="Resume it with the version that wrote it, or start afresh in another --out folder.",
        )
    for name, value in fixed.items():
        if getattr(stored, name) != value:
            raise BadInput(
                f"{folder} was begun with {name} {getattr(stored, name)}, not {value}.",
                hint="Resume it with the same settings, or start afresh in another --out folder.",
            )
    return stored
