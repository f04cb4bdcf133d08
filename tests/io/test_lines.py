"""Text that grows: every whole line once, whatever the writer's rhythm and wherever a batch is cut."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream._errors import BadInput
from slipstream._feeds.tuples import END_MARK
from slipstream._io.chunks import CHUNK, LAST
from slipstream._io.readers.lines import LineInput, LineReader


def read(reader: LineReader, start: dict, end: dict) -> bytes:  # type: ignore[type-arg]
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]  # type: ignore[arg-type]
    chunks = [chunk for batch in batches for chunk in batch.column("chunk").to_pylist()]
    return b"".join(chunk if chunk.endswith(b"\n") or not chunk else chunk + b"\n" for chunk in chunks)


pieces = st.lists(st.text("ab\n", max_size=8), max_size=10)


@given(pieces, st.integers(1, 7))
def test_a_file_that_grows_gives_every_line_once(tmp_path_factory: object, texts: list[str], most_bytes: int) -> None:
    file = tmp_path_factory.mktemp("feed") / "feed.dat"  # type: ignore[attr-defined]
    reader = LineReader(LineInput(str(file), follow=True, most_bytes=most_bytes))
    offset, seen = reader.initialOffset(), b""
    for text in [*texts, None]:
        if text is None:
            Path(str(file) + END_MARK).touch()
        else:
            with file.open("ab") as out:
                out.write(text.encode())
        while (end := reader.latestOffset(offset, None)) != offset:
            again = read(reader, offset, end)
            assert again == read(reader, offset, end), "a batch that is read again is the same"
            seen += again
            offset = end
    whole = "".join(texts).encode()
    assert seen == (whole if whole.endswith(b"\n") or not whole else whole + b"\n")
    assert offset["ended"]


def test_a_folder_is_read_in_the_order_of_names_as_it_fills(tmp_path: Path) -> None:
    reader = LineReader(LineInput(str(tmp_path), follow=True))
    offset, seen = reader.initialOffset(), []
    for number in range(4):
        (tmp_path / f".second-{number}.partial").write_text("not yet")
        (tmp_path / f"second-{number}.txt").write_text(f"{number}\n{number}")
        end = reader.latestOffset(offset, None)
        seen.append(read(reader, offset, end))
        offset = end
    assert seen == [f"{number}\n{number}\n".encode() for number in range(4)]
    assert reader.latestOffset(offset, None) == offset


def test_a_finished_file_ends(tmp_path: Path) -> None:
    (tmp_path / "feed").write_text("1\n2")
    reader = LineReader(LineInput(str(tmp_path / "feed"), follow=False))
    end = reader.latestOffset(reader.initialOffset(), None)
    assert (end["name"], end["byte"], end["ended"]) == ("feed", 3, True)
    assert reader.latestOffset(end, None) == end


@given(st.lists(st.lists(st.text("ab", max_size=6), max_size=12), min_size=1, max_size=4), st.integers(1, 5))
def test_tasks_read_every_line_once_and_know_their_order(
    tmp_path_factory: object, files: list[list[str]], tasks: int
) -> None:
    folder: Path = tmp_path_factory.mktemp("feed")  # type: ignore[attr-defined]
    for number, lines in enumerate(files):
        (folder / f"{number}.txt").write_text("".join(line + "\n" for line in lines))
    with patch("slipstream._io.readers.lines.LEAST_BYTES", 3):
        reader = LineReader(LineInput(str(folder), follow=False, tasks=tasks))
        start = reader.initialOffset()
        end = reader.latestOffset(start, None)
        parts = [list(reader.read_chunks(part)) for part in reader.plan_tasks(start, end)]  # type: ignore[arg-type]
    assert len(parts) <= max(tasks, 1)
    chunks = sorted(chunk for part in parts for chunk in part if chunk.what == CHUNK)
    assert b"".join(chunk.data for chunk in chunks).decode() == "".join(
        line + "\n" for lines in files for line in lines
    )
    assert sum(chunk.what == LAST for part in parts for chunk in part) == 1


def test_a_file_that_would_never_be_read_is_told(tmp_path: Path) -> None:
    reader = LineReader(LineInput(str(tmp_path), follow=True))
    (tmp_path / "b").write_text("1\n")
    offset = reader.latestOffset(reader.initialOffset(), None)
    (tmp_path / "c").write_text("2\n")
    offset = reader.latestOffset(offset, None)
    (tmp_path / "b").unlink()
    assert reader.latestOffset(offset, None) == offset, "what has been read may be removed"
    (tmp_path / "b").write_text("1\n")
    (tmp_path / "a").write_text("0\n")
    with pytest.raises(BadInput, match="/a: arrived after c had been read"):
        reader.latestOffset(offset, None)


def test_files_that_came_after_the_end_are_read_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n")
    reader = LineReader(LineInput(str(tmp_path), follow=False, most_files=1))
    end = reader.latestOffset(reader.initialOffset(), None)
    assert end["ended"]
    assert reader.latestOffset(end, None) == end
    for name in "bc":
        (tmp_path / name).write_text(f"{name}\n")
    more = reader.latestOffset(end, None)
    assert read(reader, end, more) == b"b\n", "a file in a batch"
    assert reader.latestOffset(more, None)["ended"]


def test_a_file_arrives_no_earlier_than_the_files_that_are_read_before_it(tmp_path: Path) -> None:
    """Tasks write the files of a table side by side, so the last one by name is often the first one there."""
    for name in "abc":
        (tmp_path / name).write_text(f"{name}\n")
    with patch.object(LineInput, "arrived", lambda _, file: {"a": 20, "b": 10, "c": 30}[file.name]):
        reader = LineReader(LineInput(str(tmp_path), follow=False, tasks=2))
        start = reader.initialOffset()
        parts = reader.plan_tasks(start, reader.latestOffset(start, None))
        chunks = [chunk for part in parts for chunk in reader.read_chunks(part) if chunk.what == CHUNK]  # type: ignore[arg-type]
    found = sorted((chunk.arrived, chunk.seq, chunk.data) for chunk in chunks)
    assert [(arrived, data) for arrived, _, data in found] == [(20, b"a\n"), (20, b"b\n"), (30, b"c\n")]
