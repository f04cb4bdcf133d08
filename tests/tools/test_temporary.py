"""Temporary folders: private, not to be guessed, and removed once their owners are gone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slipstream._errors import Unavailable
from slipstream._tools.files import temporary

OWNER = (
    "from slipstream._tools.files import temporary; import time; print(temporary.folder(), flush=True); time.sleep(600)"
)


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process as one that has no folder yet."""
    monkeypatch.setattr(temporary, "_mine", [])
    monkeypatch.setattr(temporary, "_held", {})


def owner(root: Path) -> tuple[subprocess.Popen[str], Path]:
    """Another process with a folder of its own."""
    environment = {**os.environ, "TMPDIR": str(root)}
    process = subprocess.Popen([sys.executable, "-c", OWNER], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


def test_the_next_start_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    one, left = owner(tmp_path)
    two, used = owner(tmp_path)
    assert left.stat().st_mode & 0o777 == 0o700
    assert (left / temporary.LOCK).stat().st_mode & 0o777 == 0o600
    (left / "data").write_text("x")
    one.send_signal(signal.SIGKILL)
    one.wait()
    temporary.sweep(tmp_path)
    assert not left.exists()
    assert used.exists()
    two.terminate()
    two.wait()


def test_what_is_not_ours_is_never_removed(tmp_path: Path) -> None:
    mine = tmp_path / "slipstream-data"
    mine.mkdir()
    (mine / "tracks.csv").touch()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / temporary.LOCK).write_bytes(temporary._host())
    (tmp_path / "slipstream-linked").symlink_to(outside)
    forged = tmp_path / "slipstream-forged"
    forged.mkdir()
    (forged / temporary.LOCK).symlink_to(mine / "tracks.csv")
    elsewhere = tmp_path / "slipstream-elsewhere"
    elsewhere.mkdir()
    (elsewhere / temporary.LOCK).write_text("another machine that shares the folder")
    temporary.sweep(tmp_path)
    assert elsewhere.exists()
    assert (mine / "tracks.csv").exists()
    assert (outside / temporary.LOCK).exists()
    assert forged.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make folders of others")
def test_what_others_own_is_neither_used_nor_removed(tmp_path: Path) -> None:
    theirs = tmp_path / f"slipstream-name-{os.geteuid()}"
    theirs.mkdir(mode=0o700)
    (theirs / temporary.LOCK).write_bytes(temporary._host())
    os.chown(theirs, 12345, 12345)
    temporary.sweep(tmp_path)
    assert theirs.exists()
    with pytest.raises(Unavailable, match="not a private folder"):
        temporary.join_shared(tmp_path, "slipstream-name")


@pytest.mark.parametrize("kind", ["link", "open", "file"])
def test_a_place_that_somebody_else_prepared_is_refused(kind: str, tmp_path: Path) -> None:
    place = tmp_path / f"slipstream-name-{os.geteuid()}"
    if kind == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "elsewhere")
    elif kind == "open":
        place.mkdir()
        place.chmod(0o755)
    else:
        place.touch()
    with pytest.raises(Unavailable, match="not a private folder"):
        temporary.join_shared(tmp_path, "slipstream-name")


def test_a_shared_folder_is_there_while_one_who_uses_it_lives(tmp_path: Path) -> None:
    def work(root: Path) -> None:
        temporary.join_shared(root, "slipstream-name")
        time.sleep(600)

    worker = multiprocessing.get_context("fork").Process(target=work, args=(tmp_path,))
    worker.start()
    place = tmp_path / f"slipstream-name-{os.geteuid()}"
    while not (place / temporary.LOCK).exists():
        assert worker.is_alive()
        time.sleep(0.01)
    assert temporary.join_shared(tmp_path, "slipstream-name") == place
    os.close(temporary._held.pop(place))
    # the worker may have made the lock file and not hold it yet
    while place.exists() and not _is_held(place):
        time.sleep(0.01)
    temporary.sweep(tmp_path)
    assert place.stat().st_mode & 0o777 == 0o700
    worker.kill()
    worker.join()
    temporary.sweep(tmp_path)
    assert not place.exists()


def _is_held(place: Path) -> bool:
    with temporary.locked(place) as free:
        return not free


def test_a_forked_process_leaves_the_folder_of_its_parent_alone(tmp_path: Path) -> None:
    def fork() -> None:
        assert temporary._mine == []
        temporary._remove_own_folders()

    place = temporary.folder()
    worker = multiprocessing.get_context("fork").Process(target=fork)
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    assert temporary.folder() == place
    temporary.sweep(place.parent)
    assert place.exists()
    temporary.release(place)
    assert not place.exists()


def test_a_folder_that_is_removed_between_making_and_holding_is_not_held(tmp_path: Path) -> None:
    assert not temporary.hold(tmp_path / "gone")


def test_the_log_of_a_failure_stays_for_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    place = temporary.folder()
    log = place / "spark.log"
    assert temporary.keep_log(log) is None
    log.touch()
    assert temporary.keep_log(log) is None
    log.write_text("what Spark said\n")
    kept = temporary.keep_log(log)
    assert kept is not None
    (place / "blocks").mkdir()
    temporary.release(place)
    temporary.sweep(place.parent)
    assert kept.read_text() == "what Spark said\n"
    assert {path.name for path in place.iterdir()} == {kept.name, temporary.LOCK}
    os.utime(kept, (time.time() - temporary.KEPT_S - 1,) * 2)
    temporary.sweep(place.parent)
    assert not place.exists()
