"""The help teaches: every command has examples that parse, flags look like flags, and values are in upper case."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
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


@pytest.mark.parametrize("columns", ["60", "80"])
def test_help_is_cut_in_no_terminal(columns: str) -> None:
    for path, command in ALL.items():
        text = CliRunner().invoke(app, [*path, "--help"], prog_name="slipstream", env={"COLUMNS": columns}).stdout
        assert "…" not in text, path
        assert max(map(len, text.splitlines())) <= int(columns), path
        assert all(name in text for option in command.params for name in option.opts if name.startswith("-")), path


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


#: options whose values are written differently in different commands: a file or a folder, one value or one per name
#: (`--queries` of the streaming benchmark has its published meaning: numbers, not the file of `toll`)
WRITTEN = {"--queries", "--out", "--input", "--to", "--rate", "--format", "--only", "--as"}


def list_options() -> Iterator[tuple[str, Any, str]]:
    """Every long option of every command, under each of its names."""
    for path, command in ALL.items():
        for parameter in command.params:
            if parameter.param_type_name == "option":
                yield from ((name, parameter, " ".join(path)) for name in parameter.opts if name.startswith("--"))


def value_of(option: Any) -> str:
    """The type of an option's value; choices are texts."""
    if option.is_flag:
        return "flag"
    bare = option.bare_type().removeprefix("list[").removesuffix("]")
    return bare if bare in {"int", "float", "Path"} else "str"


def test_an_option_has_one_type_in_all_commands() -> None:
    types: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, option, command in list_options():
        types[name][value_of(option)].append(command)
    assert len(types) > 100
    assert {name: dict(uses) for name, uses in types.items() if len(uses) > 1 and name != "--queries"} == {}


def test_an_option_takes_one_kind_of_value_in_all_commands() -> None:
    metavars: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, option, command in list_options():
        metavars[name][option.metavar].append(command)
    assert {name: dict(uses) for name, uses in metavars.items() if len(uses) > 1 and name not in WRITTEN} == {}


def test_values_are_named_by_what_they_are() -> None:
    """A file, a folder, a number, a choice; never `PATH` or `TEXT`, which say nothing."""
    assert [f"{command} {name}" for name, option, command in list_options() if option.metavar in {"PATH", "TEXT"}] == []


def test_short_options_mean_the_same_everywhere() -> None:
    longs: dict[str, set[str]] = defaultdict(set)
    for command in ALL.values():
        for parameter in command.params:
            for short in (name for name in parameter.opts if not name.startswith("--")):
                longs[short].add(next((name for name in parameter.opts if name.startswith("--")), short))
    shorts = {short: names for short, names in longs.items() if short.startswith("-")}
    assert shorts == {
        "-o": {"--out"},
        "-f": {"--follow"},
        "-j": {"--json"},
        "-q": {"--quiet"},
        "-v": {"--verbose"},
    }


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_option_is_explained_in_sentences(path: tuple[str, ...]) -> None:
    for parameter in ALL[path].params:
        text = (parameter.help or "").partition(" [default")[0]
        assert text[:1].isupper() or text[:1].isdigit() or text.startswith(("dir:", "slipstream")), (
            path,
            parameter.name,
            text,
        )
        assert text.endswith((".", "?")) or ":" in text, (path, parameter.name, text)


#: commands that write to --out and never refuse what is there: pictures are drawn again, answers computed again, and a
#: rating keeps its data for the next one
REUSED = {"network draw", "trajectories draw", "berlinmod draw", "berlinmod run", "rate"}


def test_overwrite_is_offered_by_every_command_that_refuses_an_existing_output() -> None:
    offered = {path: {name for option in command.params for name in option.opts} for path, command in ALL.items()}
    without = {" ".join(path) for path, names in offered.items() if "--out" in names and "--overwrite" not in names}
    assert without == REUSED
