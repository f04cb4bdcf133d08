"""How much a command prints, and where: ``--quiet``, ``--verbose``, ``--log-file``, errors as JSON with ``--json``."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from slipstream._errors import BadArgument, SlipstreamError, classify
from slipstream._spark import session
from slipstream._tools import command_line, progress

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


@dataclass
class Verbosity:
    """The verbosity that one command line requests."""

    verbose: bool = False
    as_json: bool = False
    log_file: Path | None = None
    handlers: list[logging.Handler] = field(default_factory=list)

    def add(self, handler: logging.Handler) -> None:
        """Send log messages to one more place."""
        handler.setFormatter(logging.Formatter(_FORMAT))
        root = logging.getLogger()
        root.setLevel(logging.INFO)
        root.addHandler(handler)
        # Py4J reports every connection that it opens and closes
        logging.getLogger("py4j").setLevel(logging.WARNING)
        self.handlers.append(handler)


_now = Verbosity()


def begin(words: list[str]) -> None:
    """Reset the verbosity; even a command line that cannot be parsed may request JSON."""
    end()
    options = words[: words.index("--")] if "--" in words else words
    _now.as_json = "--json" in options or "-j" in options


def end() -> None:
    """Close the log, with Spark's own messages at its end."""
    if _now.log_file is not None:
        _append_spark_log(_now.log_file)
    for handler in _now.handlers:
        logging.getLogger().removeHandler(handler)
        handler.close()
    progress.console.quiet = False
    vars(_now).update(vars(Verbosity()))


def set_quiet(wanted: bool) -> None:
    """Print results and errors only."""
    progress.console.quiet = wanted


def set_verbose(wanted: bool) -> None:
    """Print log messages, too, and the tracebacks of errors."""
    if wanted and not _now.verbose:
        handler = logging.StreamHandler()
        # what we say ourselves is on the terminal already
        handler.addFilter(lambda record: record.name != progress.LOGGER)
        _now.add(handler)
    _now.verbose = wanted


def set_json(wanted: bool) -> bool:
    """Print errors as JSON, like the result."""
    _now.as_json = wanted
    return wanted


def set_log_file(file: Path | None) -> None:
    """Append what is printed to standard error, and log messages, to a file."""
    if file is None or file == _now.log_file:
        return
    try:
        _now.add(logging.FileHandler(file, encoding="utf-8"))
    except OSError as error:
        raise BadArgument(
            f"--log-file {file}: {error.strerror}.", hint="Give a file that can be written.", code=classify(error)
        ) from error
    _now.log_file = file
    logging.getLogger(progress.LOGGER).info("slipstream %s", " ".join(command_line.hide_secrets(sys.argv[1:])))


def report(error: SlipstreamError, log: Path | None) -> None:
    """Print an error: the message and the hint; with ``--json`` one line of JSON, the last on standard error."""
    if _now.handlers:
        logging.getLogger(progress.LOGGER).error(str(error), exc_info=error if _now.log_file else None)
    if _now.as_json:
        body = error.to_json() | {"exit_code": error.exit_code} | ({"log": str(log)} if log else {})
        print(json.dumps({"error": body}), file=sys.stderr)
        return
    console = Console(stderr=True)
    console.print(f"[bold red]slipstream:[/] {_escape(error.message)}", highlight=False, soft_wrap=True)
    if error.hint:
        console.print(_escape(error.hint), highlight=False, soft_wrap=True)
    if _now.verbose:
        traceback.print_exception(error)
    if log:
        name_log(log)


def name_log(log: Path) -> None:
    """Print the path of Spark's own messages."""
    where = f"Spark's own messages, kept for a day: {_escape(str(log))}"
    Console(stderr=True).print(where, highlight=False, soft_wrap=True)


def _append_spark_log(file: Path) -> None:
    log = session.spark_log()
    if log.exists():
        with file.open("a", encoding="utf-8") as stream:
            stream.write(f"Spark's own messages:\n{log.read_text(encoding='utf-8', errors='replace')}")


def _escape(text: str) -> str:
    return text.replace("[", "\\[")
