"""Command lines that the console may run: for a job described on the page, or as a job's folder records them.

A recorded command comes from a file that anybody may have written, so it is run only if every word of it is known to
be harmless: options that load code, write elsewhere or delete are refused, and files must be in the workspace.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from slipstream._console.errors import Conflict
from slipstream._console.workspace import Workspace
from slipstream._linear_road.rules import RULES

#: the commands that run jobs
COMMANDS = (("toll",), ("archive",), ("network", "run"), ("cuboid", "run"))
#: a topic or a socket
LIVE = re.compile(r"^(kafka:[\w.,:-]+/[\w.-]+|tcp:[\w.-]+:\d{1,5})$")

#: options without a value
_FLAGS = {
    *("--follow", "-f", "--no-follow", "--archive", "--snapshot", "--text", "--no-text", "--shed", "--optimise"),
    *("--json", "-j", "--quiet", "-q", "--verbose", "-v"),
}
#: options whose value is a number or a name
_PLAIN = {
    *("--speed", "--until", "--multiply", "--lateness", "--silence", "--format", "--columns", "--fields"),
    *("--batch-seconds", "--compact-every", "--parallel", "--max-rejects", "--start", "--fast-forward-to"),
    *("--train", "--rate", "--tap", "--fragments", "--ranges", "--batch-files"),
}
#: options whose value names a file, a run or a feed: alone, or as NAME=WHERE
_PLACES = {"--input", "--table", "--history"}
_OUT = ("--out", "-o")
#: left out when a command is run again: it would delete what the job has done
_DROPPED = {"--overwrite"}
#: Spark on this machine; the console adds its own --master, so the recorded one is left out
_LOCAL = re.compile(r"^local(\[(\d+|\*)\])?$")


def check_command(words: Sequence[str], folder: Path, out: Path, workspace: Workspace, master: str = "") -> list[str]:
    """Return the arguments that run a recorded command again, with absolute paths; refuse anything else.

    ``folder`` is where the command was run, ``out`` the folder of the job, ``master`` the Spark that the console uses.
    """
    command = next((known for known in COMMANDS if tuple(words[: len(known)]) == known), None)
    if command is None:
        raise _refuse("It was not started by a command.")
    checker = _CommandChecker(folder, out, workspace, master)
    return [*command, *checker.check(words[len(command) :], command)]


class _CommandChecker:
    def __init__(self, folder: Path, out: Path, workspace: Workspace, master: str) -> None:
        self._folder, self._out, self._workspace, self._master = folder, out, workspace, master

    def check(self, words: Sequence[str], command: tuple[str, ...]) -> list[str]:
        checked, has_out = list[str](), False
        rest = iter(words)
        for word in rest:
            option, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
            if option in _DROPPED:
                continue
            if option in _FLAGS and not equals:
                checked.append(option)
            elif option.startswith("-"):
                value = value if equals else next(rest, "")
                if option == "--master" and (value == self._master or _LOCAL.match(value)):
                    continue
                checked += [option, self._check_value(option, value, command)]
                has_out = has_out or option in _OUT
            else:
                checked.append(self._check_place(word))
        if not has_out:
            raise _refuse("Its command has no --out.")
        return checked

    def _check_value(self, option: str, value: str, command: tuple[str, ...]) -> str:
        if option in _OUT:
            if self._resolve(value) != self._out.resolve():
                raise _refuse("Its folder was moved since.")
            return str(self._out)
        if option in _PLAIN and not value.startswith("-"):
            return value
        if option == "--rules" and value in RULES:
            return value
        if option in _PLACES:
            return self._check_named_place(value)
        if option == "--schema" and command == ("cuboid", "run"):
            return value if any(map(str.isspace, value)) else self._check_place(value)
        raise _refuse(f"Its command uses {option[:40]}, which the console does not.")

    def _check_named_place(self, value: str) -> str:
        name, equals, where = value.partition("=")
        if equals and re.fullmatch(r"\w+", name):
            return f"{name}={self._check_place(where)}"
        return self._check_place(value)

    def _check_place(self, where: str) -> str:
        if LIVE.match(where):
            return where
        path = self._resolve(where)
        if not any(path.is_relative_to(root) for root in self._workspace.roots) or not path.exists():
            raise _refuse(f"{Path(where).name} is not in the workspace.")
        return str(path)

    def _resolve(self, value: str) -> Path:
        return Path(os.path.normpath(self._folder / value)).resolve()


def _refuse(why: str) -> Conflict:
    return Conflict(why, hint="Resume it on the command line, with the command that started it.", code="not-allowed")


def option(name: str, value: object) -> Iterator[str]:
    """Return the words of an option, or none if it has no value.

    >>> [*option("--speed", 2.0), *option("--until", None), *option("--follow", True)]
    ['--speed', '2.0', '--follow']
    """
    if value is True:
        yield name
    elif value not in (None, False, ""):
        yield from (name, str(value))
