"""A job's status file: how it ended, and the error that ended it as data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstream._errors import BadInput, Place
from slipstream._runtime.status import FILE, has_finished, report_status


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
