"""What a request may ask, read as the standard writes it; everything else is refused.

The parameters are taken as text, so that all mistakes get the same answer: 400, and what to write instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from datetime import datetime
from typing import Annotated, Any

import numpy as np
from fastapi import Query, Request

from slipstream._console.moving_features.collections import Boxes
from slipstream._errors import BadArgument
from slipstream._moving.columns import FIRST, LAST, Periods, freeze, freeze_all
from slipstream._moving.moving_point import micros
from slipstream._tools.numba_tools import Longs

#: features or geometries of a page: by default, and at most
PAGE, LARGEST = 10, 10_000
#: instants that one request may ask for
_LEAVES = 1_000
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _described(description: str, **schema: Any) -> Any:
    return Query(description=description, max_length=100_000, json_schema_extra=schema)


Bbox = Annotated[
    str,
    _described("Four numbers: west, south, east, north in degrees; or six, with heights, which are ignored."),
]
Moment = Annotated[
    str, _described("An instant in RFC 3339, or an interval: FROM/TO, with .. or nothing for an open end.")
]
Limit = Annotated[str, _described(f"The length of a page, at most {LARGEST:,}.", type="integer", minimum=1)]
Offset = Annotated[str, _described("How many to leave out; the link `next` has it.", type="integer", minimum=0)]
Leaf = Annotated[str, _described("Instants, increasing, with commas: the values at these instants only.")]
Sub = Annotated[str, _described("Whether to cut values to the interval `datetime`.", type="boolean")]


def refuse_others(request: Request, known: Collection[str]) -> None:
    """Refuse parameters that the resource does not have, and parameters that are given twice."""
    given = [name for name, _ in request.query_params.multi_items()]
    if unknown := sorted(set(given) - set(known)):
        raise BadArgument(
            f"Unknown parameter {unknown[0]!r}.",
            hint=f"This resource has: {', '.join(known) or 'none'}.",
            code="unknown-name",
            found=unknown[0],
            expected=[*known],
        )
    if len(given) > len(set(given)):
        twice = next(name for name in given if given.count(name) > 1)
        raise _bad(twice, "is given twice", "Give it once.")


def read_limit(text: str) -> int:
    """Return the length of a page.

    >>> read_limit(""), read_limit("3"), read_limit("999999")
    (10, 3, 10000)
    """
    return min(_read_whole("limit", text, 1), LARGEST) if text else PAGE


def read_offset(text: str) -> int:
    """Return how many to leave out."""
    return _read_whole("offset", text, 0) if text else 0


def _read_whole(name: str, text: str, least: int) -> int:
    if not re.fullmatch(r"[0-9]{1,15}", text) or int(text) < least:
        raise _bad(name, f"{text[:40]!r}: not a whole number of at least {least}", f"For example {name}=100.", text)
    return int(text)


def read_flag(name: str, text: str) -> bool:
    """Return whether something is wanted."""
    if text not in ("", "true", "false"):
        raise _bad(name, f"{text[:40]!r}: neither true nor false", f"Write {name}=true.", text)
    return text == "true"


def read_bbox(text: str) -> Boxes | None:
    """Return a box in degrees as one or, across the 180th meridian, two.

    >>> read_bbox("13.3,52.4,13.5,52.6"), read_bbox("170,-20,-170,0")
    (((13.3, 52.4, 13.5, 52.6),), ((170.0, -20.0, 180.0, 0.0), (-180.0, -20.0, -170.0, 0.0)))
    """
    if not text:
        return None
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in (4, 6) or not all(map(math.isfinite, numbers)):
        raise _bad("bbox", f"{text[:60]!r}: not four or six numbers", _BBOX, text)
    west, south, east, north = numbers if len(numbers) == 4 else (numbers[0], numbers[1], numbers[3], numbers[4])
    if max(abs(west), abs(east)) > 180 or max(abs(south), abs(north)) > 90:
        raise _bad("bbox", f"{text[:60]!r}: beyond 180 degrees east or 90 degrees north", _BBOX, text)
    if south > north:
        raise _bad("bbox", f"{text[:60]!r}: its south is north of its north", _BBOX, text)
    if west > east:
        return (west, south, 180.0, north), (-180.0, south, east, north)
    return ((west, south, east, north),)


_BBOX = "Write west,south,east,north in degrees: bbox=13.3,52.4,13.5,52.6."


def read_datetime(text: str) -> Periods | None:
    """Return a period; an instant is a period from it to itself.

    >>> read_datetime("1970-01-01T00:00:01Z/..").begin
    array([1000000])
    """
    if not text:
        return None
    begin, slash, end = text.partition("/")
    first = _read_instant("datetime", begin, text) if not slash or begin not in ("", "..") else FIRST
    last = first if not slash else LAST if end in ("", "..") else _read_instant("datetime", end, text)
    if first > last:
        raise _bad("datetime", f"{text[:80]!r}: ends before it begins", _MOMENT, text)
    return freeze_all(Periods(np.array([0, 1], np.int32), np.array([first]), np.array([last])))


def read_interval(name: str, span: Periods | None) -> Periods:
    """Return the period that ``name`` cuts to; refuse an instant and an interval without an end."""
    if span is None or span.begin[0] == FIRST or span.end[0] == LAST or span.begin[0] == span.end[0]:
        raise _bad(name, "needs a datetime with two ends", f"For example {_MOMENT[9:]}")
    return span


def read_leaf(text: str) -> Longs | None:
    """Return instants, which increase."""
    if not text:
        return None
    words = text.split(",")
    if len(words) > _LEAVES:
        raise _bad("leaf", f"has {len(words):,} instants, more than {_LEAVES:,}", "Ask for fewer at once.")
    instants = np.array([_read_instant("leaf", word, word) for word in words], dtype=np.int64)
    if (np.diff(instants) <= 0).any():
        raise _bad("leaf", "is not in increasing order", "Sort the instants, and give each once.", text[:80])
    return freeze(instants)


_MOMENT = "Write it datetime=2026-05-04T08:00:00Z/2026-05-04T09:00:00Z."


def _read_instant(name: str, word: str, text: str) -> int:
    try:
        if not _TIME.fullmatch(word):
            raise ValueError(word)
        return micros(datetime.fromisoformat(word.upper()))
    except ValueError as error:
        hint = f"Write RFC 3339 with a zone: {name}=2026-05-04T08:00:00Z (a + in an address is written %2B)."
        raise _bad(name, f"{word[:60]!r}: not an instant", hint, text[:80]) from error


def _bad(name: str, what: str, hint: str, found: Any = None) -> BadArgument:
    return BadArgument(f"{name} {what}.", hint=hint, code="malformed-value", found=found)
