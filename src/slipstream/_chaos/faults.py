"""The faults, one small class per kind: how each is prepared, injected into a running job, and undone.

After a fault that ``ends``, the job must have exited, killed or with advice; after any other it continues, or exits
with advice. A fault ``before`` the start damages the folder of a job that is not running. What a machine does not
permit (a read-only mount without root) is done by a failpoint instead, as the ``kind`` shows.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from slipstream._chaos.process import JobProcess
from slipstream._io.outputs import CHECKPOINT, FOLDER, JOURNAL, last_batch, text_lengths
from slipstream._linear_road.answer_text import TEXT
from slipstream._tools.processes.failpoints import OUTPUT_POINTS, VARIABLE

#: who is killed
EVERYTHING, DRIVER, JVM, WORKERS = "everything", "driver", "JVM", "Python workers"


@dataclass
class Site:
    """Where a chain of faults takes place: the job's folder, a scratch folder, and a random generator."""

    out: Path
    scratch: Path
    chance: random.Random
    pause_s: float = 60.0


@dataclass
class Fault:
    """The base class of faults; does nothing."""

    site: Site
    ends: bool = field(default=True, init=False)
    before: bool = field(default=False, init=False)
    struck: bool = field(default=False, init=False)
    missed: bool = field(default=False, init=False)  # the job did not reach the failpoint

    @property
    def kind(self) -> str:
        """Its name in reports."""
        return type(self).__name__

    def environment(self) -> Mapping[str, str]:
        """Return environment variables that the job must be started with."""
        return {}

    def strike(self, engine: JobProcess) -> None:
        """Inject the fault; sets ``missed`` if that was not possible."""

    def harm(self) -> bool:
        """Damage the folder of a job that is not running; return whether there was anything to damage."""
        return False

    def heal(self) -> None:
        """Undo the fault after the job has exited."""


def choose_victims(engine: JobProcess, who: str) -> list[psutil.Process]:
    """Return the processes to kill."""
    family = engine.family()
    jvm = engine.jvm()
    chosen = {EVERYTHING: family, DRIVER: family[:1], JVM: [jvm] if jvm else [], WORKERS: engine.workers()}
    return chosen[who]


@dataclass
class Kill(Fault):
    """Kill the driver, the JVM or everything, at a random time."""

    who: str = EVERYTHING

    @property
    def kind(self) -> str:
        """Its name, with the victim."""
        return f"kill {self.who}"

    def strike(self, engine: JobProcess) -> None:
        """Kill; the remaining processes must notice by themselves."""
        engine.kill(choose_victims(engine, self.who))


@dataclass
class KillWorker(Fault):
    """Kill one Python worker; Spark retries its task."""

    def __post_init__(self) -> None:
        self.ends = False

    @property
    def kind(self) -> str:
        """Its name."""
        return "kill a Python worker"

    def strike(self, engine: JobProcess) -> None:
        """Kill one of the current workers."""
        if workers := engine.workers():
            engine.kill([self.site.chance.choice(workers)])


@dataclass
class KillAt(Fault):
    """Kill when a process has reached a failpoint, at the worst possible moment."""

    point: str = OUTPUT_POINTS[0]
    who: str = EVERYTHING

    @property
    def kind(self) -> str:
        """Its name, with the failpoint."""
        return f"kill {self.who} at {self.point}"

    @property
    def _reached(self) -> Path:
        return self.site.scratch / "armed" / "reached"

    def environment(self) -> Mapping[str, str]:
        """Return the failpoint; it is armed once the folder exists."""
        self.heal()
        return {VARIABLE: f"{self.point}:{self._reached}"}

    def strike(self, engine: JobProcess) -> None:
        """Arm the failpoint, wait until it is reached, and kill."""
        self._reached.parent.mkdir(exist_ok=True)
        self.missed = not engine.wait_for(self._reached.exists)
        if not self.missed:
            engine.kill(choose_victims(engine, self.who))

    def heal(self) -> None:
        """Disarm the failpoint."""
        shutil.rmtree(self._reached.parent, ignore_errors=True)


@dataclass
class Signal(Fault):
    """Send a signal to the driver, as a user or a service manager would."""

    number: signal.Signals = signal.SIGTERM

    @property
    def kind(self) -> str:
        """Its name, with the signal."""
        return self.number.name

    def strike(self, engine: JobProcess) -> None:
        """Send the signal."""
        os.kill(engine.pid, self.number)


@dataclass
class Pause(Fault):
    """Suspend a process for a while, as a suspended machine would."""

    who: str = DRIVER

    def __post_init__(self) -> None:
        self.ends = False

    @property
    def kind(self) -> str:
        """Its name, with the victim and the duration."""
        return f"pause {self.who} for {self.site.pause_s:g} s"

    def strike(self, engine: JobProcess) -> None:
        """Suspend and resume."""
        paused = choose_victims(engine, self.who)
        for process in paused:
            _ignore_missing(process.suspend)
        time.sleep(self.site.pause_s)
        for process in paused:
            _ignore_missing(process.resume)


@dataclass
class FullDisk(Fault):
    """Fill the disk that the job writes to: a small file system, or else a failpoint that raises ENOSPC."""

    @property
    def kind(self) -> str:
        """Its name, with the method."""
        return "disk full" if _is_mount(self.site.out.parent) else "disk full (ENOSPC at outputs.before-commit)"

    def environment(self) -> Mapping[str, str]:
        """Return a failpoint if there is no file system to fill."""
        if _is_mount(self.site.out.parent):
            return {}
        self.heal()
        return {VARIABLE: f"outputs.before-commit:{self.site.scratch / 'armed' / 'reached'}:ENOSPC"}

    def strike(self, engine: JobProcess) -> None:  # noqa: ARG002
        """Fill the disk to the last byte."""
        if not _is_mount(self.site.out.parent):
            (self.site.scratch / "armed").mkdir(exist_ok=True)
            return
        with self._ballast.open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while file.write(b"\0" * size):
                        pass
                except OSError:
                    continue

    @property
    def _ballast(self) -> Path:
        return self.site.out.parent / "ballast"

    def heal(self) -> None:
        """Free the space."""
        self._ballast.unlink(missing_ok=True)
        shutil.rmtree(self.site.scratch / "armed", ignore_errors=True)


@dataclass
class ReadOnly(Fault):
    """Make the checkpoint read-only: by a mount for root, by permissions for other users."""

    _done: bool = field(default=False, init=False)

    @property
    def kind(self) -> str:
        """Its name, with the method."""
        return f"checkpoint read-only ({'mount' if os.geteuid() == 0 else 'permissions'})"

    @property
    def _folder(self) -> Path:
        return self.site.out / CHECKPOINT

    def strike(self, engine: JobProcess) -> None:  # noqa: ARG002
        """Make it read-only."""
        self._done = True
        if os.geteuid():
            self._permit(0o500)
            return
        _run("mount", "--bind", self._folder, self._folder)
        _run("mount", "-o", "remount,ro,bind", self._folder, patience=600)

    def heal(self) -> None:
        """Make it writable again."""
        if self._done and os.geteuid():
            self._permit(0o700)
        elif self._done:
            _run("umount", "--lazy", self._folder)
        self._done = False

    def _permit(self, mode: int) -> None:
        for folder in [self._folder, *(path for path in self._folder.rglob("*") if path.is_dir())]:
            folder.chmod(mode)


#: what can be damaged -> the newest file of that kind
NEWEST: dict[str, Callable[[Path], Path | None]] = {
    "offset file": lambda out: _find_newest(out / CHECKPOINT / "offsets"),
    "commit file": lambda out: _find_newest(out / CHECKPOINT / "commits"),
    "state file": lambda out: _find_newest(out / CHECKPOINT / "state"),
    "journal": lambda out: _check_exists(out / JOURNAL),
    "output.csv": lambda out: _check_exists(out / TEXT),
    "log of a table": lambda out: _find_newest(out / FOLDER, "_delta_log/*.json"),
}


@dataclass
class Damage(Fault):
    """Change a byte of a file, or truncate it, while the job is not running; it is restored when the job rejects it.

    Earlier output is not read again, so a byte changed there goes unnoticed: only that byte is restored.
    """

    what: str = "offset file"
    how: str = "cut"  # or changed

    def __post_init__(self) -> None:
        self.before = True
        self._saved: tuple[Path, bytes] | None = None
        self._harmed = b""

    @property
    def kind(self) -> str:
        """Its name, with the file."""
        return f"{self.what} {self.how}"

    def harm(self) -> bool:
        """Damage the newest file."""
        file = NEWEST[self.what](self.site.out)
        whole = file.read_bytes() if file else b""
        if self.what == TEXT:
            # the rest is not committed and is overwritten
            whole = whole[: text_lengths(last_batch(self.site.out)).get(TEXT, 0)]
        if not file or not whole:
            return False
        self._saved = file, whole
        at = self.site.chance.randrange(len(whole))
        changed = whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
        self._harmed = whole[: len(whole) // 2] if self.how == "cut" else changed
        file.write_bytes(self._harmed)
        return True

    @property
    def lasts(self) -> bool:
        """Whether the damage persists: Spark keeps a state file when it repeats the file's batch."""
        file = self._saved[0] if self._saved else None
        return self.what == "state file" and file is not None and file.exists() and file.read_bytes() == self._harmed

    def heal(self) -> None:
        """Restore the file."""
        if self._saved:
            self._saved[0].write_bytes(self._saved[1])

    def heal_unnoticed(self) -> None:
        """Restore a changed byte in a text file that the job has appended to since."""
        if self._saved and (self.what, self.how) == (TEXT, "changed"):
            with self._saved[0].open("r+b") as file:
                file.write(self._saved[1])


_CLOCK_SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long skew(void) {
  static __thread int inside;
  const char *name = getenv("SLIPSTREAM_SKEW");
  long seconds = 0;
  if (inside || !name) return 0;
  inside = 1;
  FILE *file = fopen(name, "r");
  if (file) { if (fscanf(file, "%ld", &seconds) != 1) seconds = 0; fclose(file); }
  inside = 0;
  return seconds;
}
int clock_gettime(clockid_t id, struct timespec *at) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(id, at);
  if (!result && id == CLOCK_REALTIME) at->tv_sec += skew();
  return result;
}
int gettimeofday(struct timeval *at, void *zone) {
  static int (*real)(struct timeval *, void *);
  if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
  int result = real(at, zone);
  if (!result) at->tv_sec += skew();
  return result;
}
time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
"""


def build_clock_shim(folder: Path) -> Path | None:
    """Build a library that shifts the wall clock of a process and its children; None without a compiler."""
    source, library = folder / "skew.c", folder / "skew.so"
    if not library.exists() and shutil.which("cc"):
        source.write_text(_CLOCK_SHIM, encoding="utf-8")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=False)
    return library if library.exists() else None


@dataclass
class Skew(Fault):
    """Let the wall clock of driver, JVM and workers jump."""

    seconds: int = 3600

    def __post_init__(self) -> None:
        self.ends = False

    @property
    def kind(self) -> str:
        """Its name, with the distance."""
        return f"clock {self.seconds:+d} s"

    @property
    def _file(self) -> Path:
        return self.site.scratch / "skew"

    def environment(self) -> Mapping[str, str]:
        """Preload the library."""
        library = build_clock_shim(self.site.scratch)
        self._file.write_text("0", encoding="utf-8")
        return {"LD_PRELOAD": str(library), "SLIPSTREAM_SKEW": str(self._file)} if library else {}

    def strike(self, engine: JobProcess) -> None:  # noqa: ARG002
        """Shift the clock."""
        self._file.write_text(str(self.seconds), encoding="utf-8")


def _find_newest(folder: Path, pattern: str = "[!.]*") -> Path | None:
    """Return the newest file, without hidden and temporary ones."""
    files = [file for file in folder.rglob(pattern) if file.is_file() and not file.name.endswith(".tmp")]
    return max(files, key=lambda file: (file.stat().st_mtime_ns, file.name), default=None)


def _check_exists(file: Path) -> Path | None:
    return file if file.exists() else None


def _is_mount(folder: Path) -> bool:
    return folder.exists() and os.path.ismount(folder)


def _run(*command: str | Path, patience: int = 1) -> None:
    """Run a system command, with retries: a mount is busy while a file is being written."""
    for _ in range(patience - 1):
        if subprocess.run(command, check=False, capture_output=True).returncode == 0:
            return
        time.sleep(0.02)
    subprocess.run(command, check=True, capture_output=True)


def _ignore_missing(action: Callable[[], None]) -> None:
    try:
        action()
    except psutil.Error:
        # it has exited already
        return
