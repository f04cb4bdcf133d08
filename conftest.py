"""What examples in docstrings need: a folder for the files that they write, and trips for functions of columns."""

from __future__ import annotations

from typing import Any

import pytest

from slipstream._spark import session


@pytest.fixture(autouse=True)
def _folder_for_examples(request: pytest.FixtureRequest) -> None:
    """Examples write into a folder of their own."""
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))


@pytest.fixture(scope="session")
def trips() -> Any:
    """Three vans: one drives a kilometre, one follows a minute later, one stands at the depot."""
    from datetime import datetime, timedelta

    import pyarrow as pa

    from slipstream._moving.value import MovingPoint, to_arrow

    def drive(*path: tuple[int, float, float]) -> MovingPoint:
        began = datetime(2026, 5, 4, 8)
        return MovingPoint.of([[(began + timedelta(minutes=minute), x, y) for minute, x, y in path]])

    vans = {
        "van-1": drive((0, 0, 0), (2, 600, 0), (4, 600, 400)),
        "van-2": drive((1, 0, 0), (3, 600, 0), (5, 600, 400)),
        "van-3": drive((0, 0, 30), (10, 0, 30)),
    }
    table = pa.table([pa.array(list(vans)), to_arrow(list(vans.values()))], names=["id", "Trip"])
    return session.build("tests", master="local[2]").createDataFrame(table)
