"""Rows into trains and back, without Spark: nothing is lost, order is kept, and what cannot be kept has a reason."""

from __future__ import annotations

import json

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.cuboid import declare
from slipstream.cuboid.schema import KEY
from slipstream.cuboid.stream import Fragmentation, Packer

CAR = declare.parse("CREATE CUBOID car (vid BIGINT KEY, speed UTINYINT AST(3), heat FLOAT, pos INT)").cuboids["car"]

rows = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | st.integers(-5, 300),
        st.none() | st.floats(allow_nan=False, allow_infinity=False, width=64),
        st.none() | st.integers(-(2**33), 2**33),
    ),
    max_size=40,
)


def reason(row: tuple[int | None, int | None, float | None, int | None]) -> str | None:
    """The first thing that is wrong with a row."""
    vid, speed, heat, pos = row
    checks = (
        ("no vid", vid is None),
        ("no speed", speed is None),
        ("speed does not fit into uint8", speed is not None and not 0 <= speed <= 255),
        ("no heat", heat is None),
        ("heat does not fit into float32", heat is not None and abs(heat) >= 3.4028235677973366e38),
        ("no pos", pos is None),
        ("pos does not fit into int32", pos is not None and not -(2**31) <= pos < 2**31),
    )
    return next((name for name, wrong in checks if wrong), None)


@given(rows, st.sampled_from([Fragmentation((4, 9, 1)), Fragmentation((4, 9, 1), bounds=(-5, 1000))]))
@settings(max_examples=60)
def test_every_row_is_in_one_train_or_rejected(
    given_rows: list[tuple[int | None, int | None, float | None, int | None]], fragmentation: Fragmentation
) -> None:
    packer = Packer(CAR, fragmentation)
    columns = list(zip(*given_rows, strict=True)) or [()] * 4
    types = (pa.int64(), pa.int64(), pa.float64(), pa.int64())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    batch = pa.record_batch(arrays, names=["vid", "speed", "heat", "pos"])
    kept, rejected = dict[int, list[tuple[int, int, int]]](), list[str]()
    for train in (row for made in packer(iter([batch])) for row in made.to_pylist()):
        if train["rejects"]:
            rejected += [json.loads(line)["reason"] for line in train["payload"].splitlines()]
            continue
        found = packer.unpack(train["tuples"], train["payload"])
        kept[train["key"]] = list(zip(*(found[name].tolist() for name in (KEY, "speed", "pos")), strict=True))
    reasons = [reason(row) for row in given_rows]
    assert rejected == [why for why in reasons if why]
    good = [row for row, why in zip(given_rows, reasons, strict=True) if why is None]
    expected: dict[int, list[tuple[int, int, int]]] = {}
    for vid, speed, _, pos in good:
        assert vid is not None
        assert speed is not None
        assert pos is not None
        expected.setdefault(place(vid, fragmentation), []).append((vid, speed, pos))
    if fragmentation.bounds:
        assert kept == expected
    else:
        assert sorted(tuple_ for train in kept.values() for tuple_ in train) == sorted((v, s, p) for v, s, _, p in good)
        where = {vid: label for label, train in kept.items() for vid, _, _ in train}
        assert all(where[vid] == label for label, train in kept.items() for vid, _, _ in train), "one place for a key"


def place(vid: int, fragmentation: Fragmentation) -> int:
    return fragmentation.labels[sum(vid >= bound for bound in fragmentation.bounds)]
