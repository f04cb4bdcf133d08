"""Points per second of operators, on one core and in process time; nothing here asserts a speed.

pytest -m bench -s tests/moving/test_speed.py
"""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

from measure import machine
from moving.test_operators import OPERATORS, periods
from slipstream._moving import columns, types
from slipstream._moving.columns import MPoints

pytestmark = pytest.mark.bench
TRIPS, VERTICES = 2_000, 500


def random_walks(seed):
    """Trips that turn and stop now and then, a vertex per second."""
    rng = np.random.default_rng(seed)
    n = TRIPS * VERTICES
    rows = np.arange(0, n + 1, VERTICES, dtype=np.int32)
    moves = rng.random(n) > 0.2
    turn = np.cumsum(rng.normal(0, 0.2, n))
    x, y = (np.cumsum(np.where(moves, 10 * f(turn), 0)).reshape(TRIPS, -1) for f in (np.cos, np.sin))
    t = np.tile(np.arange(VERTICES, dtype=np.int64) * 1_000_000, TRIPS)
    parts = np.arange(TRIPS + 1, dtype=np.int32)
    x, y = (values - values[:, :1] for values in (x, y))
    return columns.write(MPoints(rows, t, x.ravel(), y.ravel(), parts, np.zeros(TRIPS, np.int32)), types.MPOINT)


def every(value):
    return pa.array([float(value)] * TRIPS)


def test_points_per_second():
    a, b = random_walks(1), random_walks(2)
    speed = OPERATORS["speed"](a)
    half = periods((100_000_000, 350_000_000)).take(pa.array(np.zeros(TRIPS, np.int32)))
    calls = {
        "atperiods": (a, half),
        "minusperiods": (a, half),
        "travelled": (a,),
        "distance": (a, b),
        "speed": (a,),
        "acceleration": (a,),
        "direction": (a,),
        "twavg": (speed,),
        "tgt": (speed, every(5)),
        "atperiods_tfloat": (speed, half),
        "dwithin": (a, b, every(30)),
        "nearest_approach_distance": (a, b),
        "stops": (a, every(20), every(30)),
        "simplify": (a, every(10)),
        "simplify_in_time": (a, every(10)),
        "squish": (a, every(50)),
        "resample": (a, every(7)),
        "smooth": (a, every(10)),
        "split_by_space": (a, every(200)),
        "hausdorff": (a, b),
        "frechet": (a, b),
    }
    print(f"\n{machine()}; {TRIPS} trips of {VERTICES} vertices, process time on one core")
    for name, arguments in calls.items():
        OPERATORS[name](*(argument.slice(0, 1) for argument in arguments))  # compile
        began = time.process_time()
        OPERATORS[name](*arguments)
        print(f"{name:28} {TRIPS * VERTICES / (time.process_time() - began) / 1e6:8.2f} M points/s")
