"""What several tasks measured, put together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slipstream._network.quality.monitor import QUANTILES, Measured

Times = st.lists(st.integers(0, 10**6), min_size=1, max_size=60)


@given(parts=st.lists(Times, min_size=1, max_size=4))
def test_parts_are_measured_nearly_as_their_sum_is(parts: list[list[int]]) -> None:
    measured = [Measured.measure(np.array(part), pa.array(part, pa.float64())) for part in parts]
    found = Measured.merge(measured)
    every = np.array([moment for part in parts for moment in part])
    whole = Measured.measure(every, None)
    assert (found.tuples, found.oldest) == (whole.tuples, whole.oldest)
    assert np.isclose(found.arrival, whole.arrival)
    assert len(found.arrivals) == QUANTILES
    assert found.arrivals == sorted(found.arrivals)
    assert found.values == found.arrivals
    # a quantile of a part stands for a twentieth of it, so that the sum's are met but for such a share
    for share, moment in zip(np.linspace(0, 1, QUANTILES), found.arrivals, strict=True):
        assert (every < moment).mean() <= share + 0.11
        assert (every <= moment).mean() >= share - 0.11


def test_what_has_no_values_has_none_together() -> None:
    parts = [Measured.measure(np.array([1, 2]), None), Measured.measure(np.array([3]), None)]
    assert Measured.merge(parts).values == []
