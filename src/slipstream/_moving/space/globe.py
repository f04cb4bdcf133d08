"""From moving points in a plane back to the globe: longitudes and latitudes, and lengths on the ellipsoid."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slipstream._errors import BadArgument
from slipstream._moving import columns, types
from slipstream._moving.columns import MPoints
from slipstream._moving.space.geodesic import distances
from slipstream._moving.space.systems import System
from slipstream._tools.numba_tools import Bools, Floats

#: a moving point in degrees; no operator takes it for one in metres
LONLAT = types.Type(
    "lonlat",
    types.MPOINT.sql.replace("x:", "lon:").replace("y:array<d", "lat:array<d"),
    pa.struct([field.with_name({"x": "lon", "y": "lat"}.get(field.name, field.name)) for field in types.MPOINT.arrow]),
)


def to_lonlat(trips: pa.Array, crs: pa.Array) -> pa.Array:
    """Longitudes and latitudes of a moving point in a reference system: ``to_lonlat(trip, 'EPSG:32633')``."""
    m, nulls = columns.read(trips), _nulls(trips, crs)
    lon, lat = _locate(m, crs)
    found = columns.write(m._replace(x=lon, y=lat), types.MPOINT)
    fields = [found.field(number) for number in range(found.type.num_fields)]
    return pa.StructArray.from_arrays(fields, fields=list(LONLAT.arrow), mask=pa.array(nulls))


def geodesic_length(trips: pa.Array, crs: pa.Array) -> pa.Array:
    """The distance travelled on the ellipsoid, in metres: ``geodesic_length(trip, 'EPSG:32633')``."""
    m, nulls = columns.read(trips), _nulls(trips, crs)
    lon, lat = _locate(m, crs)
    return pa.array(_row_lengths(m, lon, lat), mask=nulls)


def _row_lengths(m: MPoints, lon: Floats, lat: Floats) -> Floats:
    """The length of each row: steps between vertices, but not those between sequences."""
    steps = np.zeros(len(lon) + 1)  # to each vertex from the one before; the last is for rows without vertices
    if len(lon) > 1:
        steps[1:-1] = distances(lon[:-1], lat[:-1], lon[1:], lat[1:])
    first, last = m.parts[0], m.parts[-1]
    steps[np.repeat(m.rows[:-1], np.diff(m.parts)) + m.starts[first:last]] = 0.0
    return np.where(np.diff(m.rows) > 0, np.add.reduceat(steps, m.rows[:-1]), 0.0)


def _locate(m: MPoints, crs: pa.Array) -> tuple[Floats, Floats]:
    names = pc.unique(crs.drop_null()).to_pylist()
    if len(names) > 1:
        raise BadArgument(
            f"crs: several reference systems for one column: {', '.join(names[:3])}.",
            hint="Give the system of the column, as text.",
            code="bad-coordinates",
        )
    return System.parse(names[0]).locate(m.x, m.y) if names else (m.x, m.y)


def _nulls(*arrays: pa.Array) -> Bools:
    nulls: Bools = np.zeros(len(arrays[0]), np.bool_)
    for array in arrays:
        nulls |= array.is_null().to_numpy(zero_copy_only=False)
    return nulls
