"""Quantiles of weighted values, in one definition for every report: no interpolation, so a quantile is a value seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

#: so that a share of a total which rounding left just above a whole number does not reach for the next value
_ROUNDING = 1e-9


def quantiles(values: npt.ArrayLike, shares: Sequence[float], weights: npt.ArrayLike | None = None) -> list[Any]:
    """Return, for each share, the smallest value that at least this share of all values do not exceed.

    >>> quantiles([3.0, 1.0, 2.0], (0.5, 0.99, 1), weights=[1, 98, 1])
    [1.0, 2.0, 3.0]
    >>> quantiles([4, 8], (0, 0.5, 0.51))
    [4, 4, 8]
    """
    known, shares_ = np.asarray(values), np.asarray(shares)
    order = np.argsort(known, kind="stable")
    reached = np.cumsum(np.ones(known.size) if weights is None else np.asarray(weights)[order])
    wanted = shares_ * reached[-1] * (1 - _ROUNDING)
    # no share at all is the smallest value that has a weight
    first = np.searchsorted(reached, 0, side="right")
    places = np.clip(np.searchsorted(reached, wanted), first, known.size - 1)
    found: list[Any] = known[order][places].tolist()
    return found
