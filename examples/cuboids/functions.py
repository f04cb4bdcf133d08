"""Your own function over atomic streams: `slipstream cuboid query ... --functions examples/cuboids/functions.py`."""

import numpy as np

import slipstream as ss


@ss.udf.atomic()
def spread(values: np.ndarray) -> np.ndarray:
    """Return the largest minus the smallest element; one row per key, latest first, NaN for missing elements."""
    return np.asarray(np.nanmax(values, axis=1) - np.nanmin(values, axis=1))
