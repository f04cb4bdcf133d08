"""Logs in stores: what was appended is read once and in order, whatever was merged meanwhile or cut short."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream._tools import logs, object_logs
from slipstream._tools.files import stores
from slipstream._tools.files.remote_paths import RemotePath
from stores import HDFS, S3, running


@pytest.fixture(scope="module", params=[S3, pytest.param(HDFS, marks=pytest.mark.long)])
def store(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(request.param, builds=False) as uri:
        yield uri


@pytest.fixture
def folder(store: str, request: pytest.FixtureRequest) -> RemotePath:
    name = "".join(c if c.isalnum() else "_" for c in request.node.name)
    return RemotePath(f"{store}/{name}")


def append(log: RemotePath, numbers: range) -> None:
    for number in numbers:
        logs.append_lines(log, [{"n": number}], number=number)


def numbers(lines: list[dict[str, int]]) -> list[int]:
    return [line["n"] for line in lines]


def test_a_log_is_read_as_it_was_appended_to(folder: RemotePath) -> None:
    assert logs.read_lines(folder / "log") == []
    assert logs.read_last_line(folder / "log") is None
    follower = logs.Follower(folder / "log")
    append(folder / "log", range(3))
    assert numbers(follower.read_new()) == [0, 1, 2]
    append(folder / "log", range(3, 5))
    assert numbers(follower.read_new()) == [3, 4]
    assert follower.read_new() == []
    assert numbers(logs.read_lines(folder / "log")) == [0, 1, 2, 3, 4]
    assert logs.read_last_line(folder / "log") == {"n": 4}


def test_two_processes_cannot_append_under_one_number(folder: RemotePath) -> None:
    append(folder / "log", range(2))
    with pytest.raises(FileExistsError):
        logs.append_lines(folder / "log", [{"n": 7}], number=1)
    logs.append_lines(folder / "log", [{"n": 1}], number=1)  # the same one, whose answer was lost
    logs.append_lines(folder / "log", [{"n": 2}])  # as the next
    assert numbers(logs.read_lines(folder / "log")) == [0, 1, 2]


def test_merging_changes_nothing_for_readers(folder: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_logs, "_SIZES", (4, 16))
    follower = logs.Follower(folder / "log")
    append(folder / "log", range(6))
    assert numbers(follower.read_new()) == [*range(6)]
    append(folder / "log", range(6, 21))
    object_logs.merge(folder / "log")
    assert [path.name for path in (folder / "log").iterdir()] == [
        "000000000000-000000000015",
        "000000000016-000000000019",
        "000000000020",
    ]
    assert numbers(follower.read_new()) == [*range(6, 21)]
    assert numbers(logs.read_lines(folder / "log")) == [*range(21)]
    assert logs.read_last_line(folder / "log") == {"n": 20}


def test_a_merge_that_was_cut_short_counts_nothing_twice(folder: RemotePath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_logs, "_SIZES", (4,))
    append(folder / "log", range(5))

    def fail(path: RemotePath, missing_ok: bool = False) -> None:
        raise ConnectionError(path)

    with monkeypatch.context() as cut:
        cut.setattr(RemotePath, "unlink", fail)
        with pytest.raises(ConnectionError):
            object_logs.merge(folder / "log")
    assert numbers(logs.read_lines(folder / "log")) == [*range(5)]
    object_logs.merge(folder / "log")
    assert len([*(folder / "log").iterdir()]) == 2
    assert numbers(logs.read_lines(folder / "log")) == [*range(5)]


class _OneFolder:
    """The parts of a log as a mapping, for the property below."""

    def __init__(self, parts: dict[str, bytes]) -> None:
        self.parts = parts

    def entries(self) -> list[stores.Entry]:
        return [stores.Entry(f"log/{name}", False, len(body)) for name, body in self.parts.items()]


@given(st.integers(0, 40), st.lists(st.integers(1, 9), max_size=6), st.integers(0, 45))
def test_parts_have_each_append_once(count: int, merged: list[int], since: int) -> None:
    """Against a list: any merged stretches, beside the appends that they merged or without them."""
    lines = [json.dumps({"n": n}).encode() + b"\n" for n in range(count)]
    parts = {f"{n:012d}": line for n, line in enumerate(lines)}
    first = 0
    for number, size in enumerate(merged):
        last = first + size - 1
        if last < count:
            parts[f"{first:012d}-{last:012d}"] = b"".join(lines[first : last + 1])
            if number % 2:
                for gone in range(first, last + 1):
                    parts.pop(f"{gone:012d}", None)
        first = last + 1
    chosen = object_logs._choose(object_logs._list_parts(_OneFolder(parts)))  # type: ignore[arg-type]
    assert [n for part in chosen for n in range(part.first, part.last + 1)] == [*range(count)]
    after = [part for part in chosen if part.last >= since]
    read = b"".join(object_logs._cut(parts[_name(part, parts)], part, since) for part in after)
    assert read == b"".join(lines[since:])


def _name(part: object_logs._Part, parts: dict[str, bytes]) -> str:
    return part.name if part.name in parts else f"{part.first:012d}-{part.last:012d}"


def test_a_path_of_a_store_is_never_taken_for_a_local_one(tmp_path: Path) -> None:
    from slipstream._errors import BadArgument

    with pytest.raises(BadArgument, match="must be in a file system"):
        open(RemotePath("s3://bucket/a"))  # noqa: PTH123, SIM115
