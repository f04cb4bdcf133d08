"""Distances on the globe: geodesics of the WGS84 spheroid between points in degrees.

Distances are Vincenty's inverse formula, and GeographicLib's where that does not converge (points almost opposite each
other). Most decisions about a distance need no geodesic: on the spheroid a path is at least as long as the smallest,
and at most as long as the largest radius of curvature times its length on the unit sphere.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyproj

from slipstream._tools.numba_tools import Bools, Floats, compiled

_A = 6_378_137.0
_F = 1 / 298.257223563
_B = _A * (1 - _F)
#: the radii of curvature: the smallest along the meridian at the equator, the largest at the poles
_LEAST, _MOST = _B * _B / _A * (1 - 1e-12), _A * _A / _B * (1 + 1e-12)
_ROUNDS = 50
#: the length of an arc follows the last turn but one
_CONVERGED = 1e-14
_DEGREE = math.pi / 180

#: a point of the unit sphere
Vector: TypeAlias = tuple[float, float, float]


@compiled
def geodesic(lon1: float, lat1: float, lon2: float, lat2: float) -> float:
    """Return the distance of two points in metres, the same both ways; NaN if the formula does not converge."""
    if lon1 == lon2 and lat1 == lat2:
        return 0.0
    if lon1 > lon2 or (lon1 == lon2 and lat1 > lat2):
        lon1, lat1, lon2, lat2 = lon2, lat2, lon1, lat1
    apart = (lon2 - lon1 + 180.0) % 360.0 - 180.0 if abs(lon2 - lon1) > 180.0 else lon2 - lon1
    long = apart * _DEGREE
    tan1, tan2 = (1 - _F) * math.tan(lat1 * _DEGREE), (1 - _F) * math.tan(lat2 * _DEGREE)
    cos1, cos2 = 1 / math.sqrt(1 + tan1 * tan1), 1 / math.sqrt(1 + tan2 * tan2)
    sin1, sin2 = tan1 * cos1, tan2 * cos2
    turn = long
    for _ in range(_ROUNDS):
        sin_turn, cos_turn = math.sin(turn), math.cos(turn)
        across, along = cos2 * sin_turn, cos1 * sin2 - sin1 * cos2 * cos_turn
        sin_arc = math.sqrt(across * across + along * along)
        if sin_arc == 0.0:
            return 0.0 if abs(turn) < 1.0 else math.nan
        cos_arc = sin1 * sin2 + cos1 * cos2 * cos_turn
        arc = math.atan2(sin_arc, cos_arc)
        sin_azimuth = cos1 * cos2 * sin_turn / sin_arc
        cos2_azimuth = 1 - sin_azimuth * sin_azimuth
        middle = cos_arc - 2 * sin1 * sin2 / cos2_azimuth if cos2_azimuth > 0.0 else 0.0
        c = _F / 16 * cos2_azimuth * (4 + _F * (4 - 3 * cos2_azimuth))
        before = turn
        inner = middle + c * cos_arc * (2 * middle * middle - 1)
        turn = long + (1 - c) * _F * sin_azimuth * (arc + c * sin_arc * inner)
        if abs(turn) > math.pi:
            return math.nan
        if abs(turn - before) < _CONVERGED:
            return _length(arc, sin_arc, cos_arc, middle, cos2_azimuth)
    return math.nan


@compiled
def _length(arc: float, sin_arc: float, cos_arc: float, middle: float, cos2_azimuth: float) -> float:
    """Return the length of a geodesic from its arc on the auxiliary sphere (Vincenty's equations 3, 4, 6 and 19)."""
    u2 = cos2_azimuth * (_A * _A - _B * _B) / (_B * _B)
    a = 1 + u2 / 16384 * (4096 + u2 * (-768 + u2 * (320 - 175 * u2)))
    b = u2 / 1024 * (256 + u2 * (-128 + u2 * (74 - 47 * u2)))
    m2 = 2 * middle * middle - 1
    third = b / 6 * middle * (4 * sin_arc * sin_arc - 3) * (4 * middle * middle - 3)
    return _B * a * (arc - b * sin_arc * (middle + b / 4 * (cos_arc * m2 - third)))


@compiled
def _geodesics(lon1: Floats, lat1: Floats, lon2: Floats, lat2: Floats) -> Floats:
    out = np.empty(lon1.size)
    for i in range(lon1.size):
        out[i] = geodesic(lon1[i], lat1[i], lon2[i], lat2[i])
    return out


def distances(lon1: npt.ArrayLike, lat1: npt.ArrayLike, lon2: npt.ArrayLike, lat2: npt.ArrayLike) -> Floats:
    """Return the distances of pairs of points in metres; NaN where a coordinate is not a number.

    >>> distances(13.4, [52.5, 52.5], [13.4, 13.5], 52.5).round(3).tolist()
    [0.0, 6791.023]
    """
    given = np.broadcast_arrays(*(np.atleast_1d(np.asarray(each, np.float64)) for each in (lon1, lat1, lon2, lat2)))
    ends = [np.ascontiguousarray(each) for each in given]
    found = _geodesics(*ends)
    failed = np.flatnonzero(np.isnan(found) & np.isfinite(np.stack(ends)).all(axis=0))
    if failed.size:
        one, two, three, four = (each[failed] for each in ends)
        found[failed] = pyproj.Geod(ellps="WGS84").inv(one, two, three, four)[2]
    return found


@compiled
def unit_arc(lon1: float, lat1: float, lon2: float, lat2: float) -> float:
    """Return the distance of two points on the unit sphere."""
    up = math.sin((lat2 - lat1) * _DEGREE / 2)
    over = math.sin((lon2 - lon1) * _DEGREE / 2)
    half = up * up + math.cos(lat1 * _DEGREE) * math.cos(lat2 * _DEGREE) * over * over
    return 2 * math.asin(math.sqrt(1.0 if half > 1.0 else half))


#: what is known about a distance and a limit without a geodesic
_NO, _YES, _UNSURE = 0, 1, 2


@compiled
def _compare(arc: float, metres: float) -> int:
    """Return whether a path with this length on the unit sphere is within ``metres`` on the spheroid."""
    if arc * _LEAST > metres:
        return _NO
    return _YES if arc * _MOST <= metres else _UNSURE


@compiled
def are_within(lon1: float, lat1: float, lon2: float, lat2: float, metres: float) -> bool:
    """Return whether two points are at most ``metres`` apart."""
    if not abs(lat2 - lat1) * _DEGREE * _LEAST <= metres:  # farther apart along the meridian alone, or not a number
        return False
    known = _compare(unit_arc(lon1, lat1, lon2, lat2), metres)
    # where the formula does not converge, points are half the globe apart
    return bool(known == _YES or (known == _UNSURE and geodesic(lon1, lat1, lon2, lat2) <= metres))


@compiled
def near_point(lon: Floats, lat: Floats, at_lon: float, at_lat: float, metres: float) -> Bools:
    """Return which points are at most ``metres`` from a point.

    >>> near_point(np.array([13.4, 13.5]), np.array([52.5, 52.5]), 13.4, 52.5, 5_000.0).tolist()
    [True, False]
    """
    out = np.empty(lon.size, np.bool_)
    for i in range(lon.size):
        out[i] = are_within(lon[i], lat[i], at_lon, at_lat, metres)
    return out


@compiled
def _to_vector(lon: float, lat: float) -> Vector:
    """Return a point of the unit sphere."""
    across = math.cos(lat * _DEGREE)
    return across * math.cos(lon * _DEGREE), across * math.sin(lon * _DEGREE), math.sin(lat * _DEGREE)


@compiled
def _cross(a: Vector, b: Vector) -> Vector:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@compiled
def _dot(a: Vector, b: Vector) -> float:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled
def near_segment(lon: Floats, lat: Floats, lon1: float, lat1: float, lon2: float, lat2: float, metres: float) -> Bools:
    """Return which points are at most ``metres`` from the edge between two points.

    The edge is part of a great circle of the sphere. The distance is that of the spheroid to the edge's closest point.

    >>> near_segment(np.array([13.4, 13.4]), np.array([52.51, 52.6]), 13.3, 52.5, 13.5, 52.5, 5_000.0).tolist()
    [True, False]
    """
    first, last = _to_vector(lon1, lat1), _to_vector(lon2, lat2)
    pole = _cross(first, last)
    size = math.sqrt(_dot(pole, pole))
    if size == 0.0:
        return near_point(lon, lat, lon1, lat1, metres)
    pole = (pole[0] / size, pole[1] / size, pole[2] / size)
    after_first, before_last = _cross(pole, first), _cross(last, pole)
    out = np.empty(lon.size, np.bool_)
    for i in range(lon.size):
        here = _to_vector(lon[i], lat[i])
        if _dot(after_first, here) < 0.0 or _dot(before_last, here) < 0.0:  # the foot is not on the edge
            out[i] = are_within(lon[i], lat[i], lon1, lat1, metres) or are_within(lon[i], lat[i], lon2, lat2, metres)
        else:
            out[i] = _is_near_foot(lon[i], lat[i], here, pole, metres)
    return out


@compiled
def _is_near_foot(lon: float, lat: float, here: Vector, pole: Vector, metres: float) -> bool:
    """Return whether a point is at most ``metres`` from its foot on the great circle around ``pole``."""
    off = _dot(pole, here)
    known = _compare(abs(math.asin(max(-1.0, min(1.0, off)))), metres)
    if known != _UNSURE:
        return bool(known == _YES)
    x, y, z = here[0] - off * pole[0], here[1] - off * pole[1], here[2] - off * pole[2]
    foot_lon, foot_lat = math.atan2(y, x) / _DEGREE, math.atan2(z, math.sqrt(x * x + y * y)) / _DEGREE
    return bool(geodesic(lon, lat, foot_lon, foot_lat) <= metres)
