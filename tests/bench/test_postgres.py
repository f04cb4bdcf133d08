"""System X on a real PostgreSQL: the same answers as the oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from oracles.linear_road import answers
from oracles.streams import busy_streams
from services import service
from slipstream._bench.postgres import connect, run_postgres
from slipstream._errors import BadArgument, Unavailable
from slipstream._feeds.run import Run
from slipstream._feeds.tuple_text import import_text


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The connection string of a real server."""
    yield from service("postgres")


@pytest.fixture(scope="module")
def lines() -> list[str]:
    return busy_streams(5, 6, 7)


@pytest.fixture(scope="module")
def run(lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("postgres")
    (folder / "feed.txt").write_text("\n".join(lines))
    return import_text(folder / "feed.txt", folder / "run")


def without_emit(line: str) -> tuple[int, ...]:
    fields = line.split(",")
    del fields[3 if fields[0] == "0" else 2]
    return tuple(map(int, fields))


def test_it_answers_as_the_oracle_does(run: Run, lines: list[str], server: str, tmp_path: Path) -> None:
    result = run_postgres(run, tmp_path / "out", speed=0, server=server)
    given = Path(result.output).read_text().splitlines()
    assert Counter(map(without_emit, given)) == Counter(answers(lines).outputs)
    assert result.tuples == len(lines)


def test_in_real_time_emit_is_the_moment_of_the_commit(run: Run, server: str, tmp_path: Path) -> None:
    result = run_postgres(run, tmp_path / "out", seconds=100, speed=50, server=server)
    for line in Path(result.output).read_text().splitlines():
        fields = line.split(",")
        asked, emit = (fields[2], fields[3]) if fields[0] == "0" else (fields[1], fields[2])
        assert float(emit) > int(asked)
    assert result.took >= 99 / 50


def test_a_server_that_is_not_there_and_an_old_output_are_told(run: Run, server: str, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="No PostgreSQL server at"):
        connect("postgresql://slipstream@127.0.0.1:1/postgres")
    (tmp_path / "output.csv").touch()
    with pytest.raises(BadArgument, match="already has an output"):
        run_postgres(run, tmp_path, server=server)
