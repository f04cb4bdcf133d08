"""-q, -v and --log-file: how much a command prints, and where."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from commands import Slipstream
from slipstream._cli.machine import examples_command
from slipstream._errors import BadArgument
from slipstream._tools.progress import say


@pytest.fixture
def talkative(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that says something, logs something, and prints a result."""

    def show(*_: object, **__: object) -> None:
        say("[yellow]note:[/] half way")
        logging.getLogger("library").info("a detail")
        print("result")

    monkeypatch.setattr(examples_command, "show", show)


@pytest.mark.usefixtures("talkative")
def test_quiet_prints_results_only(slipstream: Slipstream, tmp_path: Path) -> None:
    told = slipstream("examples", tmp_path / "a")
    assert (told.out, told.err) == ("result\n", "note: half way\n")
    told = slipstream("examples", tmp_path / "b", "-q")
    assert (told.out, told.err) == ("result\n", "")
    assert "half way" in slipstream("examples", tmp_path / "c").err


@pytest.mark.usefixtures("talkative")
def test_quiet_prints_errors(slipstream: Slipstream, tmp_path: Path) -> None:
    slipstream("examples", tmp_path / "a")
    refused = slipstream("examples", tmp_path / "a", "-q")
    assert refused.code == 2
    assert "exists and is not an empty folder" in refused.err
    assert "Give another name, or --overwrite to replace it." in refused.err


@pytest.mark.usefixtures("talkative")
def test_verbose_prints_log_messages_and_tracebacks(slipstream: Slipstream, tmp_path: Path) -> None:
    told = slipstream("examples", tmp_path / "a", "-v")
    assert "INFO library: a detail" in told.err
    assert told.err.count("half way") == 1
    refused = slipstream("examples", tmp_path / "a", "-v")
    assert "Traceback" in refused.err
    assert "Traceback" not in slipstream("examples", tmp_path / "a").err


@pytest.mark.usefixtures("talkative")
def test_a_log_file_has_everything_with_its_time(slipstream: Slipstream, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    told = slipstream("examples", tmp_path / "a", "--log-file", log, "-q")
    assert told.err == ""
    slipstream("examples", tmp_path / "a", "--log-file", log)
    slipstream("examples", tmp_path / "b")
    text = log.read_text()
    assert text.count(f"INFO slipstream: slipstream examples {tmp_path / 'a'}") == 2
    assert text.count("INFO slipstream: note: half way") == 1
    assert "INFO library: a detail" in text
    assert "ERROR slipstream:" in text
    assert str(tmp_path / "b") not in text


def test_a_log_file_that_cannot_be_written_is_refused(slipstream: Slipstream, tmp_path: Path) -> None:
    refused = slipstream("doctor", "--log-file", tmp_path / "no" / "log.txt")
    assert refused.code == BadArgument.exit_code
    assert "--log-file" in refused.err
