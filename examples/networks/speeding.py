"""The function of speeding.yaml, and a sample of its input:

    python examples/networks/speeding.py positions.parquet
    slipstream network describe examples/networks/speeding.yaml --functions examples/networks/speeding.py \\
        --input positions=positions.parquet
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import slipstream as ss

Floats = npt.NDArray[np.float64]

WEST, SOUTH, SIZE = 13.1, 52.4, 0.5
#: the schools of a made-up town
SCHOOLS = WEST + SIZE * np.random.default_rng(1).random(300), SOUTH + SIZE * np.random.default_rng(2).random(300)
EARTH, NEAR = 6_371_000.0, 300.0


@ss.udf.scalar("boolean")
def near_school(lon: Floats, lat: Floats) -> npt.NDArray[np.bool_]:
    """Whether a place is within 300 metres of a school: the great-circle distance to every one of them."""
    nearest = np.full(lon.size, np.inf)
    for school_lon, school_lat in zip(*SCHOOLS, strict=True):
        north, east = np.radians(lat - school_lat) / 2, np.radians(lon - school_lon) / 2
        chord = np.sin(north) ** 2 + np.cos(np.radians(lat)) * np.cos(np.radians(school_lat)) * np.sin(east) ** 2
        np.minimum(nearest, chord, out=nearest)
    return np.asarray(2 * EARTH * np.arcsin(np.sqrt(nearest)) < NEAR)


def positions(count: int, vehicles: int = 500) -> pa.Table:
    """Vehicles all over the town, a report each a second."""
    random = np.random.default_rng(3)
    vid = np.arange(count) % vehicles
    columns = {
        "vid": vid,
        "time": np.arange(count) // vehicles,
        "lon": WEST + SIZE * random.random(count),
        "lat": SOUTH + SIZE * random.random(count),
        "speed": random.gamma(6, 6, count),
        "plate": [f"B-{number:06d}" for number in vid],
        "firm": ["private" if number % 3 else "taxi" for number in vid],
    }
    return pa.table(columns)


if __name__ == "__main__":
    pq.write_table(positions(100_000), sys.argv[1])
