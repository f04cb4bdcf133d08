"""Quantiles against counting: every value as often as its weight, sorted."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from slipstream._tools.quantiles import quantiles

weighted = st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 40)), min_size=1).filter(
    lambda pairs: any(weight for _, weight in pairs)
)


@given(weighted, st.integers(0, 100))
def test_a_quantile_is_the_first_value_that_enough_values_do_not_exceed(
    pairs: list[tuple[int, int]], percent: int
) -> None:
    every = sorted(value for value, weight in pairs for _ in range(weight))
    enough = Fraction(percent, 100) * len(every)
    expected = next(value for at, value in enumerate(every, start=1) if at >= enough)
    values, weights = zip(*pairs, strict=True)
    assert quantiles(values, [percent / 100], weights) == [expected]
    assert quantiles(every, [percent / 100]) == [expected]
