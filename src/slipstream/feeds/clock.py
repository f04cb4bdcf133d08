"""The clock of a run: which of its seconds it is now, at any speed; or none, when work goes as fast as it can."""

from __future__ import annotations

import time
from dataclasses import dataclass

FULL_SPEED = 0.0


@dataclass(frozen=True)
class Clock:
    """``speed`` 1 is real time, FULL_SPEED no clock at all; second ``since`` of the run was at ``origin_ms``."""

    speed: float
    origin_ms: int
    since: int = 0

    @classmethod
    def starting(cls, speed: float, since: int = 0, delay: float = 0.0) -> Clock:
        """A clock on which it is second ``since`` now, or ``delay`` seconds from now."""
        return cls(speed, round((time.time() + delay) * 1000), since)

    @property
    def runs(self) -> bool:
        """Whether there is a clock."""
        return self.speed != FULL_SPEED

    def now_ms(self) -> int:
        """Milliseconds of the run."""
        return round(self.since * 1000 + (time.time() * 1000 - self.origin_ms) * self.speed)

    def emit_ms(self, newest: int) -> int:
        """The time at which something becomes visible now; without a clock, the end of the ``newest`` second."""
        return self.now_ms() if self.runs else 1000 * (newest + 1)
