"""What a job that tolls or archives fixes at its first start: its settings, and how it is spread over Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream._errors import MALFORMED, BadInput
from slipstream._runtime import job
from slipstream._runtime.job import FILE, Job
from slipstream._runtime.partitions import labels
from slipstream._tools.strict_json import decode_as

#: of the bytes that fragments and accounts put into the state store
STATE_VERSION = 6

#: what a job makes
ANSWERS, TRIPS, ANSWERS_AND_TRIPS = "answers", "trips", "answers and trips"
#: the kinds of job: archiving alone has a name of its own
TOLL, ARCHIVE = "toll", "archive"


#: how a feed knows vehicles
NUMBERS, TEXTS = "numbers", "text"


def kind_of(outputs: str) -> str:
    """The kind of a job that makes these outputs."""
    return ARCHIVE if outputs == TRIPS else TOLL


@dataclass(frozen=True)
class Layout:
    """What stays the same from the first start of a job to its last."""

    id: str  # by which the tables know the job
    source: str
    rules: str
    lateness: int  # seconds
    outputs: str
    start: str  # of trips: the instant of second 0
    until: int  # of trips: the second of a run at which all are over
    fragments: tuple[int, ...]  # the keys by which Spark knows them
    shards: tuple[int, ...]
    partitions: int
    ids: str = NUMBERS  # of vehicles

    @classmethod
    def agreed(cls, out: Path, parallel: int, settings: Mapping[str, Any]) -> Layout:
        """The layout that a job was begun with; a new one, with ``parallel`` fragments and shards, if there is none."""
        keys = list(labels(parallel))
        made = {"fragments": keys, "shards": keys, "partitions": parallel}
        return cls._of(job.begin(out, kind_of(settings["outputs"]), STATE_VERSION, settings, lambda: made), out)

    @classmethod
    def read(cls, out: Path) -> Layout:
        """The layout of the job in a folder."""
        return cls._of(Job.read(out), out)

    @classmethod
    def _of(cls, found: Job, out: Path) -> Layout:
        try:
            layout = decode_as(cls, {"id": found.id, **found.settings, **found.layout})
            if not layout.fragments or not layout.shards or layout.partitions < 1:
                raise ValueError("no fragments, shards or partitions")
            if not (layout.makes_answers or layout.makes_trips):
                raise ValueError(f"outputs are {layout.outputs!r}")
            return layout
        except MALFORMED as error:
            raise BadInput(f"{out / FILE}: damaged ({error}).", hint="Start again in another --out folder.") from error

    @property
    def named(self) -> bool:
        """Whether vehicles are known by text."""
        return self.ids == TEXTS

    @property
    def makes_answers(self) -> bool:
        """Whether the job tolls."""
        return self.outputs in (ANSWERS, ANSWERS_AND_TRIPS)

    @property
    def makes_trips(self) -> bool:
        """Whether the job archives."""
        return self.outputs in (TRIPS, ANSWERS_AND_TRIPS)


def check_job(out: Path, settings: Mapping[str, Any]) -> None:
    """Refuse a folder in which a job with these settings cannot be begun or resumed."""
    job.check(out, kind_of(settings["outputs"]), STATE_VERSION, settings)
