"""The commands: they teach, and a mistake ends with one message and the next step."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from slipstream.cli import app
from slipstream.errors import BadArgument, BadInput

runner = CliRunner()


def test_help_names_every_command():
    text = runner.invoke(app, ["berlinmod", "--help"]).output
    for command in ("generate", "load", "export", "index", "run", "explain", "draw"):
        assert command in text
    assert "archive" in runner.invoke(app, ["--help"]).output


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (["generate", "--scale", "-1", "--out", "x"], BadArgument, "--scale"),
        (["generate", "--network", "none.csv", "--out", "x"], BadArgument, "--network"),
        (["run", "nowhere"], BadArgument, "no such data set"),
        (["run", "nowhere", "--queries", "18"], BadArgument, "1 to 17"),
        (["draw", "nowhere", "--query", "0"], BadArgument, "1 to 17"),
        (["index", "."], BadInput, "not a BerlinMOD data set"),
    ],
)
def test_a_mistake_is_named(arguments, kind, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["berlinmod", *arguments])
    assert isinstance(result.exception, kind)
    assert message in result.exception.message
