"""State that one worker leaves is found by the next, if and only if it is what the store holds."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from slipstream._cuboid.fragment import Fragment
from slipstream._cuboid.schema import AST, Schema
from slipstream._runtime.state import shared_arrays, state_cache

SPEEDS = Schema("CAR", (AST("speed", "i4", 3),))


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(shared_arrays, "root", lambda: tmp_path)
    with state_cache.open_cache() as name:
        yield name
    assert list(tmp_path.iterdir()) == []


def place(engine: str) -> Path:
    """Where the workers of this user on this machine share warm state."""
    return shared_arrays.root() / f"{engine}-{os.geteuid()}"


def leave(engine: str, mark: str) -> None:
    with state_cache.lock_state(engine, "cars", 7) as kept:
        cars = Fragment(SPEEDS)
        cars.append("speed", np.arange(5000), np.arange(5000))
        kept.put(mark, cars)


def test_another_worker_finds_it(engine: str) -> None:
    worker = multiprocessing.get_context("fork").Process(target=leave, args=(engine, "one"))
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    with state_cache.lock_state(engine, "cars", 7) as kept:
        cars = kept.take("one")
        assert cars.stream(4999, "speed").tolist() == [4999]
        cars.append("speed", np.array([4999]), np.array([1]))
        kept.put("two", cars)
    with state_cache.lock_state(engine, "cars", 7) as kept:
        assert kept.take("two").stream(4999, "speed").tolist() == [1, 4999]


@pytest.mark.parametrize("mark", ["another", None])
def test_what_the_store_does_not_hold_is_thrown_away(engine: str, mark: str | None) -> None:
    leave(engine, "one")
    with state_cache.lock_state(engine, "cars", 7) as kept:
        assert kept.take(mark) is None
        assert [file.name for file in (place(engine) / "cars-7").iterdir()] == ["lock"]
        assert kept.take("one") is None


def test_what_is_being_worked_on_is_not_found(engine: str) -> None:
    """A worker that dies in the middle has taken the mark away before."""
    leave(engine, "one")
    with state_cache.lock_state(engine, "cars", 7) as kept:
        assert kept.take("one") is not None
    with state_cache.lock_state(engine, "cars", 7) as kept:
        assert kept.take("one") is None


def take_and_die(engine: str) -> None:
    with state_cache.lock_state(engine, "cars", 7) as kept:
        kept.take("one").append("speed", np.array([4999]), np.array([1]))
        os._exit(0)


def take_and_leave(engine: str) -> None:
    with state_cache.lock_state(engine, "cars", 7) as kept:
        cars = kept.take("one")
        cars.append("speed", np.array([4999]), np.array([1]))
        kept.put("two", cars)


@pytest.mark.parametrize("other", [take_and_die, take_and_leave])
def test_who_left_it_does_not_use_it_after_another_has_changed_it(engine: str, other: Callable[[str], None]) -> None:
    """Spark gives the batch of a worker that died, or that failed elsewhere, to one that had the batch before."""
    leave(engine, "one")
    worker = multiprocessing.get_context("fork").Process(target=other, args=(engine,))
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    with state_cache.lock_state(engine, "cars", 7) as kept:
        assert kept.take("one") is None


def test_without_room_memory_is_private(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    leave(engine, "one")
    with state_cache.lock_state(engine, "cars", 7) as kept:
        assert kept.take("one").stream(4999, "speed").tolist() == [4999]


def test_warm_state_is_private(engine: str) -> None:
    leave(engine, "one")
    assert {path.stat().st_mode & 0o777 for path in (place(engine), place(engine) / "cars-7")} == {0o700}


def test_what_a_dead_driver_and_its_workers_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine of a cluster where no driver ever ran, too: its workers name the folder alike and hold it."""
    monkeypatch.setattr(shared_arrays, "root", lambda: tmp_path)

    def work(name: str) -> None:
        leave(name, "one")
        os.kill(os.getpid(), signal.SIGKILL)

    gone = multiprocessing.get_context("fork").Process(target=work, args=("slipstream-elsewhere-warm-0",))
    gone.start()
    gone.join()
    left = place("slipstream-elsewhere-warm-0")
    assert left.exists()
    with state_cache.open_cache() as name:
        assert not left.exists()
        leave(name, "one")
        with state_cache.open_cache() as other:
            leave(other, "one")
            assert place(name).exists()
