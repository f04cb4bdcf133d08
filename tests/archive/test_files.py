"""A trip is visible once and only when its batch is committed, wherever a batch is interrupted and whoever compacts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slipstream.archive.files import FOLDER, committed, lay_out
from slipstream.archive.trajectories import Trips
from slipstream.failpoints import COMPACTION_POINTS, VARIABLE
from slipstream.linear_road.compaction import compact
from slipstream.linear_road.sink import AnswerWriter, Sink, journal
from slipstream.linear_road.stages import TRIPS

BATCHES, BLOCK = 23, 5
SINK_POINTS = ("sink.before-write", "sink.after-write", "sink.before-text", "sink.after-trips", "sink.before-journal")


def ended(batch: int) -> Trips:
    """Some trips of two reports, none in every seventh batch."""
    count = 0 if batch % 7 == 6 else 1 + batch % 3
    ids = 100 * batch + np.arange(count, dtype=np.int32)
    reports = np.arange(2 * count, dtype=np.int32)
    return Trips(ids, ids, np.full(count, 2, np.int32), ids.astype(np.uint8) % 2, reports, reports, reports % 5)


def rows(trips: Trips) -> pa.RecordBatch:
    counts = {"reports": [trips.time.size], "requests": [trips.vid.size]}
    trips = trips._replace(lane=trips.lane.astype(np.uint8))
    return pa.RecordBatch.from_pydict({"what": [TRIPS], **counts, "payload": [trips.to_bytes()]})


def do(out: Path, batch: int) -> None:
    """A batch with two tasks, of which one has nothing when there are few trips."""
    writer = AnswerWriter(Sink(str(out), str(out / "clock"), text=False))
    pieces = list(ended(batch).pieces(3))[:2]
    written = [writer.write(iter([rows(piece)])) for piece in pieces] or [writer.write(iter([]))]
    writer.commit(written, batch)


def visible(out: Path) -> list[int]:
    return sorted(vid for file in committed(out) for vid in pq.read_table(file)["vid"].to_pylist())


def expected(batches: int) -> list[int]:
    return [vid for batch in range(batches) for vid in ended(batch).vid.tolist()]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    lay_out(tmp_path)
    return tmp_path


@pytest.mark.parametrize("point", SINK_POINTS)
def test_an_interrupted_batch_is_seen_only_when_it_was_done_again(
    out: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert visible(out) == []
    for batch in range(3):
        do(out, batch)
    monkeypatch.setenv(VARIABLE, f"{point}:{out / 'reached'}:EIO")
    with pytest.raises(OSError, match="Input/output error"):
        do(out, 3)
    assert visible(out) == expected(3)
    do(out, 3)
    assert visible(out) == expected(4)
    do(out, 3)  # as Spark does when it could not note that it had been
    assert visible(out) == expected(4)
    assert sum(batch.trips for batch in journal(out)) == len(expected(4))
    assert journal(out)[-1].archived == 2 * journal(out)[-1].trips


@pytest.mark.parametrize("point", ["", *COMPACTION_POINTS])
def test_old_trips_are_compacted_and_stay_visible_once(out: Path, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for batch in range(BATCHES):
        do(out, batch)
    if point:
        monkeypatch.setenv(VARIABLE, f"{point}:{out / 'reached'}:EIO")
        with pytest.raises(OSError, match="Input/output error"):
            compact(out, BLOCK)
        assert visible(out) == expected(BATCHES)
    compact(out, BLOCK)
    assert visible(out) == expected(BATCHES)
    assert len(list((out / FOLDER).glob("*-*.parquet"))) == 3
    assert {int(file.name[:12]) for file in (out / FOLDER).glob("*.*.parquet")} <= set(range(15, BATCHES))


def test_trips_of_another_origin_count_as_they_are(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    pq.write_table(pa.table({"vid": [7]}), tmp_path / FOLDER / "mine.parquet")
    assert visible(tmp_path) == [7]
