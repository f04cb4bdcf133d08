"""The clock of arrivals and commits: a replay's own, the wall clock for a live feed, or none at full speed.

A response time is commit minus arrival, both by the same clock. In a replay a tuple arrives when its second begins, and
the clock gives the current second at any speed; a live feed uses the wall clock, by which brokers, sockets and files
stamp arrivals. Without a clock a tuple arrives at the start of its second and is answered at the end of the newest
second of its batch.

A clock is stored in a file, because its readers (source and driver) are separate processes, and because it starts when
everything is ready: until then there is no file.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from slipstream._errors import BadInput
from slipstream._tools.files.staging import atomic_write
from slipstream._tools.strict_json import decode_as, parse_json

FULL_SPEED = 0.0
#: times real time: a faster clock is a mistake
FASTEST = 1e6


@dataclass(frozen=True)
class Clock:
    """``speed`` 1 is real time, FULL_SPEED means no clock; second ``since`` of the run was at ``origin_ms``."""

    speed: float
    origin_ms: int
    since: int = 0

    @classmethod
    def start(cls, speed: float, since: int = 0) -> Clock:
        """Return a clock that now shows second ``since``."""
        return cls(speed, round(time.time() * 1000), since)

    @classmethod
    def read(cls, file: Path) -> Clock | None:
        """Read the clock in a file; None if it has not started."""
        try:
            clock = decode_as(cls, parse_json(file.read_bytes()))
            if not (0 <= clock.speed <= FASTEST and 0 <= clock.since < 2**31 and abs(clock.origin_ms) < 2**53):
                raise ValueError("impossible time")
            return clock
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise BadInput(
                f"{file}: damaged ({error}).", hint="Start again in another --out folder.", code="damaged-output"
            ) from error

    def write(self, file: Path) -> None:
        """Write it to a file."""
        with atomic_write(file) as out:
            out.write(json.dumps(asdict(self)).encode())

    @property
    def runs(self) -> bool:
        """Whether there is a clock."""
        return self.speed != FULL_SPEED

    def now_ms(self) -> int:
        """Milliseconds of the run."""
        return self.at_ms(time.time() * 1000)

    def at_ms(self, wall_ms: float) -> int:
        """Milliseconds of the run at an instant of the wall clock."""
        return round(self.since * 1000 + (wall_ms - self.origin_ms) * self.speed)

    def commit_ms(self, newest: int, wall_ms: float) -> int:
        """The millisecond of the run at which a commit is visible; without a clock, the end of its ``newest`` second.

        >>> Clock(FULL_SPEED, 0).commit_ms(120, wall_ms=5)
        121000
        """
        return self.at_ms(wall_ms) if self.runs else 1000 * (newest + 1)


#: the wall clock, in milliseconds since 1970
LIVE = Clock(speed=1.0, origin_ms=0)
