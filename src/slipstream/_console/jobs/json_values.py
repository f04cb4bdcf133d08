"""Values of outputs as JSON."""

from __future__ import annotations

import math
from datetime import date, datetime
from typing import Any


def to_json_value(value: Any) -> Any:
    """Return a value that JSON can represent; for moving points, their time span."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, dict) and isinstance(times := value.get("t"), list):
        span = f", {times[0]:%Y-%m-%d %H:%M:%S} to {times[-1]:%Y-%m-%d %H:%M:%S}" if times else ""
        return f"{len(times)} {'point' if len(times) == 1 else 'points'}{span}"
    text = str(value)
    return text if len(text) <= 120 else f"{text[:119]}…"
