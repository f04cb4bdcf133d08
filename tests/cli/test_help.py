"""The help teaches: every command has examples that parse, flags look like flags, and values are in upper case."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from slipstream._cli import app


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


ALL = dict(commands(get_command(app)))


def examples(command: Any) -> list[list[str]]:
    """The command lines that stand in a command's help."""
    found = re.findall(r"`(slipstream [^`]+)`", command.help)
    return [shlex.split(text.partition("|")[0])[1:] for text in found]


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_a_command_has_examples_that_parse(path: tuple[str, ...]) -> None:
    own = [line for line in examples(ALL[path]) if tuple(line[: len(path)]) == path]
    assert own, f"slipstream {' '.join(path)} has no example in its help"
    for line in examples(ALL[path]):
        named = next((p for p in ALL if tuple(line[: len(p)]) == p), None)
        assert named or line[0] in {p[0] for p in ALL}, line
        if named == path:
            ALL[path].make_context(" ".join(path), line[len(path) :])


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_flags_look_like_flags_and_values_are_in_upper_case(path: tuple[str, ...]) -> None:
    text = CliRunner().invoke(app, [*path, "--help"], prog_name="slipstream", env={"COLUMNS": "200"}).stdout
    assert not re.findall(r"<[a-z\[\]|-]+>", text)
    for parameter in ALL[path].params:
        if parameter.param_type_name == "argument":
            assert parameter.metavar == parameter.metavar.upper(), parameter.name


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_one_word_has_one_meaning(path: tuple[str, ...]) -> None:
    options = {name: p for p in ALL[path].params for name in p.opts}
    assert not {"--encoding", "--from", "--kinds", "--sink", "--force"} & {*options}
    assert ("-o" in options) == ("--out" in options)
    assert ("-f" in options) == ("--follow" in options)
    assert ("-j" in options) == ("--json" in options)
    assert {"-q", "-v", "--log-file", "--config"} <= {*options}
    assert "--json" in options or path == ("console",)
    if "--seed" in options:
        assert options["--seed"].default == (None if path == ("chaos",) else 1)
