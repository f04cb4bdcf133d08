"""The command line: ``slipstream``. One module per family of commands; this one joins them.

Results go to standard output (``--json`` for scripts), progress and messages to standard error. A user's
mistake ends with one message, the next step, and the exit code of its kind; never with a traceback.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from slipstream import __version__
from slipstream._cli import (
    archive_command,
    berlinmod_command,
    chaos_command,
    console_command,
    cuboid_command,
    job_command,
    network,
    roads_command,
    submit_command,
    trajectories_command,
)
from slipstream._cli.common import verbosity
from slipstream._cli.common.command_style import Family
from slipstream._cli.common.configuration import VARIABLE
from slipstream._cli.common.usage import UsageError, explain
from slipstream._cli.linear_road import (
    bench_command,
    describe_command,
    exchange_commands,
    history_command,
    rate_command,
    simulate_command,
    toll_command,
)
from slipstream._cli.machine import doctor_command, examples_command, prepare_command
from slipstream._errors import BadArgument, SlipstreamError, Unavailable
from slipstream._spark import session
from slipstream._tools import command_line
from slipstream._tools.extras import explain_import
from slipstream._tools.files import locations
from slipstream._tools.files.stores import explain_store
from slipstream._tools.progress import console

#: the exit code after Ctrl-C, SIGTERM or SIGHUP
STOPPED = 130

app = Family(
    name="slipstream",
    help="Streams and trajectories of moving vehicles, on Apache Spark.",
    epilog="Start with: slipstream simulate --expressways 1 --minutes 5 --out runs/first",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
#: what the help shows together
_PANELS = {
    "Streams and jobs": (
        toll_command,
        archive_command,
        network,
        cuboid_command,
        job_command,
        submit_command,
        console_command,
    ),
    "Trajectories": (trajectories_command, roads_command, berlinmod_command),
    "Runs of Linear Road": (
        simulate_command,
        exchange_commands,
        describe_command,
        history_command,
    ),
    "Benchmark kit": (bench_command, rate_command, chaos_command),
    "This machine": (doctor_command, prepare_command, examples_command),
}
for _panel, _families in _PANELS.items():
    for _family in _families:
        _family.add_to(app)
    _all: tuple[Any, ...] = (*app.registered_commands, *app.registered_groups)
    for _added in _all:
        if not isinstance(_added.rich_help_panel, str):
            _added.rich_help_panel = _panel


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"slipstream {__version__}")
        raise typer.Exit


@app.callback()
def slipstream(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Streams and trajectories of moving vehicles, on Apache Spark."""


def main() -> None:
    """Run the command line, and leave no Spark session behind."""
    # Spark's gateway logs a traceback for Ctrl-C and for a lost JVM; users get our own message
    logging.getLogger().addHandler(logging.NullHandler())
    session.interrupt_on_signals()
    try:
        run()
    finally:
        session.close()


def run() -> None:
    """Run the command line in a process that continues; the one place where an error becomes a message and a code."""
    named = os.environ.get(VARIABLE)
    verbosity.begin(sys.argv[1:])
    try:
        _run()
    finally:
        verbosity.end()
        if named is None:
            os.environ.pop(VARIABLE, None)


def _run() -> None:
    try:
        _check_working_folder()
        command_line.remember(sys.argv[1:])
        code = app(locations.replace_file_uris(sys.argv[1:]), standalone_mode=False, prog_name="slipstream")
        # Ctrl-C comes out of Typer as this, without a word
        if code == STOPPED:
            console.print("slipstream: stopped. The same command resumes where it was, or starts again.")
        sys.exit(code)
    except SlipstreamError as error:
        _tell(error)
    except UsageError as error:
        if (told := explain(error)) is None:
            sys.exit(BadArgument.exit_code)
        _tell(told)
    except SystemExit as left:
        if isinstance(left.__context__, BrokenPipeError):
            # Typer makes an error of it
            _leave_pipe()
        raise
    except BrokenPipeError:
        _leave_pipe()
    except Exception as error:
        if (told := _translate(error)) is None:
            if log := session.keep_log():
                verbosity.name_log(log)
            raise
        _tell(told)


def _translate(error: Exception) -> SlipstreamError | None:
    """Return an error that has an explanation: of Spark, or a package that this installation lacks."""
    if isinstance(error, ImportError) and (lacking := explain_import(error)):
        return lacking
    if isinstance(error, OSError) and (explained := explain_store(error)):
        return explained
    return session.translate_error(error)


def _check_working_folder() -> None:
    """Refuse to run in a folder that has been removed: no relative path has a meaning there."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise BadArgument(
            "The current folder no longer exists.", hint="Change to another folder (cd).", code="no-such-file"
        ) from error


def _leave_pipe() -> NoReturn:
    """Exit quietly: the reader of the pipe (head, less) has ended, so nobody needs the rest."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(141)


def _tell(error: SlipstreamError) -> NoReturn:
    verbosity.report(error, session.keep_log() if isinstance(error, Unavailable) else None)
    sys.exit(error.exit_code)
