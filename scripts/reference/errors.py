"""Errors: their codes, their fields and the exit codes, from the module that defines them."""

from __future__ import annotations

import json

from reference.tables import WRITTEN, fields, first_line, meanings, table
from slipstream._errors import (
    CODES,
    BadArgument,
    BadInput,
    CheckFailed,
    Place,
    Unavailable,
)

KINDS = (BadArgument, BadInput, Unavailable, CheckFailed)
EXAMPLE = BadInput(
    "14 fields.",
    place=Place(file="run.csv", line=3),
    code="unreadable-line",
    hint="A Linear Road line has 15 integers.",
    found=14,
    expected=15,
)


def page() -> str:
    """The page."""
    body = json.dumps({"error": EXAMPLE.to_json() | {"exit_code": EXAMPLE.exit_code}}, indent=2)
    return "\n".join(
        (
            "# Errors\n\n" + WRITTEN,
            "A command that fails prints what is wrong and the next step on standard error, and exits with the code of "
            "its kind. In Python the same errors are exceptions, subclasses of `slipstream.SlipstreamError`.\n",
            table(
                ("kind", "exit code", ""),
                [(f"`{kind.__name__}`", kind.exit_code, first_line(kind)) for kind in KINDS],
            ),
            "Exit code 0 is success, 130 an interrupt (Ctrl-C, SIGTERM), 141 a pipe whose reader has ended. Any other "
            "error is a bug in Slipstream: it prints a traceback, and exits with code 1.\n",
            "## Errors as JSON\n",
            "With `--json`, the last line of standard error is one JSON object. Standard output has the result or is "
            "empty; a check that fails, such as `slipstream validate`, prints both.\n",
            f"```json\n{body}\n```\n",
            "`found` and `expected` are given if they are known. `place` has the known ones of:\n",
            _place(),
            "`log`, if present, names the file with Spark's own messages.\n",
            "## Codes\n",
            "Codes are stable; sentences are not. In Python, `error.code`. Error responses of the console have "
            "the same fields.\n",
            meanings(CODES),
        )
    )


def _place() -> str:
    words = "| `words` |"
    return "\n".join(line for line in fields(Place).split("\n") if not line.startswith(words))
