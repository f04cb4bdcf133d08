"""Common to all commands: the look of options, short names, verbosity, and the configuration file.

Commands are declared with Typer as usual; :class:`Family` makes them :class:`Command`, which adds what all share.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from slipstream._cli.common import configuration, verbosity
from slipstream._cli.common.help_tables import help_tables
from slipstream._cli.common.usage import UsageError
from slipstream._errors import BadArgument, Place
from slipstream._tools.files.locations import to_path

Function = TypeVar("Function", bound=Callable[..., Any])

#: the panel of the options that every command has
PANEL = "Every command"
#: the short names of options, wherever they occur
SHORT = {"--out": "-o", "--follow": "-f", "--json": "-j"}
#: how the help names a value, by its type
METAVARS = {"path": "FILE", "str": "TEXT", "int": "N", "float": "NUMBER"}


class Family(typer.Typer):
    """A group of commands that are alike."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"cls": Group, "no_args_is_help": True, **settings})

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Function], Function]:
        """Declare a command, as Typer does."""
        return super().command(name, **{"cls": Command, **settings})


class Group(TyperGroup):
    """A group of commands in the house style."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        with help_tables():
            super().format_help(ctx, formatter)

    def get_params(self, ctx: Any) -> list[Any]:
        """The options, as the help shows them."""
        return [_restyle(parameter) for parameter in super().get_params(ctx)]


class Command(TyperCommand):
    """A command in the house style."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params = [_restyle(parameter) for parameter in (*self.params, *_list_common_options())]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        with help_tables():
            super().format_help(ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The parts of the usage; an argument is its bare name, in brackets if it may be left out."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def get_help_option(self, ctx: Any) -> Any:
        """``--help``, which is a flag like any other."""
        option = super().get_help_option(ctx)
        return option and _restyle(option)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; a bad value in the configuration file is reported with its place there."""
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            name = getattr(getattr(error, "param", None), "name", None)
            source = ctx.get_parameter_source(name) if name else None
            if source is None or source.name != "DEFAULT_MAP":
                raise
            raise BadArgument(
                str(getattr(error, "message", error)),
                place=Place(file=str(configuration.current().file), field=f"defaults.{name}"),
                hint="Correct the file, or give the option on the command line.",
                code="bad-config",
            ) from error

    def invoke(self, ctx: Any) -> Any:
        """Run the command with the lists of the configuration file before those of the command line.

        Paths that were URIs of stores become such again.
        """
        for name, values in configuration.current().lists.items():
            if name in ctx.params:
                ctx.params[name] = [*values, *(ctx.params[name] or ())]
        ctx.params = {name: _revive(value) for name, value in ctx.params.items()}
        return super().invoke(ctx)


def _revive(value: Any) -> Any:
    """Typer makes a local path of every URI."""
    if isinstance(value, list | tuple):
        return type(value)(map(_revive, value))
    return to_path(value) if isinstance(value, Path) else value


def _restyle(parameter: Any) -> Any:
    """Flags without a type, values in upper case, short names that are the same everywhere."""
    parameter.opts += [short for name, short in SHORT.items() if name in parameter.opts and short not in parameter.opts]
    if parameter.param_type_name == "argument":
        parameter.metavar = parameter.metavar or parameter.name.strip("_").upper()
        parameter.display_type_rich = lambda ctx: None  # noqa: ARG005  (the name says what it is)
    elif parameter.is_flag:
        parameter.metavar = ""
    elif parameter.metavar is None and parameter.type_descriptor.is_choice:
        parameter.metavar = "|".join(str(choice.value) for choice in parameter.type_descriptor.choices)
    elif parameter.metavar is None and "--out" in parameter.opts:
        parameter.metavar = "DIR"
    elif parameter.metavar is None:
        bare = parameter.bare_type().removeprefix("list[").removesuffix("]")
        parameter.metavar = METAVARS.get(bare.lower(), bare.upper())
    return parameter


def _configure(ctx: typer.Context, file: Path | None) -> None:
    configuration.read(file, ctx)
    if (ctx.default_map or {}).get("as_json"):
        verbosity.set_json(True)  # also if the rest of the command line cannot be parsed


def _declare_common(
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            help="Print results and errors only.",
            callback=verbosity.set_quiet,
            expose_value=False,
            rich_help_panel=PANEL,
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Also print log messages, and the traceback of an error.",
            callback=verbosity.set_verbose,
            expose_value=False,
            rich_help_panel=PANEL,
        ),
    ] = False,
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log-file",
            metavar="FILE",
            help="Append messages, log messages and Spark's log to this file.",
            callback=verbosity.set_log_file,
            expose_value=False,
            rich_help_panel=PANEL,
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="FILE",
            envvar=configuration.VARIABLE,
            help="Read defaults from this file instead of ./slipstream.toml.",
            callback=_configure,
            is_eager=True,
            expose_value=False,
            rich_help_panel=PANEL,
        ),
    ] = None,
) -> None:
    """The options of every command; never called."""


@cache
def _list_common_options() -> tuple[Any, ...]:
    app = typer.Typer(add_completion=False)
    app.command()(_declare_common)
    return tuple(get_command(app).params)
