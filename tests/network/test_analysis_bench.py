"""Is static analysis right? The rate it predicts for the examples, beside the rate that a run reaches."""

from __future__ import annotations

from pathlib import Path

import pytest

from measure import machine
from oracles.network_loads import border, linear_road, predicted, reached, speeding

#: the length of a batch, in seconds of the predicted rate: so long that what any batch costs (a second or more, in a
#: network of many boxes) does not decide
SECONDS = 15


@pytest.mark.bench
def test_the_predicted_rate_is_right_within_a_factor_of_two(spark, tmp_path: Path) -> None:
    print(f"\n{machine()}")
    ratios = {}
    for load in (border(), speeding(), linear_road()):
        name = load.network.name
        _, guess = predicted(spark, load)
        rate = reached(spark, load, tmp_path / name, guess * SECONDS, trains=3)
        ratios[name] = guess / rate
        print(f"{name:>12}: predicted {guess:>9,.0f} tuples/s, reached {rate:>9,.0f}, ratio {ratios[name]:.2f}")
    assert all(0.5 <= ratio <= 2 for ratio in ratios.values()), ratios
