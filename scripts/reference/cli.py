"""The command line: the program's own help, command by command."""

from __future__ import annotations

import os

os.environ |= {"COLUMNS": "110", "NO_COLOR": "1", "TERM": "dumb"}

from typer.main import get_command
from typer.testing import CliRunner

from slipstream._cli import app

HEADER = "# Commands\n\nWritten by `make docs` from the program's own help.\n"


def commands(group: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """All commands, groups before what is in them."""
    found = [path]
    for name, command in sorted(getattr(group, "commands", {}).items()):
        found += commands(command, (*path, name))
    return found


def help_of(path: tuple[str, ...]) -> str:
    """What ``slipstream ... --help`` prints."""
    text = CliRunner().invoke(app, [*path, "--help"], prog_name="slipstream").stdout
    lines = "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
    return f"\n## {' '.join(('slipstream', *path))}\n\n```text\n{lines}\n```\n"


def page() -> str:
    """The page."""
    return HEADER + "".join(map(help_of, commands(get_command(app))))
