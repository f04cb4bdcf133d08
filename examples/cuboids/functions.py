"""User-defined functions over atomic streams: `slipstream cuboid query ... --functions examples/cuboids/functions.py`."""

import numpy as np

from slipstream._cuboid.query.stream_functions import atomic


@atomic("spread")
def spread(values: np.ndarray) -> np.ndarray:
    """Return the largest minus the smallest element; one row per key, latest first, NaN for missing elements."""
    return np.nanmax(values, axis=1) - np.nanmin(values, axis=1)
