"""Narrow tables: what arrives is what was sent, in fewer bytes where values are small."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slipstream._io import chunks
from slipstream._io.chunks import narrow, read_arrow_stream, to_arrow_stream

LOW, HIGH = -(1 << 63), (1 << 63) - 1
#: values around a base, a few or many bits wide
RANGES = st.tuples(st.integers(LOW, HIGH), st.sampled_from([0, 255, 256, 65_535, 65_536, (1 << 32) - 1, 1 << 32, HIGH]))


@given(RANGES, st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=30))
@example((LOW, 2 * HIGH), [0.0, 1.0, None])
@example((HIGH - 255, 255), [0.0, 1.0])
@settings(max_examples=200)
def test_narrow_columns_arrive_as_they_were(ends: tuple[int, int], shares: list[float | None]) -> None:
    low, span = ends
    values = [None if share is None else min(low + int(share * span), HIGH) for share in shares]
    texts, facts = [str(value) for value in values], [value is None for value in values]
    table = pa.table({"n": pa.array(values, pa.int64()), "x": pa.array(shares, pa.float64()), "t": texts, "b": facts})
    table = pa.concat_tables([table, table])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "FEW", 1)
        assert read_arrow_stream(to_arrow_stream(narrow(table))) == table


def test_small_values_take_few_bytes() -> None:
    count = 100_000
    many = pa.table({"time": range(1_700_000_000, 1_700_000_000 + count), "lane": [1] * count, "none": [-1] * count})
    assert len(to_arrow_stream(narrow(many))) < 7 * count < len(to_arrow_stream(many))
