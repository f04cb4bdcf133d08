"""Files and folders are checked before anything slow begins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from slipstream._cli.common.checks import check_new, check_there, check_writable
from slipstream._errors import BadArgument


def test_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    with pytest.raises(BadArgument) as refused:
        check_there(tmp_path / "there", tmp_path / "a", None, tmp_path / "b", hint="Look again.")
    assert refused.value.message == f"{tmp_path / 'a'}, {tmp_path / 'b'}: no such file or folder."
    check_there(tmp_path / "there", None)


def test_a_name_that_no_file_can_have_is_missing() -> None:
    with pytest.raises(BadArgument, match="no such file"):
        check_there("x" * 5000)


def test_a_folder_to_make_is_new_or_empty_and_below_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    check_new(tmp_path / "empty")
    check_new(tmp_path / "a" / "b")
    for name in (".", "file", "file/below"):
        with pytest.raises(BadArgument, match="--out "):
            check_new(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]


def test_a_file_to_write_has_a_folder_and_is_none(tmp_path: Path) -> None:
    check_writable(tmp_path / "new.png", "--png")
    check_writable(None, "--png")
    for file in (tmp_path, tmp_path / "no" / "new.png"):
        with pytest.raises(BadArgument, match="--png "):
            check_writable(file, "--png")


def test_a_folder_that_was_removed_under_the_command_is_reported(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r}); from slipstream._cli import main; main()"
    done = subprocess.run([sys.executable, "-c", script, "doctor"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "The current folder no longer exists." in done.stderr
    assert "Traceback" not in done.stderr
