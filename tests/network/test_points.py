"""The memory of a connection point: whenever a query is attached, it gets the history, then all that follows, once."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from slipstream._network.algebra import Arc, ConnectionPoint
from slipstream._network.running.connection_points import History, Span

ACTIONS = st.one_of(
    st.tuples(st.just("batch"), st.integers(0, 3)),
    st.tuples(st.sampled_from(["repeat", "crash", "attach", "detach"]), st.integers(0, 9)),
)


class Story:
    """A point's life: tuples are numbered as they come, so that a gap or a double shows."""

    def __init__(self, folder: Path, keep: int | None) -> None:
        self.point = ConnectionPoint("p", Arc("s"), keep_tuples=keep)
        self.folder = folder
        self.batches: list[tuple[int, int]] = []
        #: query folder -> (tuples there were when it was attached, and when it was detached)
        self.queries: dict[Path, tuple[int, int | None]] = {}

    @property
    def history(self) -> History:
        return History(self.folder / "points", self.point, compacted=2)

    @property
    def count(self) -> int:
        return self.batches[-1][1] if self.batches else 0

    def batch(self, size: int) -> None:
        self.batches.append((self.count, self.count + size))
        self.repeat(0)

    def repeat(self, _: int) -> None:
        """The last batch is delivered (again), as after a crash before its commit."""
        if not self.batches:
            return
        number, (start, end) = len(self.batches) - 1, self.batches[-1]
        table = pa.table({"_seq": pa.array(range(start, end), pa.int64()), "_ts": pa.array([0] * (end - start))})

        def write(path: Path) -> int:
            pq.write_table(table, path)
            return table.num_rows

        self.history.add(number, write)

    def crash(self, size: int) -> None:
        """A batch during which the machine stops after a compacted file was written and before the old ones went."""
        before = {span.path: span.path.read_bytes() for span in self.history.spans()}
        self.batch(size % 3 + 1)
        merged = [span for span in self.history.spans() if span.first < span.last]
        for path, content in before.items():
            span = Span.parse(path)
            if not path.exists() and any(m.first <= span.first and span.last <= m.last for m in merged):
                path.write_bytes(content)

    def attach(self, _: int) -> None:
        folder = self.folder / f"query_{len(self.queries)}"
        self.history.attach(folder)
        self.queries[folder] = self.count, None

    def detach(self, which: int) -> None:
        live = [folder for folder, (_, end) in self.queries.items() if end is None]
        if live:
            folder = live[which % len(live)]
            self.history.detach(folder)
            self.queries[folder] = self.queries[folder][0], self.count

    def got(self, query: Path) -> list[int]:
        trains = sorted(filter(None, map(Span.parse, query.iterdir())))
        return [number for train in trains for number in pq.read_table(train.path)["_seq"].to_pylist()]


@given(st.lists(ACTIONS, max_size=30), st.sampled_from([None, 1, 4]))
def test_history_first_then_live_no_gap_no_double_at_any_attach_time(actions: list, keep: int | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Path(folder), keep)
        for action, number in actions:
            getattr(story, action)(number)
        for query, (at, end) in story.queries.items():
            got = story.got(query)
            until = story.count if end is None else end
            assert got == list(range(until - len(got), until))
            remembered = len(got) - (until - at)
            assert remembered >= (at if keep is None else min(keep, at))
        kept = story.history.spans()
        assert sum(span.tuples for span in kept) == story.count or keep is not None
        assert len(kept) < len(story.batches) / 2 + 4


def test_what_is_older_than_the_time_to_keep_is_forgotten(tmp_path: Path) -> None:
    now = time.time_ns() // 1000
    history = History(tmp_path, ConnectionPoint("p", Arc("s"), keep_seconds=60))
    for number, age in enumerate((300, 100, 30, 0)):
        table = pa.table({"_seq": [number], "_ts": [now - age * 1_000_000]})
        history.add(number, lambda path, table=table: pq.write_table(table, path) or 1)
    assert [span.last for span in history.spans()] == [2, 3]


def test_a_query_whose_folder_is_gone_has_detached_itself(tmp_path: Path) -> None:
    history = History(tmp_path / "p", ConnectionPoint("p", Arc("s")))
    history.attach(tmp_path / "query")
    (tmp_path / "query").rmdir()
    history.add(0, lambda path: pq.write_table(pa.table({"_seq": [0], "_ts": [0]}), path) or 1)
    assert history.attached() == []
