"""Positions and lines as bytes for the page: a header in JSON, then arrays, in the layout of ``pack_arrays``.

Places are 32-bit floats around an origin, which is a centimetre within a hundred kilometres; times are 32-bit ticks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from slipstream._console.maps.map_positions import Positions
from slipstream._console.trips.journeys import pack_arrays
from slipstream._tools.numba_tools import Floats

#: the shortest tick in seconds, and the most ticks
_TICK, _TICKS = 0.001, 2**31 - 2


def pack(header: Mapping[str, Any], *arrays: np.ndarray[Any, Any]) -> bytes:
    """Encode a header and arrays of four bytes per element.

    >>> body = pack({"batch": 3}, np.array([1, 2], np.int32))
    >>> b'{"batch": 3}' in body, len(body) % 8
    (True, 0)
    """
    text = json.dumps(header).encode()
    words = np.frombuffer(text + b" " * (-len(text) % 4), "<u4")
    return pack_arrays(words, *arrays)


def pack_positions(found: Positions, batch: int, *, is_cut: bool) -> bytes:
    """Encode positions: offsets of tracks, their owners, ticks, x, y, then each attribute.

    ``batch`` is the last committed batch that they are part of; ``is_cut`` whether there are older ones.
    """
    begin, end = (float(found.t.min()), float(found.t.max())) if len(found.t) else (0.0, 0.0)
    tick = max(_TICK, (end - begin) / _TICKS)
    origin, (x, y) = center(found.x, found.y)
    header = {
        "batch": batch,
        "is_cut": is_cut,
        "begin": begin,
        "tick": tick,
        "origin": origin,
        "world": found.world,
        "timed": found.is_timed,
        "unplaced": found.unplaced,
        "owners": found.owners if any(found.owners) else [],
        "attributes": [{"name": name, "texts": list(one.texts)} for name, one in found.attributes.items()],
    }
    ticks = np.round((found.t - begin) / tick).astype(np.int32)
    values = [one.values.astype(np.float32) for one in found.attributes.values()]
    return pack(header, found.rows, found.owner, ticks, x, y, *values)


def center(x: Floats, y: Floats) -> tuple[list[float], tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Return the middle of places, in whole metres, and places as 32-bit distances from it."""
    if not len(x):
        return [0.0, 0.0], (x.astype(np.float32), y.astype(np.float32))
    middle = [float(math.floor((part.min() + part.max()) / 2)) for part in (x, y)]
    return middle, ((x - middle[0]).astype(np.float32), (y - middle[1]).astype(np.float32))
