"""--overwrite replaces what Slipstream wrote, and nothing else; what it replaces returns if the new one fails."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from commands import Slipstream
from slipstream._cli.common.overwriting import clear, clear_job, replacing
from slipstream._errors import BadArgument
from slipstream._runtime.job import LOCK, JobFile

LINE = "0,0,107,32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1\n"


def folder(place: Path, *names: str) -> Path:
    place.mkdir()
    for name in names:
        (place / name).write_text(name)
    return place


def test_the_old_one_goes_when_the_new_one_is_there(tmp_path: Path) -> None:
    out = folder(tmp_path / "out", "manifest.json", "old")
    with replacing(out, True, "manifest.json"):
        folder(out, "new")
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "new"]


def test_the_old_one_returns_when_the_new_one_fails(tmp_path: Path) -> None:
    out = folder(tmp_path / "out", "manifest.json", "old")

    def fail() -> None:
        folder(out, "new")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), replacing(out, True, "manifest.json"):
        fail()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["manifest.json", "old", "out"]


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    out = folder(tmp_path / "out", "thesis.tex")
    with pytest.raises(BadArgument, match="did not write"), replacing(out, True, "manifest.json", "*.csv"):
        pytest.fail("it began")
    with pytest.raises(BadArgument, match="did not write"):
        clear_job(out, True)
    assert (out / "thesis.tex").exists()


def test_a_job_is_deleted_unless_it_runs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    JobFile("toll", 1, {}).write(out)
    clear_job(out, False)
    assert out.exists()
    with (out / LOCK).open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(BadArgument, match="running"):
            clear_job(out, True)
    clear_job(out, True)
    assert not out.exists()


def test_commands_offer_it_where_they_refuse(slipstream: Slipstream, tmp_path: Path) -> None:
    (tmp_path / "x.dat").write_text(LINE)
    commands = (
        ("import", tmp_path / "x.dat", "-o", tmp_path / "run"),
        ("export", tmp_path / "run", "-o", tmp_path / "y.dat"),
        ("cuboid", "ticks", "--ticks", 5, "-o", tmp_path / "ticks"),
        ("examples", tmp_path / "examples"),
    )
    for command in commands:
        assert slipstream(*command).code == 0
        refused = slipstream(*command)
        assert refused.code == 2
        assert "--overwrite" in refused.err
        assert slipstream(*command, "--overwrite").code == 0
    assert (tmp_path / "y.dat").read_text() == LINE


def test_a_campaign_is_deleted_by_its_mark(tmp_path: Path) -> None:
    out = folder(tmp_path / "out", "faults.jsonl")
    clear(out, False, "faults.jsonl")
    assert out.exists()
    clear(out, True, "faults.jsonl")
    assert not out.exists()
    with pytest.raises(BadArgument, match="did not write"):
        clear(folder(tmp_path / "mine", "thesis.tex"), True, "faults.jsonl")
