"""A trip is visible exactly once, from the commit of its batch, despite interruptions and compaction."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from linear_road.delivering import deliver, delivery
from slipstream._archive.ended_trips import EndedTrips
from slipstream._archive.trip_tables import TRIPS as FOLDER
from slipstream._archive.trip_tables import is_archive, read_trips
from slipstream._errors import BadInput
from slipstream._io import outputs
from slipstream._linear_road.job.toll_journal import read_journal
from slipstream._linear_road.tasks.toll_stages import TRIPS, Hop
from slipstream._tools.processes.failpoints import COMPACTION_POINTS, OUTPUT_POINTS, VARIABLE

BATCHES = 23


def ended(batch: int) -> EndedTrips:
    """Some trips of two reports, none in every seventh batch."""
    count = 0 if batch % 7 == 6 else 1 + batch % 3
    ids = 100 * batch + np.arange(count, dtype=np.int32)
    reports = np.arange(2 * count, dtype=np.int32)
    return EndedTrips(ids, ids, np.full(count, 2, np.int32), ids.astype(np.uint8) % 2, reports, reports, reports % 5)


def hop(trips: EndedTrips) -> Hop:
    trips = trips._replace(lane=trips.lane.astype(np.uint8))
    return Hop(0, TRIPS, 0, 0, trips.time.size, trips.vid.size, trips.to_bytes())


def do(out: Path, batch: int) -> None:
    """A batch with two tasks, of which one has nothing when there are few trips."""
    tasks = [[hop(piece)] for piece in list(ended(batch).pieces(3))[:2]]
    deliver(delivery(out, text=False, trips=True), batch, *tasks)


def visible(out: Path) -> list[int]:
    return sorted(read_trips(out, ["vid"])["vid"].to_pylist())


def expected(batches: int) -> list[int]:
    return [vid for batch in range(batches) for vid in ended(batch).vid.tolist()]


@pytest.mark.parametrize("point", [point for point in OUTPUT_POINTS if point != "outputs.between-tables"])
def test_an_interrupted_batch_is_seen_only_when_it_was_done_again(
    tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in range(3):
        do(tmp_path, batch)
    monkeypatch.setenv(VARIABLE, f"{point}:{tmp_path / 'reached'}:EIO")
    with pytest.raises(OSError, match="Input/output error"):
        do(tmp_path, 3)
    assert visible(tmp_path) == expected(4 if point == "outputs.after-journal" else 3)
    do(tmp_path, 3)
    assert visible(tmp_path) == expected(4)
    do(tmp_path, 3)  # as Spark does when it could not note that it had been
    assert visible(tmp_path) == expected(4)
    assert sum(batch.trips for batch in read_journal(tmp_path)) == len(expected(4))
    assert read_journal(tmp_path)[-1].detail.archived == 2 * read_journal(tmp_path)[-1].trips


@pytest.mark.parametrize("point", ["", *COMPACTION_POINTS])
def test_old_trips_are_compacted_and_stay_visible_once(
    tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for batch in range(BATCHES):
        do(tmp_path, batch)
    if point:
        monkeypatch.setenv(VARIABLE, f"{point}:{tmp_path / 'reached'}:EIO")
        with pytest.raises(OSError, match="Input/output error"):
            outputs.compact(tmp_path)
        assert visible(tmp_path) == expected(BATCHES)
    outputs.compact(tmp_path)
    assert visible(tmp_path) == expected(BATCHES)
    assert len(outputs.visible_files(tmp_path, FOLDER).files) == 1


def test_trips_of_another_origin_count_as_they_are(tmp_path: Path) -> None:
    assert not is_archive(tmp_path)
    (tmp_path / FOLDER).mkdir()
    pq.write_table(pa.table({"vid": [7]}), tmp_path / FOLDER / "mine.parquet")
    assert is_archive(tmp_path)
    assert visible(tmp_path) == [7]


def test_an_archive_of_an_earlier_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    pq.write_table(pa.table({"vid": [7]}), tmp_path / FOLDER / "000000000000.0.parquet")
    (tmp_path / outputs.JOURNAL).touch()
    with pytest.raises(BadInput, match=r"0\.1"):
        visible(tmp_path)
