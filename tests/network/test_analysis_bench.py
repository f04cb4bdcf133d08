"""Is static analysis right? The rate it predicts for the examples, beside the rate that a run reaches."""

from __future__ import annotations

from pathlib import Path

import pytest

from measure import machine
from oracles.network_loads import LONGEST, border, linear_road, predicted, reached, speeding

#: the length of a batch, in seconds of the predicted rate: so long that what any batch costs (a second or more, in a
#: network of many boxes) does not decide
SECONDS = 15
#: in shorter batches the fixed cost of a batch decides, which limits no rate
JUDGED_S = 1.0


@pytest.mark.bench
def test_the_predicted_rate_is_right_within_a_factor_of_two(spark, tmp_path: Path) -> None:
    print(f"\n{machine()}")
    ratios = {}
    for load in (border(), speeding(), linear_road()):
        name = load.network.name
        _, guess = predicted(spark, load)
        rate = reached(spark, load, tmp_path / name, guess * SECONDS, trains=3)
        is_judged = min(guess * SECONDS, LONGEST) / rate >= JUDGED_S
        ratios |= {name: guess / rate} if is_judged else {}
        print(
            f"{name:>12}: predicted {guess:>9,.0f} tuples/s, reached {rate:>9,.0f}, ratio {guess / rate:.2f}"
            + ("" if is_judged else " (batches too short to judge)")
        )
    assert ratios
    assert all(0.5 <= ratio <= 2 for ratio in ratios.values()), ratios
