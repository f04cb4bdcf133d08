"""``slipstream doctor``: check whether this machine is ready, and if not, what to do."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import psutil
import typer
from rich.table import Table

from slipstream import __version__
from slipstream._cli.common.checks import check_there, check_writable
from slipstream._cli.common.options import Json
from slipstream._cli.common.printed_tables import print_table
from slipstream._cli.machine import bug_report
from slipstream._errors import BadArgument, SlipstreamError, Unavailable
from slipstream._spark import class_archive, session
from slipstream._tools.extras import require
from slipstream._tools.progress import say

GIB = 1024**3
SHARED_MEMORY = Path("/dev/shm")
KAFKA_PORT, CONSOLE_PORT = 9092, 8321
#: Linux: whether shared memory may use huge pages
HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
PACKAGES = ("pyspark", "numpy", "numba", "pandas", "pyarrow", "protobuf", "grpcio")


@dataclass(frozen=True)
class Finding:
    """One thing looked at: what was found, whether it is good enough, and the next step if not."""

    what: str
    found: str
    good: bool
    todo: str = ""
    optional: bool = False  # most of the work goes without


def parse_java_version(text: str) -> int:
    """Return the major version that ``java -version`` prints.

    >>> parse_java_version('openjdk version "17.0.15" 2025-04-15')
    17
    """
    match = re.search(r'version "(\d+)', text)
    return int(match.group(1)) if match else 0


def look_at_java() -> Finding:
    """Spark 4 runs on Java 17 or newer."""
    todo = "Install Java 17 or newer: apt-get install openjdk-17-jre-headless"
    try:
        program = session.java()
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (Unavailable, OSError, subprocess.TimeoutExpired) as error:
        return Finding("Java", str(error).splitlines()[0], good=False, todo=todo)
    major = parse_java_version(answer.stderr)
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


def look_at_shared_memory() -> Finding:
    """Where engines keep their state warm between batches."""
    if not SHARED_MEMORY.is_dir():
        return Finding(
            "/dev/shm", "missing", good=False, todo="State is kept on the disk, which is slower.", optional=True
        )
    space = shutil.disk_usage(SHARED_MEMORY)
    found = f"{space.free / GIB:.1f} of {space.total / GIB:.1f} GiB free"
    todo = "Give it 1 GiB or more: mount -o remount,size=2g /dev/shm, or docker run --shm-size 2g"
    return Finding("/dev/shm", found, good=space.free >= GIB, todo=todo, optional=True)


def look_at_huge_pages(setting: Path = HUGE_PAGES) -> Finding:
    """State of gigabytes in shared memory is faster with large pages; everything works without."""
    try:
        text = setting.read_text(encoding="utf-8")
    except OSError:
        return Finding("Huge pages", "not of this system", good=True)
    found = re.search(r"\[(\w+)\]", text)
    mode = found[1] if found else "unknown"
    todo = f"For jobs with millions of keys: echo advise > {setting} (as root)."
    return Finding("Huge pages", f"shared memory: {mode}", good=mode not in ("never", "deny"), todo=todo, optional=True)


def look_at_storage(folder: Path) -> Finding:
    """A job needs locks, atomic renames and files that are synced to the disk, in tolerable time."""
    begun = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix=".slipstream-doctor-", dir=folder) as place:
            file = Path(place, "a")
            with file.open("wb") as opened:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                opened.write(b"x")
                os.fsync(opened.fileno())
            file.replace(file.with_name("b"))
    except OSError as error:
        todo = "Put the folders of jobs on a local disk, or on a network file system with locks (NFS 4, CephFS)."
        return Finding("Storage", f"{folder}: {error.strerror}", good=False, todo=todo)
    took = 1000 * (time.monotonic() - begun)
    todo = "A commit syncs the journal once per batch: use a faster disk for jobs that commit every second."
    return Finding("Storage", f"locks, renames and syncs in {took:.0f} ms", good=took < 1000, todo=todo, optional=True)


def look_at_broker(address: str) -> Finding:
    """Whether a Kafka broker answers, not just its port."""
    try:
        require("kafka", "A Kafka broker")
        from slipstream._io.kafka_client import Topic

        Topic.parse(f"kafka:{address}/slipstream-doctor").check_broker()
    except SlipstreamError as error:
        return Finding("Kafka", error.message, good=False, todo=error.hint)
    return Finding("Kafka", f"{address} answers", good=True)


def look_at_archive() -> Finding:
    """An archive of Spark's classes halves the time that Spark takes to start."""
    try:
        made = bool(class_archive.use_archive(session.java()))
    except Unavailable:
        made = False
    todo = "Run `slipstream prepare` once, and Spark starts in half the time."
    return Finding("Spark's classes", "archived" if made else "not archived", good=made, todo=todo, optional=True)


def look_at_page() -> Finding:
    """The console's page is built by Node when Slipstream is installed."""
    built = files("slipstream._console").joinpath("static", "index.html").is_file()
    todo = "Install Node 18 or newer and run scripts/console.sh; everything else works without."
    return Finding("Console's page", "built" if built else "not built", good=built, todo=todo, optional=True)


def look_at_node() -> Finding:
    """Node builds the console's page, and is not needed afterwards."""
    todo = "Only to build the console's page: apt-get install nodejs npm"
    try:
        answer = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return Finding("Node", "missing", good=False, todo=todo, optional=True)
    major = int(found[1]) if (found := re.match(r"v(\d+)", answer.stdout)) else 0
    return Finding("Node", answer.stdout.strip() or "unknown", good=major >= 18, todo=todo, optional=True)


def look_at_port(what: str, port: int) -> Finding:
    """Whether a server can be started on a port of this machine, or one runs there."""
    with socket.socket() as probe:
        probe.settimeout(1)
        taken = probe.connect_ex(("127.0.0.1", port)) == 0
    found = f"{port}: something listens there" if taken else f"{port}: free"
    return Finding(what, found, good=True)


def examine(folder: Path, kafka: str = "") -> list[Finding]:
    """Everything ``doctor`` looks at; ``kafka`` is the address of a broker."""
    python = sys.version.split()[0]
    return [
        Finding("Slipstream", __version__, good=True),
        Finding("Python", python, good=sys.version_info >= (3, 11), todo="Use Python 3.11 or newer"),
        look_at_java(),
        look_at_archive(),
        look_at_memory(),
        look_at_disk(folder),
        Finding("Cores", str(psutil.cpu_count()), good=True),
        look_at_storage(folder),
        look_at_shared_memory(),
        look_at_huge_pages(),
        look_at_page(),
        look_at_node(),
        look_at_broker(kafka) if kafka else look_at_port("Port of Kafka", KAFKA_PORT),
        look_at_port("Port of the console", CONSOLE_PORT),
        *(look_at_package(name) for name in PACKAGES),
    ]


def doctor(
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a file for a bug report: what was found, versions, settings, without secrets and positions.",
        ),
    ] = None,
    job: Annotated[
        Path | None, typer.Option(metavar="OUT", help="Add what the job in this folder says of itself to the report.")
    ] = None,
    kafka: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Also ask this Kafka broker whether it answers.", show_default=False),
    ] = "",
    as_json: Json = False,
) -> None:
    """Check Java, memory, shared memory, storage, versions, and what the console and Kafka need; print what to do.

    Exits with code 4 if something required is missing; `--` marks what most commands do not need.

    Examples:

    `slipstream doctor`

    `slipstream doctor --kafka 127.0.0.1:9092`

    `slipstream doctor --report bug.md --job tolls`
    """
    check_there(job, option="--job", hint="Give the folder that --out named.")
    if job is not None and report is None:
        raise BadArgument("--job is only for a report.", hint="Add --report FILE.", code="conflicting-options")
    if report is not None and report.exists():
        raise BadArgument(f"--report {report}: exists.", hint="Give a new file.", code="exists", found=report)
    check_writable(report, "--report")
    findings = examine(Path.cwd(), kafka)
    if report is not None:
        report.write_text(bug_report.make_report(findings, job), encoding="utf-8")
        say(f"Wrote {report}. Read it before you send it.")
    good = all(finding.good or finding.optional for finding in findings)
    if as_json:
        print(json.dumps({"good": good, "findings": [asdict(finding) for finding in findings]}))
    else:
        table = Table("", "found", "what to do", title="This machine")
        for finding in findings:
            mark = "[green]ok[/]" if finding.good else "[yellow]--[/]" if finding.optional else "[red]no[/]"
            table.add_row(f"{mark} {finding.what}", finding.found, "" if finding.good else finding.todo)
        print_table(table)
    if not good:
        raise typer.Exit(Unavailable.exit_code)


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command()(doctor)
