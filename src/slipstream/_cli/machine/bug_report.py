"""One file for a bug report: the machine, the versions, the settings and a job's own account, without secrets.

Rows of tables are never in it, as positions are personal data.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from slipstream._cli.common.configuration import NAME as CONFIGURATION
from slipstream._runtime.job import FILE as JOB
from slipstream._runtime.watching import starts, status
from slipstream._runtime.watching.metrics import FILE as METRICS

if TYPE_CHECKING:
    from slipstream._cli.machine.doctor_command import Finding

#: what a job says about itself, each with its last bytes; none of it has rows
_ACCOUNTS = {
    JOB: 8_000,
    status.FILE: 8_000,
    starts.FILE: 4_000,
    METRICS: 12_000,
    starts.LOG: 24_000,
    starts.SPARK_LOG: 24_000,
}
#: files of a job that are listed
_MOST_FILES = 200
_ENVIRONMENT = re.compile(r"(SLIPSTREAM|SPARK|PYSPARK|HADOOP|JAVA|NUMBA)_?\w*")
_NAMES = r"[\w.-]*(?:password|passwd|passphrase|secret|token|credential|jaas|api[._-]?key|access[._-]?key)[\w.-]*"
_NAMED = re.compile(rf"""({_NAMES}["']?\s*[=:]\s*)("(?:\\.|[^"\\])*"|'[^']*'|[^\s,;}}\]]+)""", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"(\w+://)[^/\s@\"']+@")


def redact(text: str) -> str:
    """Return a text without the values of passwords, tokens and keys, and without the name of the home folder.

    >>> redact("sasl.password=p4ss, url: http://ann:p4ss@host/ {'token': 'abc'} retries=3")
    "sasl.password=***, url: http://***@host/ {'token': ***} retries=3"
    """
    home = str(Path.home())
    text = text.replace(home, "~") if home not in ("", "/") else text
    return _IN_ADDRESS.sub(r"\1***@", _NAMED.sub(r"\1***", text))


def make_report(findings: Sequence[Finding], job: Path | None, environment: Mapping[str, str] | None = None) -> str:
    """Return the report as Markdown."""
    return redact("\n".join(_parts(findings, job, os.environ if environment is None else environment)))


def _parts(findings: Sequence[Finding], job: Path | None, environment: Mapping[str, str]) -> Iterator[str]:
    yield "# Slipstream: report for a bug\n"
    yield "Passwords, tokens and keys are left out. Read it before you send it.\n"
    yield "What I did, what I expected, and what happened:\n\n...\n"
    memory = psutil.virtual_memory()
    yield from _section(
        "Machine",
        [
            f"{platform.platform()}, {platform.machine()}, {platform.python_implementation()}",
            f"{psutil.cpu_count()} cores, {memory.total >> 20} MiB of memory, {memory.available >> 20} available",
            *(" ".join(str(value) for value in asdict(finding).values()) for finding in findings),
        ],
    )
    yield from _section(
        "Environment", [f"{k}={v}" for k, v in sorted(environment.items()) if _ENVIRONMENT.fullmatch(k)]
    )
    if (settings := Path(CONFIGURATION)).is_file():
        yield from _section(CONFIGURATION, [_read_end(settings, 8_000)])
    packages = {f"{one.metadata['Name']}=={one.version}" for one in distributions()}
    yield from _section("Packages", sorted(packages, key=str.lower))
    if job is not None:
        for name, most in _ACCOUNTS.items():
            if (job / name).is_file():
                yield from _section(f"Job: {name}", [_read_end(job / name, most)])
        yield from _section("Job: files", _list_files(job))


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    yield f"## {title}\n\n```"
    yield from (line.rstrip().replace("```", "'''") for line in lines)
    yield "```\n"


def _read_end(file: Path, most: int) -> str:
    try:
        data = file.read_bytes()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ("..." if len(data) > most else "") + data[-most:].decode(errors="replace")


def _list_files(folder: Path) -> list[str]:
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    lines = [f"{path.stat().st_size:>12} {path.relative_to(folder)}" for path in found[:_MOST_FILES]]
    return [*lines, f"... and {len(found) - _MOST_FILES} more"] if len(found) > _MOST_FILES else lines
