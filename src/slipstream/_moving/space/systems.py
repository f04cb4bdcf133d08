"""Reference systems: what the coordinates of a table mean, and the way from one system to another, by PROJ.

Moving points are in metres in a plane, so a column of them has one projected system, whose name is part of the column's
metadata and of every file. UTM zones are computed by :class:`Plane`, which agrees with PROJ to a micrometre; all other
systems by PROJ itself. Coordinates are always in the order east, north.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from slipstream._errors import BadArgument
from slipstream._moving.space.plane import Plane
from slipstream._tools.numba_tools import Floats

if TYPE_CHECKING:
    from pyproj import CRS

#: longitudes and latitudes as GPS receivers report them
WGS84 = "EPSG:4326"
#: the key of a column's metadata that names its system
CRS_KEY = "crs"

_UTM = re.compile(r"EPSG:32([67])(\d\d)")


@dataclass(frozen=True)
class System:
    """A reference system, by its code (``EPSG:25833``) or, if it has none, its definition.

    >>> System.parse(32633).name, System.parse("EPSG:4326").is_geographic
    ('EPSG:32633', True)
    >>> x, y = System.parse("EPSG:25833").project([13.4], [52.5])
    >>> [round(float(x[0])), round(float(y[0]))]
    [391391, 5817855]
    """

    name: str

    @classmethod
    def parse(cls, given: str | int | Plane | System) -> System:
        """Return the system that an EPSG code, a name, a definition or a plane means."""
        if isinstance(given, System):
            return given
        if isinstance(given, Plane):
            return cls(given.crs or _define(given))
        return cls(_canonical_name(given if isinstance(given, str) else f"EPSG:{given}"))

    @property
    def is_geographic(self) -> bool:
        """Whether coordinates are degrees."""
        return bool(_definition(self.name).is_geographic)

    @property
    def is_metric(self) -> bool:
        """Whether coordinates are metres in a plane."""
        axes = _definition(self.name).axis_info
        return not self.is_geographic and all(axis.unit_conversion_factor == 1.0 for axis in axes)

    @property
    def title(self) -> str:
        """The name for people.

        >>> System.parse("EPSG:32633").title
        'WGS 84 / UTM zone 33N'
        """
        return str(_definition(self.name).name)

    @property
    def srid(self) -> int:
        """The EPSG code, 0 if it has none."""
        authority, _, code = self.name.partition(":")
        return int(code) if authority == "EPSG" and code.isdigit() else 0

    @property
    def plane(self) -> Plane | None:
        """The plane that computes it without PROJ: that of a UTM zone."""
        found = _UTM.fullmatch(self.name)
        zone = int(found[2]) if found else 0
        return Plane.utm(zone, south=found[1] == "7") if found and 1 <= zone <= 60 else None

    def to_json(self) -> dict[str, Any]:
        """Return it as PROJJSON, which GeoParquet and Parquet's GEOMETRY use."""
        found: dict[str, Any] = _definition(self.name).to_json_dict()
        return found

    def project(self, lon: npt.ArrayLike, lat: npt.ArrayLike, *, source: str = WGS84) -> tuple[Floats, Floats]:
        """Convert longitudes and latitudes, or coordinates of ``source``; NaN where the system does not reach."""
        first, second = np.atleast_1d(np.asarray(lon, float)), np.atleast_1d(np.asarray(lat, float))
        if source == self.name:
            return first, second
        if source == WGS84 and (plane := self.plane) is not None:
            return plane.project_reachable(first, second)
        return _transform(source, self.name, first, second)

    def locate(self, x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return longitudes and latitudes (WGS 84) of coordinates: the inverse of :meth:`project`.

        >>> lon, lat = System.parse(3857).locate([0.0], [0.0])
        >>> lon.tolist(), lat.tolist()
        ([0.0], [0.0])
        """
        first, second = np.atleast_1d(np.asarray(x, float)), np.atleast_1d(np.asarray(y, float))
        if (plane := self.plane) is not None:
            return plane.locate(first, second)
        return System(WGS84).project(first, second, source=self.name)

    def __str__(self) -> str:
        return self.name if len(self.name) < 40 else self.title


def require_metric(system: System, what: str) -> System:
    """Return a system in metres; refuse any other, as all distances are metres."""
    if not system.is_metric:
        raise BadArgument(
            f"{what} {system}: its coordinates are not metres in a plane.",
            hint="Use a projected system in metres, such as EPSG:32633 (UTM zone 33) or EPSG:3035 (Europe).",
            code="bad-coordinates",
            found=system.name,
        )
    return system


def _define(plane: Plane) -> str:
    """Return the definition of a plane without a code."""
    return _canonical_name(
        f"+proj=tmerc +lat_0={plane.lat!r} +lon_0={plane.lon!r} +k={plane.scale!r} +x_0={plane.x0!r} +y_0={plane.y0!r} "
        "+datum=WGS84 +units=m +no_defs +type=crs"
    )


@lru_cache(maxsize=256)
def _canonical_name(given: str) -> str:
    """Return one name for everything that means the same system: its code, or else its definition."""
    crs = _parse(given)
    authority = crs.to_authority(min_confidence=100)
    return ":".join(authority) if authority else str(crs.to_wkt())


def _parse(given: str) -> CRS:
    import pyproj

    try:
        return pyproj.CRS.from_user_input(given)
    except pyproj.exceptions.CRSError as error:
        raise BadArgument(
            f"crs {given!r}: not a reference system that PROJ knows.",
            hint="Give an EPSG code such as EPSG:4326 (degrees) or EPSG:32633 (UTM zone 33).",
            code="unknown-value",
            found=given,
        ) from error


@lru_cache(maxsize=256)
def _definition(name: str) -> CRS:
    return _parse(name)


@lru_cache(maxsize=64)
def _transformer(source: str, target: str) -> Any:
    import pyproj

    return pyproj.Transformer.from_crs(_definition(source), _definition(target), always_xy=True)


def _transform(source: str, target: str, first: Floats, second: Floats) -> tuple[Floats, Floats]:
    x, y = _transformer(source, target).transform(first, second)
    good = np.isfinite(x) & np.isfinite(y)
    return np.where(good, x, np.nan), np.where(good, y, np.nan)
