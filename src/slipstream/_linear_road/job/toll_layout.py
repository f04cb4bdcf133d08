"""What a toll or archive job fixes at its first start: its settings, and how it is distributed over Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream._errors import MALFORMED, BadInput
from slipstream._runtime import job
from slipstream._runtime.job import FILE, JobFile
from slipstream._runtime.stages.partitions import labels
from slipstream._tools.strict_json import decode_as

#: version of the bytes that fragments and accounts put into the state store
STATE_VERSION = 9

#: the outputs of a job
ANSWERS, TRIPS, ANSWERS_AND_TRIPS = "answers", "trips", "answers and trips"
#: the kinds of job; one that only archives has its own name
TOLL, ARCHIVE = "toll", "archive"

#: how a feed identifies vehicles
NUMBERS, TEXTS = "numbers", "text"


def name_kind(outputs: str) -> str:
    """Return the kind of job that writes these outputs."""
    return ARCHIVE if outputs == TRIPS else TOLL


@dataclass(frozen=True)
class Layout:
    """What stays the same across all starts of a job."""

    id: str  # of the job, in the tables' transactions
    source: str
    rules: str
    lateness: int  # seconds
    outputs: str
    start: str  # of trips: the instant of second 0
    until: int  # of trips: the second of a run at which all end
    fragments: tuple[int, ...]  # their keys in Spark
    shards: tuple[int, ...]
    partitions: int
    ids: str = NUMBERS  # of vehicles
    pseudonyms: str = ""  # the fingerprint of their key

    @classmethod
    def load_or_create(cls, out: Path, parallel: int, settings: Mapping[str, Any]) -> Layout:
        """Return the layout that a job was started with, or a new one with ``parallel`` fragments and shards."""
        keys = list(labels(parallel))
        made = {"fragments": keys, "shards": keys, "partitions": parallel}
        return cls._of(job.begin(out, name_kind(settings["outputs"]), STATE_VERSION, settings, lambda: made), out)

    @classmethod
    def read(cls, out: Path) -> Layout:
        """Return the layout of the job in a folder."""
        return cls._of(JobFile.read(out), out)

    @classmethod
    def _of(cls, found: JobFile, out: Path) -> Layout:
        try:
            layout = decode_as(cls, {"id": found.id, **found.settings, **found.layout})
            if not layout.fragments or not layout.shards or layout.partitions < 1:
                raise ValueError("no fragments, shards or partitions")
            if not (layout.makes_answers or layout.makes_trips):
                raise ValueError(f"outputs are {layout.outputs!r}")
            return layout
        except MALFORMED as error:
            raise BadInput(
                f"{out / FILE}: damaged ({error}).", hint="Start again in another --out folder.", code="damaged-output"
            ) from error

    @property
    def named(self) -> bool:
        """Whether vehicles are identified by text."""
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
    """Reject a folder in which a job with these settings can neither start nor resume."""
    job.check(out, name_kind(settings["outputs"]), STATE_VERSION, settings)
