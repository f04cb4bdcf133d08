"""The Linear Road input tuple: fifteen integers, -1 where a field does not apply.

Tuples are stored everywhere with the same schema: columns of 32-bit integers with the names below. The fields that each
kind of tuple must have are data (`CARRIES`), so that readers, generators and the toll engine agree on them.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

FIELDS = (
    "type",
    "time",
    "vid",
    "spd",
    "xway",
    "lane",
    "dir",
    "seg",
    "pos",
    "qid",
    "sinit",
    "send",
    "dow",
    "tod",
    "day",
)

SCHEMA = pa.schema([(name, pa.int32()) for name in FIELDS])

POSITION, BALANCE, EXPENDITURE, TRAVEL_TIME = 0, 2, 3, 4

#: names for the numbers in the ``type`` field
KINDS = {POSITION: "position", BALANCE: "balance", EXPENDITURE: "expenditure", TRAVEL_TIME: "travel_time"}

MILE = 5280
SEGMENTS = 100
ROAD = MILE * SEGMENTS
REPORT_EVERY = 30
MAX_SPEED = 100

#: the suffix of an empty file that marks a growing file or folder as complete
END_MARK = ".end"


@dataclass(frozen=True)
class Field:
    """One of the fifteen fields: its meaning, and the range of its values where it applies."""

    name: str
    meaning: str
    least: int
    most: int


_ANY = 2**31 - 1

RANGES = {
    field.name: field
    for field in (
        Field("type", "kind of tuple: 0 position, 2 balance, 3 expenditure, 4 travel time", 0, 4),
        Field("time", "second of the run", 0, _ANY),
        Field("vid", "vehicle", 0, _ANY),
        Field("spd", "speed in miles per hour", 0, MAX_SPEED),
        Field("xway", "expressway", 0, _ANY),
        Field("lane", "0 entry, 1 to 3 travel, 4 exit", 0, 4),
        Field("dir", "0 east, 1 west", 0, 1),
        Field("seg", "segment, a mile each", 0, SEGMENTS - 1),
        Field("pos", "feet from the western end", 0, ROAD - 1),
        Field("qid", "request, unique over the run", 0, _ANY),
        Field("sinit", "segment where the journey starts", 0, SEGMENTS - 1),
        Field("send", "segment where the journey ends", 0, SEGMENTS - 1),
        Field("dow", "day of the week, 1 to 7", 1, 7),
        Field("tod", "minute of the day, 1 to 1440", 1, 1440),
        Field("day", "day in the past, 1 = yesterday, up to 69", 1, 69),
    )
}

#: the fields that each kind of tuple must have; all others are -1 or ignored
CARRIES = {
    POSITION: ("time", "vid", "spd", "xway", "lane", "dir", "seg", "pos"),
    BALANCE: ("time", "vid", "qid"),
    EXPENDITURE: ("time", "vid", "xway", "qid", "day"),
    TRAVEL_TIME: ("time", "vid", "xway", "qid", "sinit", "send", "dow", "tod"),
}

#: the class of a vehicle travels in the bits of ``lane`` above this: a lane needs three, and a direction one
CLASS_STEP = 16
CLASSES = 16


@dataclass(frozen=True)
class ReportForm:
    """What position reports say on a kind of road: units, limits, and which fields may be missing.

    The defaults are the benchmark's. Positions count from one end of a road in any unit that ``segment_length`` has.
    """

    segment_length: int = MILE
    top_speed: int = MAX_SPEED
    classes: int = 1
    #: otherwise lane, direction and road may be missing, as on a road with one of each, and segments follow
    needs_lanes: bool = True

    @property
    def needed(self) -> tuple[str, ...]:
        """The fields that a report must have; its type and its segment follow from the rest."""
        here = ("xway", "lane", "dir") if self.needs_lanes else ()
        return ("time", "vid", "spd", *here, "pos")

    @property
    def defaults(self) -> dict[str, int]:
        """The values of fields that are missing in a report."""
        return {"type": POSITION} if self.needs_lanes else {"type": POSITION, "xway": 0, "lane": 1, "dir": 0}

    @property
    def limits(self) -> dict[str, tuple[int, int]]:
        """The least and the greatest value of each field, without the class of the vehicle."""
        own = {"spd": (0, self.top_speed), "pos": (0, SEGMENTS * self.segment_length - 1)}
        return {name: (field.least, field.most) for name, field in RANGES.items()} | own


#: the form of the benchmark's reports
LINEAR_ROAD = ReportForm()
