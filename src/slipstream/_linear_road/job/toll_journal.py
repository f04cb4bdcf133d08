"""The journal of a toll or archive job: the line that every job writes, with a ``Detail`` of its own.

The commit time is recorded here and nowhere else. Answers store how long before their Time the request arrived, so
their Emit is the sum of the two (``output_tables.read_answers``).
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from slipstream._errors import MALFORMED, BadInput
from slipstream._io import outputs
from slipstream._io.outputs import JOURNAL, RESCUE
from slipstream._linear_road.answers import LIMITS, NAMES
from slipstream._linear_road.schedule import Irregular
from slipstream._tools.strict_json import decode_as

#: how late each kind of answer may be, in seconds
RESPONSE_LIMITS = dict(zip(NAMES, map(float, LIMITS), strict=True))


@dataclass(frozen=True)
class Detail:
    """What a toll or archive job records about a batch."""

    newest: int = -1  # the last second with an answer; in a batch without any, the last second in a trip
    emitted_ms: int = 0  # commit time in milliseconds of the run; plus an answer's delay_ms, its Emit
    answers: list[list[int]] = field(default_factory=list)  # kind, time, number, response time in milliseconds
    irregular: list[int] = field(default_factory=lambda: list(astuple(Irregular())))  # count; time, vid, gap of one
    archived: int = 0  # reports in the trips that ended
    text_bytes: int = 0  # of output.csv after the batch
    rejects_bytes: int = 0  # of rejects.csv after the batch

    def check(self) -> None:
        """Raise ValueError for values that no job writes."""
        if not all(_are_numbers(row, 4) for row in (*self.answers, self.irregular)):
            raise ValueError("each row of answers, and irregular, must have four integers")


def _are_numbers(row: Any, length: int) -> bool:
    return isinstance(row, list) and [type(value) for value in row] == [int] * length


@dataclass(frozen=True)
class TollBatch:
    """A committed batch."""

    batch: int
    committed_ms: int  # wall clock
    tuples: int
    rejects: int
    trips: int
    detail: Detail

    @classmethod
    def of(cls, line: outputs.Batch, out: Path) -> TollBatch:
        """Decode a line of the journal in ``out``."""
        try:
            detail: Detail = decode_as(Detail, line.detail)
            detail.check()
        except MALFORMED as error:
            raise BadInput(
                f"{out / JOURNAL}: damaged (batch {line.batch}: {error}).", hint=RESCUE, code="damaged-output"
            ) from error
        return cls(line.batch, line.committed_ms, line.tuples, line.rejects, line.outputs.get("trips", 0), detail)

    @property
    def newest(self) -> int:
        """The last second with an answer or in a trip; -1 before the first."""
        return self.detail.newest

    @property
    def answers(self) -> list[list[int]]:
        """Kind, time, number and response time in milliseconds of its answers."""
        return self.detail.answers

    @property
    def emit_ms(self) -> int | None:
        """The largest Emit of its answers, in milliseconds of the run."""
        return max((1000 * time + response for _, time, _, response in self.answers), default=None)


def response_times(line: outputs.Batch, pace: float) -> dict[str, float]:
    """Return the longest response time of each kind of answer in a batch, in seconds of the wall clock.

    >>> response_times(outputs.Batch(0, 0, detail={"answers": [[0, 30, 7, 1200], [0, 31, 2, 800]]}), pace=1.0)
    {'toll': 1.2}
    """
    longest: dict[str, float] = {}
    rows = line.detail.get("answers") if pace > 0 else None
    for row in rows if isinstance(rows, list) else []:
        if _are_numbers(row, 4) and 0 <= row[0] < len(NAMES):
            name = NAMES[row[0]]
            longest[name] = max(longest.get(name, 0.0), row[3] / 1000 / pace)
    return longest


def read_journal(out: Path) -> list[TollBatch]:
    """Return the committed batches of a job."""
    return [TollBatch.of(line, out) for line in outputs.read_journal(out)]


def last_batch(out: Path) -> TollBatch | None:
    """Return the last committed batch, without reading the rest of the journal."""
    last = outputs.last_batch(out)
    return None if last is None else TollBatch.of(last, out)
