"""The starts of a job, and its log: what ran when, and what it said.

    OUT/starts.jsonl    one line per start: when, by which process and version, and the command that did it
    OUT/job.log         what the job reported: states, messages, and the error that ended it
    OUT/spark.log       what Spark and its workers logged meanwhile

A job that failed last night explains itself, whoever started it and wherever its terminal has gone.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from slipstream import __version__
from slipstream._errors import MALFORMED, SlipstreamError, Unavailable
from slipstream._runtime.watching.status import FILE as STATUS
from slipstream._spark import session
from slipstream._tools import command_line, progress
from slipstream._tools.logs import append_lines, read_lines
from slipstream._tools.processes.background import Ended, background_task
from slipstream._tools.strict_json import decode_as, parse_json

FILE, LOG, SPARK_LOG = "starts.jsonl", "job.log", "spark.log"
#: a log of this size gets the suffix .1, and replaces the one that had it
LOG_BYTES = 4 << 20
#: seconds between two copies of what Spark has logged
_COPY_S = 10.0
#: lines of Spark's log that explain a failure
_LAST_LINES = 60


@dataclass(frozen=True)
class Start:
    """One start of a job."""

    at: float  # seconds of the Unix clock
    pid: int
    version: str
    command: tuple[str, ...]  # without the program and without secrets; empty if no command started it
    folder: str  # the working folder of the command


def read_starts(out: Path) -> list[Start]:
    """Return the starts of a job, oldest first; unreadable lines are left out."""
    found = []
    with suppress(OSError, *MALFORMED):
        for line in read_lines(out / FILE):
            with suppress(*MALFORMED):
                found.append(decode_as(Start, line))
    return found


def read_log(out: Path, last_bytes: int) -> str:
    """Return the end of a job's log, from the beginning of a line; empty if there is none."""
    try:
        with (out / LOG).open("rb") as file:
            start = max(file.seek(0, os.SEEK_END) - last_bytes, 0)
            file.seek(start)
            text = file.read(last_bytes)
    except OSError:
        return ""
    return (text.partition(b"\n")[2] if start else text).decode(errors="replace")


@contextmanager
def record_start(out: Path, source: str) -> Iterator[None]:
    """Record a start, and log what this thread says while the block runs and how it ends."""
    command, here = command_line.current(), _working_folder()
    log = _Log(out / LOG)
    # a disk that is full stops the job with an error of its own
    with suppress(OSError):
        append_lines(out / FILE, [asdict(Start(round(time.time(), 3), os.getpid(), __version__, command, here))])
    log.write(f"Start of slipstream {__version__}, process {os.getpid()}, reading {source or 'its input'}.")
    with keep_spark_log(out), progress.heard_by(log.hear):
        try:
            yield
        except KeyboardInterrupt:
            log.write("Interrupted.")
            raise
        except SlipstreamError as error:
            log.write(f"Failed: {error.message}\n{error.hint}")
            if isinstance(error, Unavailable):
                log.write(_end_of_spark_log())
            raise
        except BaseException as error:
            log.write(f"Failed: {type(error).__name__}: {error}\n{_end_of_spark_log()}")
            raise
    log.write(f"Ended: {_why(out)}.")


@contextmanager
def keep_spark_log(out: Path) -> Iterator[None]:
    """Append what Spark logs while the block runs to the log in a job's folder.

    Spark itself writes to a temporary file, which is emptied when it is large: a job may run for months.
    """
    source, target = session.spark_log(), out / SPARK_LOG
    place = source.stat().st_size if source.exists() else 0

    def copy() -> None:
        nonlocal place
        with suppress(OSError):
            with source.open("rb") as log:
                log.seek(place)
                text = log.read()
            if text:
                _rotate(target)
                with target.open("ab") as kept:
                    kept.write(text)
            place += len(text)
            if place > LOG_BYTES:
                # writers append, so the next line is the first
                os.truncate(source, 0)
                place = 0

    def watch(ended: Ended) -> None:
        while not ended.wait(_COPY_S):
            copy()

    try:
        with background_task(watch):
            yield
    finally:
        copy()


def _rotate(log: Path) -> None:
    """Give a large log the suffix .1."""
    if log.exists() and log.stat().st_size > LOG_BYTES:
        log.replace(log.with_name(f"{log.name}.1"))


def _why(out: Path) -> str:
    """Why a job ended, as its status says."""
    try:
        return str(parse_json((out / STATUS).read_bytes())["why"])
    except (OSError, *MALFORMED):
        return "its status cannot be read"


class _Log:
    """A log for one thread of one process; that it cannot be written must not end a job."""

    def __init__(self, file: Path) -> None:
        self._file, self._thread = file, threading.get_ident()
        with suppress(OSError):
            _rotate(file)

    def hear(self, text: str) -> None:
        if threading.get_ident() == self._thread:
            self.write(text)

    def write(self, text: str) -> None:
        if not text.strip():
            return
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = text.strip().replace("\n", "\n    ")
        with suppress(OSError), self._file.open("a", encoding="utf-8") as file:
            file.write(f"{now} {body}\n")


def _end_of_spark_log() -> str:
    with suppress(OSError):
        lines = session.spark_log().read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return "\n".join(["Spark's last messages:", *lines[-_LAST_LINES:]]) if lines else ""
    return ""


def _working_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""
