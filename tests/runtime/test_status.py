"""A job's status is published while it can be written, has the error that ended the job, and never hides it."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from slipstream._errors import BadInput, Place, Unavailable
from slipstream._runtime.watching import status
from slipstream._runtime.watching.status import FILE, READY, has_finished, report_status


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(status, "atomic_write", no_room)


def test_a_status_follows_a_job_to_its_end(tmp_path: Path) -> None:
    states = []

    def run() -> None:
        with report_status(tmp_path, "feed") as reported:
            reported.enter(READY)
            states.append(json.loads((tmp_path / FILE).read_text())["state"])
            raise BadInput("Line 3 is damaged.")

    with pytest.raises(BadInput):
        run()
    assert states == [READY]
    assert json.loads((tmp_path / FILE).read_text())["why"] == "Line 3 is damaged."


def test_a_full_disk_does_not_hide_why_a_job_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> None:
        with report_status(tmp_path, "feed"):
            fill_disk(monkeypatch)
            raise BadInput("Line 3 is damaged.")

    with pytest.raises(BadInput, match="damaged"):
        run()


def test_a_status_that_cannot_be_written_is_an_error_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_disk(monkeypatch)
    with (
        pytest.raises(Unavailable, match=r"status\.json: No space left on device") as raised,
        report_status(tmp_path, "feed"),
    ):
        pass
    assert "resumes" in raised.value.hint
    assert raised.value.code == "disk-full"


def test_a_failed_job_leaves_its_error_as_data(tmp_path: Path) -> None:
    failure = BadInput("14 fields.", code="unreadable-line", place=Place(file="run.csv", line=3), found=14, expected=15)
    with pytest.raises(BadInput), report_status(tmp_path, "run.csv"):
        raise failure
    body = json.loads((tmp_path / FILE).read_text(encoding="utf-8"))
    assert (body["state"], body["why"]) == ("stopped", "run.csv, line 3: 14 fields.")
    assert body["error"] == failure.to_json()
    assert (body["error"]["code"], body["error"]["place"]) == ("unreadable-line", {"file": "run.csv", "line": 3})


def test_a_finished_job_leaves_no_error(tmp_path: Path) -> None:
    with report_status(tmp_path, "run.csv"):
        pass
    assert "error" not in json.loads((tmp_path / FILE).read_text(encoding="utf-8"))
    assert has_finished(tmp_path, "run.csv")
