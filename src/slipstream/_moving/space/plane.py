"""Degrees and metres: the plane that longitudes and latitudes are projected to, and how to detect degrees.

Moving points are in metres in a plane, and two of them can be compared only in the same plane. So a plane is a value:
code that reads degrees names it, and reads everything else into the same one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slipstream._errors import BadArgument, BadInput
from slipstream._tools.numba_tools import Bools, Floats, Longs

#: WGS 84: the semi-major axis in metres, and the flattening
_AXIS, _FLATTENING = 6_378_137.0, 1 / 298.257223563
_N = _FLATTENING / (2 - _FLATTENING)
_ECCENTRICITY = math.sqrt(_FLATTENING * (2 - _FLATTENING))
#: the length of a meridian over 2 pi
_RADIUS = _AXIS / (1 + _N) * (1 + _N**2 / 4 + _N**4 / 64)

#: Krüger's series to the fourth order (Karney, "Transverse Mercator with an accuracy of a few nanometers", 2011,
#: equations 35 and 36); the error is below a micrometre
_FORWARD = (
    _N / 2 - 2 / 3 * _N**2 + 5 / 16 * _N**3 + 41 / 180 * _N**4,
    13 / 48 * _N**2 - 3 / 5 * _N**3 + 557 / 1440 * _N**4,
    61 / 240 * _N**3 - 103 / 140 * _N**4,
    49561 / 161280 * _N**4,
)
_INVERSE = (
    _N / 2 - 2 / 3 * _N**2 + 37 / 96 * _N**3 - 1 / 360 * _N**4,
    1 / 48 * _N**2 + 1 / 15 * _N**3 - 437 / 1440 * _N**4,
    17 / 480 * _N**3 - 37 / 840 * _N**4,
    4397 / 161280 * _N**4,
)

#: the largest distance from the central meridian, in metres: lengths are off by 1 % there
FARTHEST = 900_000.0
#: degrees from the central meridian beyond which the series must not be tried
_WIDEST = 80.0

#: degrees per second below which movements count as degrees: a car at 100 km/h makes 0.0003
_SLOW = 0.01
#: the share of points that must lie on the globe: most files have a few broken fixes
_MOST = 0.9


@dataclass(frozen=True)
class Plane:
    """A transverse Mercator projection of WGS 84 and its inverse.

    ``Plane.utm(33)`` is a UTM zone, which other systems know by its EPSG code (``srid``); ``Plane.around(lon, lat)``
    has its origin at the given place. Coordinates can be compared exactly if their planes are equal.

    Lengths in the plane are those on the ellipsoid times ``scale * (1 + (x - x0)² / 2R²)``: a plane around a place is
    off by less than 0.02 % within 100 km and 0.1 % within 280 km east or west, at any distance north or south; a UTM
    zone by 0.04 % in the middle and 0.1 % at the edges. Places farther than 900 km (1 %) are rejected. A round trip is
    exact to a micrometre.

    >>> plane = Plane.utm(33)
    >>> x, y = plane.project(13.4, 52.5)
    >>> round(float(x)), round(float(y))
    (391391, 5817855)
    >>> lon, lat = plane.locate(x, y)
    >>> round(float(lon), 9), round(float(lat), 9)
    (13.4, 52.5)
    """

    #: the central meridian and the latitude of the origin, in degrees
    lon: float
    lat: float = 0.0
    scale: float = 1.0
    #: the coordinates of the origin, in metres
    x0: float = 0.0
    y0: float = 0.0
    #: its EPSG code, 0 if it has none
    srid: int = 0

    def __post_init__(self) -> None:
        if not (-180 <= self.lon <= 180 and -90 <= self.lat <= 90):
            raise BadArgument(
                f"Plane at lon {self.lon}, lat {self.lat}: not on the globe.",
                hint="Use degrees.",
                code="bad-coordinates",
            )

    @classmethod
    def utm(cls, zone: int, *, south: bool = False) -> Plane:
        """Return a UTM zone, 1 to 60, of the northern or southern hemisphere."""
        if not 1 <= zone <= 60:
            raise BadArgument(
                f"UTM zone {zone}: not in 1 to 60.", hint="Zone 33 is 12 to 18 degrees east.", code="bad-coordinates"
            )
        y0, srid = (10_000_000.0, 32700 + zone) if south else (0.0, 32600 + zone)
        return cls(6.0 * zone - 183.0, 0.0, 0.9996, 500_000.0, y0, srid)

    @classmethod
    def utm_at(cls, lon: float, lat: float) -> Plane:
        """Return the UTM zone that contains a place (six degrees each, without the exceptions for Norway).

        >>> Plane.utm_at(13.4, 52.5) == Plane.utm(33)
        True
        """
        if not (-180 <= lon <= 180 and -90 <= lat <= 90):
            raise BadArgument(f"lon {lon}, lat {lat}: not on the globe.", hint="Use degrees.", code="bad-coordinates")
        return cls.utm(min(int((lon + 180) // 6) + 1, 60), south=lat < 0)

    @classmethod
    def around(cls, lon: float, lat: float) -> Plane:
        """Return the plane with its origin at a place, true to scale there."""
        return cls(lon, lat)

    @property
    def crs(self) -> str | None:
        """Its name in GeoPandas and other libraries, such as ``EPSG:32633``; None if it has none."""
        return f"EPSG:{self.srid}" if self.srid else None

    def project(self, lon: npt.ArrayLike, lat: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Project degrees to metres east and north; reject places off the globe or too far from the meridian."""
        lon_, lat_ = np.asarray(lon, float), np.asarray(lat, float)
        _reject(~_on_globe(lon_, lat_), lon_, lat_, "not degrees")
        x, y = self.project_reachable(lon_, lat_)
        _reject(np.isnan(x), lon_, lat_, f"too far from the plane's meridian {self.lon:g}")
        return x, y

    def project_reachable(self, lon: Floats, lat: Floats) -> tuple[Floats, Floats]:
        """Project degrees to metres; places off the globe or too far from the meridian become NaN.

        >>> x, y = Plane.utm(33).project_reachable(np.array([15.0, 95.0]), np.array([0.0, 0.0]))
        >>> x.tolist(), y.tolist()
        ([500000.0, nan], [0.0, nan])
        """
        east = (lon - self.lon + 180) % 360 - 180
        near = _on_globe(lon, lat) & (np.abs(east) <= _WIDEST)
        xi, eta = _to_plane(np.radians(np.where(near, east, 0.0)), np.radians(np.where(near, lat, 0.0)))
        x, y = self.scale * _RADIUS * eta, self.scale * (_RADIUS * xi - _meridian(self.lat))
        near &= np.abs(x) <= FARTHEST
        return np.where(near, self.x0 + x, np.nan), np.where(near, self.y0 + y, np.nan)

    def locate(self, x: npt.ArrayLike, y: npt.ArrayLike) -> tuple[Floats, Floats]:
        """Return longitudes and latitudes of places in the plane: the inverse of :meth:`project`."""
        eta = (np.asarray(x, float) - self.x0) / (self.scale * _RADIUS)
        xi = ((np.asarray(y, float) - self.y0) / self.scale + _meridian(self.lat)) / _RADIUS
        lon, lat = _to_globe(xi, eta)
        return (np.degrees(lon) + self.lon + 180) % 360 - 180, np.degrees(lat)


def _on_globe(lon: Floats, lat: Floats) -> Bools:
    return np.asarray((np.abs(lon) <= 180) & (np.abs(lat) <= 90))


def _reject(bad: Bools, lon: Floats, lat: Floats, why: str) -> None:
    if np.any(bad):
        at = np.unravel_index(np.argmax(bad), np.shape(bad))
        lon_, lat_ = np.broadcast_arrays(lon, lat)
        raise BadInput(
            f"Place {int(at[0]) + 1 if at else 1}: lon {lon_[at]}, lat {lat_[at]}: {why}.",
            hint=f"Use a plane nearby, for example Plane.{_utm_name(lon_[at], lat_[at])}.",
            code="bad-coordinates",
        )


def _utm_name(lon: float, lat: float) -> str:
    """Return the code for the UTM zone that contains a place."""
    if not (abs(lon) <= 180 and abs(lat) <= 90):
        return "utm(33)"
    zone = Plane.utm_at(lon, lat).srid % 100
    return f"utm({zone}{', south=True' if lat < 0 else ''})"


def _conformal(tau: Floats) -> Floats:
    """Return the tangent of the conformal latitude, from that of the geographic latitude."""
    root = np.sqrt(1 + tau * tau)
    sigma = np.sinh(_ECCENTRICITY * np.arctanh(_ECCENTRICITY * tau / root))
    return np.asarray(tau * np.sqrt(1 + sigma * sigma) - sigma * root)


def _geographic(conformal: Floats) -> Floats:
    """Invert ``_conformal`` by Newton's method; two steps suffice, the third is for places near the poles."""
    tau, square = conformal / (1 - _ECCENTRICITY**2), 1 - _ECCENTRICITY**2
    for _ in range(3):
        here = _conformal(tau)
        step = (
            (conformal - here) / np.sqrt(1 + here * here) * (1 + square * tau * tau) / square / np.sqrt(1 + tau * tau)
        )
        tau = tau + step
    return np.asarray(tau)


def _series(terms: tuple[float, ...], xi: Floats, eta: Floats) -> tuple[Floats, Floats]:
    """Return Krüger's sums for both directions."""
    twice = [2 * (k + 1) for k in range(len(terms))]
    along = sum(a * np.sin(k * xi) * np.cosh(k * eta) for k, a in zip(twice, terms, strict=True))
    across = sum(a * np.cos(k * xi) * np.sinh(k * eta) for k, a in zip(twice, terms, strict=True))
    return np.asarray(along), np.asarray(across)


def _to_plane(lon: Floats, lat: Floats) -> tuple[Floats, Floats]:
    """Convert radians, east of the central meridian, to multiples of the radius north and east."""
    # at a pole, the floating-point tangent is finite and large enough
    tau = _conformal(np.tan(lat))
    xi, eta = np.arctan2(tau, np.cos(lon)), np.arcsinh(np.sin(lon) / np.hypot(tau, np.cos(lon)))
    along, across = _series(_FORWARD, xi, eta)
    return xi + along, eta + across


def _to_globe(xi: Floats, eta: Floats) -> tuple[Floats, Floats]:
    """Invert :func:`_to_plane`."""
    along, across = _series(_INVERSE, xi, eta)
    xi, eta = xi - along, eta - across
    tau = _geographic(np.sin(xi) / np.hypot(np.sinh(eta), np.cos(xi)))
    return np.arctan2(np.sinh(eta), np.cos(xi)), np.arctan(tau)


def _meridian(lat: float) -> float:
    """Return the metres from the equator to a latitude, along a meridian."""
    return float(_RADIUS * _to_plane(np.array(0.0), np.radians(np.array(lat)))[0])


def are_degrees(x: npt.ArrayLike, y: npt.ArrayLike, speed: npt.ArrayLike = ()) -> bool:
    """Return whether coordinates look like degrees; ``speed`` is that of movements in their unit per second, if known.

    They do if they lie on the globe, are not all integers, and most movements are slower than 0.01 per second. That
    holds for degrees at any speed below 1,000 m/s. It holds for metres only if all movement is slower than a
    centimetre per second and within 360 m of the origin; such data must be declared as metres.

    >>> are_degrees([13.37, 13.42], [52.51, 52.53], [0.00012])
    True
    >>> are_degrees([0.0, 36.5], [0.0, 40.25], [13.9]), are_degrees([0.0, 20.0], [0.0, 5.0])
    (False, False)
    """
    x_, y_, speed_ = (np.asarray(values, float) for values in (x, y, speed))
    known = np.isfinite(x_) & np.isfinite(y_)
    x_, y_, moving = x_[known], y_[known], speed_[np.isfinite(speed_) & (speed_ > 0)]
    if not len(x_) or not (np.mod(x_, 1).any() or np.mod(y_, 1).any()):
        return False
    on_the_globe = (np.abs(x_) <= 360) & (np.abs(y_) <= 90)
    return bool(on_the_globe.mean() >= _MOST and (not len(moving) or np.median(moving) < _SLOW))


def speeds(t: Longs, x: Floats, y: Floats, group: npt.NDArray[np.generic] | None = None) -> Floats:
    """Return the speed from each vertex to the next in time (microseconds) within a ``group``."""
    order = np.argsort(t, kind="stable") if group is None else np.lexsort((t, group))
    seconds = np.diff(t[order]) / 1e6
    with np.errstate(all="ignore"):
        found = np.hypot(np.diff(x[order]), np.diff(y[order])) / seconds
    same = True if group is None else group[order][1:] == group[order][:-1]
    return np.asarray(found[(seconds > 0) & same])


def refuse_degrees(
    where: str, x: npt.ArrayLike, y: npt.ArrayLike, speed: npt.ArrayLike = (), *, columns: str, hint: str
) -> None:
    """Reject coordinates that look like degrees; ``hint`` explains how to project them or declare them as metres."""
    if not are_degrees(x, y, speed):
        return
    lon, lat = np.nanmedian(np.asarray(x, float)), np.nanmedian(np.asarray(y, float))
    zone = _utm_name(float((lon + 180) % 360 - 180), float(np.clip(lat, -90, 90)))
    raise BadInput(
        f"{where}: {columns} look like degrees (around {lon:.4f}, {lat:.4f}), not metres.",
        hint=hint.replace("{plane}", f"Plane.{zone}"),
        code="bad-coordinates",
    )
