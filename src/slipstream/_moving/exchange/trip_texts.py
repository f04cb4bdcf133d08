"""Read and write moving points as text: MobilityDB's WKT and OGC Moving Features JSON."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

import numpy as np

from slipstream._errors import MALFORMED, BadInput
from slipstream._moving.moving_point import METRES, MovingPoint, check_metres, instant, project
from slipstream._moving.space.plane import Plane
from slipstream._tools.strict_json import parse_json

#: reference systems in degrees: WGS 84, ETRS89, NAD83
DEGREES = ("4326", "4258", "4269")

_PROJECT = "Project them to metres, for example with plane={plane}"
_IN_DEGREES = "Project them to metres: give a plane, for example Plane.utm_at(13.4, 52.5)."
_INSTANT = re.compile(r"\s*POINT\s*\(\s*([^\s()]+)\s+([^\s()]+)\s*\)\s*@\s*([^,\]\)\}]+)\s*", re.IGNORECASE)
_SEQUENCE = re.compile(r"\s*[\[(]((?:[^\[\]()]|\([^()]*\))*)[\])]\s*")


def to_wkt(m: MovingPoint) -> str:
    """Format a moving point like MobilityDB's temporal points: sequences in brackets, all of them in braces.

    >>> to_wkt(from_wkt("{[POINT(0 0)@2007-05-28 00:00:00+00, POINT(3 4)@2007-05-28 00:00:01+00]}"))
    '{[POINT(0.0 0.0)@2007-05-28 00:00:00+00:00, POINT(3.0 4.0)@2007-05-28 00:00:01+00:00]}'
    """
    parts = []
    for s in m.sequences:
        rows = zip(m.t[s].tolist(), m.x[s].tolist(), m.y[s].tolist(), strict=True)
        parts.append("[" + ", ".join(f"POINT({x!r} {y!r})@{instant(t)}" for t, x, y in rows) + "]")
    return "{" + ", ".join(parts) + "}"


def from_wkt(text: str, *, plane: Plane | None = None, units: str | None = None) -> MovingPoint:
    """Parse MobilityDB's text: an instant, a sequence or a set of sequences, with or without ``SRID=...;``.

    With a ``plane``, coordinates are degrees and projected to it. Otherwise degrees are rejected; without an SRID,
    so are coordinates that look like degrees, unless ``units="m"`` is given.
    """
    head, _, body = text.strip().rpartition(";")
    srid = head.upper().removeprefix("SRID=").strip()
    if plane is None and srid in DEGREES:
        raise BadInput(f"{text[:60]!r}: coordinates in degrees.", hint=_IN_DEGREES, code="bad-coordinates")
    if plane is not None and srid not in ("", "0", *DEGREES):
        raise BadInput(f"{text[:60]!r}: coordinates in metres.", hint="Leave out the plane.", code="bad-coordinates")
    made = MovingPoint.of([project(vertices, plane) for vertices in _sequences(body.strip(), text)])
    if plane is None and srid in ("", "0"):
        check_metres([made], repr(text[:60]), "its coordinates", f"{_PROJECT}; {METRES}.", units)
    return made


def srid_of(text: str) -> int:
    """Return the SRID that MobilityDB's text names; 0 if it names none.

    >>> srid_of("SRID=32633;POINT(1 2)@2026-05-04"), srid_of("POINT(1 2)@2026-05-04")
    (32633, 0)
    """
    found = re.match(r"\s*SRID\s*=\s*(\d{1,9})\s*;", text, re.IGNORECASE)
    return int(found[1]) if found else 0


def _sequences(body: str, text: str) -> list[list[tuple[datetime, float, float]]]:
    if body.startswith("{"):
        if not body.endswith("}"):
            raise _syntax_error(text)
        body = body[1:-1]
    if not body.strip():
        return []
    if not body.lstrip().startswith(("[", "(")):
        return [[vertex] for vertex in _vertices(body, text)]
    sequences, place = [], 0
    while place < len(body):
        found = _SEQUENCE.match(body, place)
        if not found:
            raise _syntax_error(text)
        sequences.append(_vertices(found.group(1), text))
        place = found.end()
        if place < len(body):
            if body[place] != ",":
                raise _syntax_error(text)
            place += 1
    return sequences


def _vertices(body: str, text: str) -> list[tuple[datetime, float, float]]:
    out, place = [], 0
    while place < len(body):
        found = _INSTANT.match(body, place)
        if not found:
            raise _syntax_error(text)
        out.append((_time(found.group(3).strip(), text), _number(found.group(1), text), _number(found.group(2), text)))
        place = found.end()
        if place < len(body):
            if body[place] != ",":
                raise _syntax_error(text)
            place += 1
    return out


def _syntax_error(text: str) -> BadInput:
    return BadInput(
        f"{text[:60]!r}: not a temporal point.",
        hint="Write {[POINT(x y)@2007-05-28 08:00:00+00, ...], ...}.",
        code="malformed-value",
        found=text[:60],
    )


def _number(word: str, text: str) -> float:
    try:
        return float(word)
    except MALFORMED as error:
        raise _syntax_error(text) from error


def _time(word: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(word)
    except MALFORMED as error:
        raise _syntax_error(text) from error


def to_mfjson(m: MovingPoint) -> str:
    """Format a moving point as OGC Moving Features JSON (MovingPoint, linear interpolation)."""
    sequences = [
        {
            "coordinates": np.c_[m.x[s], m.y[s]].tolist(),
            "datetimes": [instant(t).isoformat() for t in m.t[s].tolist()],
            "lower_inc": True,
            "upper_inc": True,
        }
        for s in m.sequences
    ]
    return json.dumps({"type": "MovingPoint", "sequences": sequences, "interpolation": "Linear"})


def from_mfjson(text: str, *, plane: Plane | None = None, units: str | None = None) -> MovingPoint:
    """Parse Moving Features JSON: a MovingPoint with sequences, or with the members of a single sequence.

    With a ``plane``, coordinates are degrees and projected to it. Otherwise degrees are rejected; without a ``crs``,
    so are coordinates that look like degrees, unless ``units="m"`` is given.
    """
    try:
        body: dict[str, Any] = parse_json(text)
        if body["type"] != "MovingPoint":
            raise ValueError(f"type is {body['type']}")
        parts = body.get("sequences", [body])
        sequences = [
            [
                (datetime.fromisoformat(t), float(place[0]), float(place[1]))
                for t, place in zip(part["datetimes"], part["coordinates"], strict=True)
            ]
            for part in parts
            if "datetimes" in part
        ]
    except MALFORMED as error:
        raise BadInput(
            f"MF-JSON: {error}.", hint='Expected {"type": "MovingPoint", "sequences": [...]}.', code="malformed-value"
        ) from error
    if body.get("interpolation", "Linear") not in ("Linear", ["Linear"]):
        raise BadInput(
            f"MF-JSON: interpolation {body['interpolation']} is not supported.",
            hint="Use linear interpolation.",
            code="malformed-value",
        )
    crs = body.get("crs")
    in_degrees = crs is not None and any(name in json.dumps(crs) for name in (*DEGREES, "CRS84"))
    if plane is None and in_degrees:
        raise BadInput("MF-JSON: coordinates in degrees.", hint=_IN_DEGREES, code="bad-coordinates")
    if plane is not None and crs and not in_degrees:
        raise BadInput("MF-JSON: coordinates in metres.", hint="Leave out the plane.", code="bad-coordinates")
    made = MovingPoint.of([project(vertices, plane) for vertices in sequences])
    if plane is None and not crs:
        check_metres([made], "MF-JSON", "its coordinates", f"{_PROJECT}; {METRES}.", units)
    return made
