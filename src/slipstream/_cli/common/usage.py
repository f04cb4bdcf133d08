"""Typer's errors about a command line as errors of ours, so that all look alike and have codes."""

from __future__ import annotations

from typing import Any

import typer

from slipstream._errors import BadArgument, SlipstreamError

#: Typer's own errors; their class has no public name
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

#: options that had another name before; of several, the one that the command has
RENAMED = {
    "--encoding": ("--format",),
    "--from": ("--input", "--min", "--format"),
    "--to": ("--max", "--to-crs"),
    "--log": ("--timings",),
    "--sink": ("--to",),
    "--kinds": ("--only",),
    "--queries": ("--only",),
    "--force": ("--overwrite",),
    "--as": ("--format",),
}


def explain(error: Any) -> SlipstreamError | None:
    """The error in our words; nothing if it is the help that Typer shows when a group is called without a command."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return None
    option = getattr(error, "option_name", None)
    path = error.ctx.command_path if error.ctx else "slipstream"
    hint = _find_new_name(option, error.ctx) or _suggest_similar(error) or f"`{path} --help` shows how to use it."
    message = _describe_value(error) or (error.message if option else error.format_message())
    return BadArgument(message if message.endswith((".", "?")) else f"{message}.", hint=hint, code="bad-usage")


def _describe_value(error: Any) -> str:
    """Name the option, the value that was found and what was expected; nothing if no value is wrong."""
    wrong: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    if not wrong or error.param is None:
        return ""
    first = wrong[0]
    limits = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
    expected = {
        "int_parsing": "not a whole number",
        "float_parsing": "not a number",
        "bool_parsing": "not true or false",
    }
    limit = next((f"must be {limits[key]} {end}" for key, end in first.get("ctx", {}).items() if key in limits), "")
    name = max(error.param.opts, key=len) if error.param.opts[0].startswith("-") else error.param.human_readable_name
    told = limit or expected.get(first["type"]) or first["msg"].removeprefix("Value error, ")
    return f"{name} {first['input']}: {told}"


def _find_new_name(option: str | None, context: Any) -> str:
    known = {name for parameter in (context.command.params if context else ()) for name in parameter.opts}
    return next((f"It is {name} now." for name in RENAMED.get(option or "", ()) if name in known), "")


def _suggest_similar(error: Any) -> str:
    names = sorted(getattr(error, "possibilities", None) or ())
    return f"Did you mean {' or '.join(names)}?" if names else ""
