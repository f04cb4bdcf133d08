"""Moving points as PyMEOS's objects, and back, by MEOS-WKB.

PyMEOS requires its user to call ``pymeos_initialize()`` once, so this module does not call it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slipstream._errors import BadArgument, BadInput
from slipstream._moving.moving_point import MovingPoint
from slipstream._moving.space.systems import System, require_metric
from slipstream._tools.extras import require
from slipstream._trajectories.exchange.binary import decode_meos, encode_meos


def to_pymeos(points: Mapping[Any, MovingPoint], crs: str) -> dict[Any, Any]:
    """Return temporal points of PyMEOS by id: a sequence, or a set of sequences; empty points are left out."""
    require("meos", "Converting to PyMEOS")
    import pymeos

    srid = System.parse(crs).srid if crs else 0
    kinds = {True: pymeos.TGeomPointSeq, False: pymeos.TGeomPointSeqSet}
    return {
        name: kinds[len(m.starts) == 1].from_wkb(encode_meos(m, srid)) for name, m in points.items() if len(m.starts)
    }


def from_pymeos(points: Mapping[Any, Any]) -> tuple[dict[str, MovingPoint], str]:
    """Return the moving points of PyMEOS's temporal points, and their reference system."""
    found = {}
    for name, point in points.items():
        if not hasattr(point, "as_wkb"):
            raise BadArgument(
                f"{name}: a {type(point).__name__} is not a temporal point of PyMEOS.",
                hint="Give TGeomPointInst, TGeomPointSeq or TGeomPointSeqSet.",
                code="bad-type",
            )
        found[str(name)] = decode_meos(point.as_wkb())
    return {name: m for name, (m, _) in found.items()}, common_system("PyMEOS", {srid for _, srid in found.values()})


def common_system(where: str, srids: set[int]) -> str:
    """Return the one reference system of some values, empty if it has no name; refuse several, and degrees."""
    if len(srids) > 1:
        raise BadInput(
            f"{where}: trips in several reference systems: {', '.join(map(str, sorted(srids)))}.",
            hint="Read the trips of each system separately.",
            code="bad-coordinates",
        )
    srid = srids.pop() if srids else 0
    return require_metric(System.parse(srid), f"{where}: SRID").name if srid else ""
