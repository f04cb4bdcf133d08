"""Your own function over atomic streams: `slipstream cuboid query ... --functions examples/cuboids/functions.py`."""

import numpy as np

import slipstream as ss


@ss.udf.atomic()
def spread(values: np.ndarray) -> np.ndarray:
    """Greatest less least of the elements; a row per key, the latest first, NaN where there is none."""
    return np.asarray(np.nanmax(values, axis=1) - np.nanmin(values, axis=1))
