"""``slipstream doctor``: is this machine ready, and if not, what to do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil
import typer
from rich.console import Console
from rich.table import Table

from slipstream import __version__, session
from slipstream.cli.options import Json
from slipstream.errors import Unavailable

GIB = 1024**3
PACKAGES = ("pyspark", "numpy", "numba", "pandas", "pyarrow", "protobuf", "grpcio")


@dataclass(frozen=True)
class Finding:
    """One thing looked at: what was found, whether it will do, and the next step if not."""

    what: str
    found: str
    good: bool
    todo: str = ""


def java_version(text: str) -> int:
    """The major version in what ``java -version`` prints.

    >>> java_version('openjdk version "17.0.15" 2025-04-15')
    17
    """
    match = re.search(r'version "(\d+)', text)
    return int(match.group(1)) if match else 0


def look_at_java() -> Finding:
    """Spark 4.3 runs on Java 17 or newer."""
    todo = "Install Java 17 or newer: apt-get install openjdk-17-jre-headless"
    try:
        program = session.java()
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (Unavailable, OSError, subprocess.TimeoutExpired) as error:
        return Finding("Java", str(error).splitlines()[0], good=False, todo=todo)
    major = java_version(answer.stderr)
    return Finding("Java", f"{major} ({program})", good=major >= 17, todo=todo)


def look_at_memory() -> Finding:
    """Spark's JVM takes 2 GB by default, the Python workers about as much again."""
    free = psutil.virtual_memory().available / GIB
    return Finding(
        "Memory",
        f"{free:.1f} GiB free",
        good=free >= 4,
        todo="Close something, or set SLIPSTREAM_DRIVER_MEMORY=1g",
    )


def look_at_disk(folder: Path) -> Finding:
    """Three hours of one expressway take about 100 MB, its history about 300 MB."""
    free = shutil.disk_usage(folder).free / GIB
    return Finding("Disk", f"{free:.1f} GiB free here", good=free >= 2, todo=f"Free some space on the disk of {folder}")


def look_at_package(name: str) -> Finding:
    """A Python package that a job imports on the driver or on a worker."""
    try:
        return Finding(name, version(name), good=True)
    except PackageNotFoundError:
        return Finding(name, "missing", good=False, todo="Run `make setup`")


def examine(folder: Path) -> list[Finding]:
    """Everything ``doctor`` looks at."""
    python = sys.version.split()[0]
    return [
        Finding("Slipstream", __version__, good=True),
        Finding("Python", python, good=sys.version_info >= (3, 11), todo="Use Python 3.11 or newer"),
        look_at_java(),
        look_at_memory(),
        look_at_disk(folder),
        Finding("Cores", str(psutil.cpu_count()), good=True),
        *(look_at_package(name) for name in PACKAGES),
    ]


def doctor(as_json: Json = False) -> None:
    """Check Java, memory, disk and versions, and say what to do.

    Leaves with exit code 4 when something must be mended first.
    """
    findings = examine(Path.cwd())
    good = all(finding.good for finding in findings)
    if as_json:
        print(json.dumps({"good": good, "findings": [asdict(finding) for finding in findings]}))
    else:
        table = Table("", "found", "what to do", title="This machine", title_justify="left")
        for finding in findings:
            mark = "[green]ok[/]" if finding.good else "[red]no[/]"
            table.add_row(f"{mark} {finding.what}", finding.found, "" if finding.good else finding.todo)
        Console().print(table)
    if not good:
        raise typer.Exit(Unavailable.exit_code)


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command()(doctor)
