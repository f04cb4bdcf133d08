"""The folder of a job: what it remembers, and what is refused before Spark starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slipstream._errors import BadArgument, BadInput
from slipstream._runtime import job

SETTINGS = {"rules": "2004", "lateness": 60}


def begun(folder: Path, **other: object) -> job.JobFile:
    return job.begin(folder, "toll", 4, {**SETTINGS, **other}, lambda: {"fragments": [3, 5]})


def test_a_job_resumes_with_its_identity_and_its_layout(tmp_path: Path) -> None:
    first = begun(tmp_path / "out")
    again = job.begin(tmp_path / "out", "toll", 4, SETTINGS, lambda: pytest.fail("has a layout"))
    assert again == first
    assert again.layout == {"fragments": [3, 5]}
    assert job.JobFile.read(tmp_path / "out") == first


def test_a_new_folder_is_no_job_yet(tmp_path: Path) -> None:
    assert job.check(tmp_path, "toll", 4, SETTINGS) is None
    assert job.check(tmp_path / "none", "toll", 4, SETTINGS) is None


@pytest.mark.parametrize(
    ("kind", "version", "settings", "message"),
    [
        ("archive", 4, SETTINGS, "belongs to a toll job"),
        ("toll", 5, SETTINGS, "state version is 4, but this version reads 5"),
        ("toll", 4, {**SETTINGS, "lateness": 2}, "started with lateness 60, not 2"),
        ("toll", 4, {"rules": "2004"}, "started with lateness 60, not nothing"),
        ("toll", 4, {**SETTINGS, "start": "2026"}, "started with start nothing, not 2026"),
    ],
)
def test_a_start_that_differs_from_the_first_is_refused(
    tmp_path: Path, kind: str, version: int, settings: dict[str, object], message: str
) -> None:
    begun(tmp_path)
    with pytest.raises((BadArgument, BadInput), match=message) as refused:
        job.check(tmp_path, kind, version, settings)
    assert refused.value.hint


@pytest.mark.parametrize("name", ["checkpoint/engine.json", "state.json", "snapshot/fragments.json"])
def test_folders_of_the_first_version_are_refused_with_advice(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("{}")
    for look in (lambda: job.check(tmp_path, "toll", 4, SETTINGS), lambda: job.JobFile.read(tmp_path)):
        with pytest.raises(BadInput, match=r"Slipstream 0\.1") as refused:
            look()
        assert "another --out folder" in refused.value.hint


def test_a_folder_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(BadArgument, match="not the folder of a toll job"):
        job.check(tmp_path, "toll", 4, SETTINGS)
    with pytest.raises(BadArgument, match="not a folder"):
        job.check(tmp_path / "thesis.tex", "toll", 4, SETTINGS)
    with pytest.raises(BadArgument, match="not the folder of a job"):
        job.JobFile.read(tmp_path)
    with pytest.raises(BadArgument, match="not the folder of a job"):
        job.JobFile.read(tmp_path / "thesis.tex")


@pytest.mark.parametrize("body", ["", "[]", '{"kind": 1}', '{"kind": "toll", "state_version": "4", "settings": {}}'])
def test_a_damaged_job_file_is_refused(tmp_path: Path, body: str) -> None:
    (tmp_path / job.FILE).write_text(body)
    with pytest.raises(BadInput, match=r"job\.json: damaged"):
        job.check(tmp_path, "toll", 4, SETTINGS)


def test_a_journal_shorter_than_the_checkpoint_is_refused(tmp_path: Path) -> None:
    begun(tmp_path)
    (tmp_path / "checkpoint" / "commits").mkdir(parents=True)
    (tmp_path / "checkpoint" / "commits" / "0").touch()
    with pytest.raises(BadInput, match="0 batches, but 1 were committed"):
        job.check(tmp_path, "toll", 4, SETTINGS)


def test_two_processes_do_not_run_in_one_folder(tmp_path: Path) -> None:
    with (
        job.lock_folder(tmp_path),
        pytest.raises(BadArgument, match="already running there"),
        job.lock_folder(tmp_path),
    ):
        pass
    with job.lock_folder(tmp_path):
        assert json.dumps(job.control(tmp_path).requested) == '"run"'
