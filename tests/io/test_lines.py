"""Text that grows: every whole line once, whatever the writer's rhythm and wherever a batch is cut."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from slipstream.feeds.tuples import END_MARK
from slipstream.io.lines import LineReader, Lines


def read(reader: LineReader, start: dict, end: dict) -> bytes:  # type: ignore[type-arg]
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]  # type: ignore[arg-type]
    chunks = [chunk for batch in batches for chunk in batch.column("chunk").to_pylist()]
    return b"".join(chunk if chunk.endswith(b"\n") or not chunk else chunk + b"\n" for chunk in chunks)


pieces = st.lists(st.text("ab\n", max_size=8), max_size=10)


@given(pieces, st.integers(1, 7))
def test_a_file_that_grows_gives_every_line_once(tmp_path_factory: object, texts: list[str], most_bytes: int) -> None:
    file = tmp_path_factory.mktemp("feed") / "feed.dat"  # type: ignore[attr-defined]
    reader = LineReader(Lines(str(file), follow=True, most_bytes=most_bytes))
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
    reader = LineReader(Lines(str(tmp_path), follow=True))
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
    reader = LineReader(Lines(str(tmp_path / "feed"), follow=False))
    end = reader.latestOffset(reader.initialOffset(), None)
    assert (end["name"], end["byte"], end["ended"]) == ("feed", 3, True)
    assert reader.latestOffset(end, None) == end
