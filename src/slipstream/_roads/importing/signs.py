"""What tags say about a road, in the words of OpenStreetMap: limits, one-ways, layers."""

from __future__ import annotations

import re
from collections.abc import Mapping

MPH = 1.609344
#: km/h where there is no limit, and at walking pace
NO_LIMIT, WALK = 130.0, 7.0
#: the limits that a class of road has where no sign says another, in km/h; the others have 30
_DEFAULTS = {
    "motorway": 120.0,
    "motorway_link": 60.0,
    "trunk": 100.0,
    "trunk_link": 50.0,
    **dict.fromkeys(("primary", "primary_link", "secondary", "secondary_link", "tertiary", "tertiary_link"), 50.0),
    "residential": 30.0,
    "unclassified": 30.0,
    "living_street": 10.0,
    "service": 20.0,
}
#: limits that a country's law gives to a zone: ``DE:urban``
_ZONES = {"urban": 50.0, "rural": 100.0, "trunk": 100.0, "motorway": NO_LIMIT, "living_street": WALK, "walk": WALK}
_NO = ("", "no", "false", "0")


def find_default_limit(kind: str) -> float:
    """Return the limit of a class of road in km/h.

    >>> find_default_limit("motorway"), find_default_limit("residential"), find_default_limit("")
    (120.0, 30.0, 30.0)
    """
    return _DEFAULTS.get(kind, 30.0)


def read_limit(text: str) -> float | None:
    """Return a limit in km/h; None if it cannot be read.

    >>> [read_limit(text) for text in ("50", "30 mph", "none", "DE:urban", "DE:zone30", "walk", "-1", "fast")]
    [50.0, 48.28032, 130.0, 50.0, 30.0, 7.0, -1.0, None]
    """
    word = text.strip().lower()
    if found := re.fullmatch(r"(-?\d+(?:\.\d+)?)(?: ?(km/h|kmh|kph|mph|knots))?", word):
        unit = {"mph": MPH, "knots": 1.852}.get(found[2] or "", 1.0)
        return round(float(found[1]) * unit, 6)
    if word == "none":
        return NO_LIMIT
    if zone := re.fullmatch(r"[a-z]{2}:(?:zone:?)?(\d+)", word):
        return float(zone[1])
    return _ZONES.get(word.rpartition(":")[2])


def read_oneway(tags: Mapping[str, str]) -> int:
    """Return 1, -1 or 0; motorways and roundabouts are one-way unless they say otherwise.

    >>> read_oneway({"oneway": "-1"}), read_oneway({"junction": "roundabout"}), read_oneway({"highway": "primary"})
    (-1, 1, 0)
    """
    given = tags.get("oneway", "").lower()
    if given in ("yes", "true", "1", "1.0"):
        return 1
    if given in ("-1", "reverse", "-1.0"):
        return -1
    implied = tags.get("junction") in ("roundabout", "circular") or tags.get("highway") == "motorway"
    return int(implied and given not in ("no", "false", "0"))


def is_set(value: str) -> bool:
    """Return whether a tag such as ``bridge`` applies."""
    return value.lower() not in _NO


def read_layer(tags: Mapping[str, str]) -> int:
    """Return the layer; a bridge without one is above the ground, a tunnel below.

    >>> read_layer({"layer": "2"}), read_layer({"bridge": "yes"}), read_layer({"tunnel": "yes"}), read_layer({})
    (2, 1, -1, 0)
    """
    try:
        return int(max(-99.0, min(99.0, float(tags["layer"]))))
    except (KeyError, ValueError, OverflowError):
        return int(is_set(tags.get("bridge", ""))) - int(is_set(tags.get("tunnel", "")))
