"""Class data sharing: Spark's classes in one file that a JVM maps instead of parsing 15,000 classes at every start.

An archive belongs to one Java and one set of jars; its name is a hash of both, so another version simply finds none,
and a JVM that cannot use the archive ignores it. It takes about half a minute to write and halves the time every
command needs to start Spark, so ``make setup`` writes it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from slipstream._errors import Unavailable

#: how long writing an archive may take
_LIMIT_S = 600
_UNFINISHED = "unfinished-"


def cache_folder() -> Path:
    """The folder of this user's caches."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "slipstream"


def archive_file(java: Path) -> Path:
    """The archive for this Java and the installed PySpark, whether it exists or not."""
    parts = [_sign(java.resolve()), *(_sign(jar) for jar in sorted(_list_jars()))]
    return cache_folder() / f"spark-{hashlib.sha256(chr(10).join(parts).encode()).hexdigest()[:16]}.jsa"


def _list_jars() -> Iterable[Path]:
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home(), "jars").glob("*.jar")


def _sign(file: Path) -> str:
    found = file.stat()
    return f"{file} {found.st_size} {found.st_mtime_ns}"


def use_archive(java: Path) -> str:
    """The JVM options that use the archive; empty unless there is one that only this user can have written."""
    place = archive_file(java)
    try:
        found = place.stat()
    except OSError:
        return ""
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        return ""
    # "auto": a JVM with settings other than those of the one that wrote it starts without the archive
    return f"-Xshare:auto -XX:SharedArchiveFile={place}"


def record_classes(class_list: Path) -> str:
    """The JVM options that write the name of every loaded class to ``class_list``."""
    return f"-Xshare:off -XX:DumpLoadedClassList={class_list}"


def write_archive(java: Path, class_list: Path, class_path: str, modules: Iterable[str]) -> Path:
    """Write the archive of the listed classes, for JVMs with this class path and these ``--add-modules`` options."""
    place = archive_file(java)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_unfinished(place.parent)
    with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=place.parent) as stage:
        written = Path(stage, place.name)
        dump = ["-Xshare:dump", f"-XX:SharedClassListFile={class_list}", f"-XX:SharedArchiveFile={written}"]
        command = [str(java), *dump, "-XX:+UseSerialGC", "-Xlog:disable", *modules, "-cp", class_path]
        why = _run(command)
        if why or not written.is_file():
            raise Unavailable(
                f"Java wrote no archive of Spark's classes: {why or 'there is no file'}",
                hint="Everything works without it; Spark only starts more slowly.",
                code="unavailable",
            )
        written.chmod(0o600)
        written.replace(place)
    return place


def _run(command: list[str]) -> str:
    """Run a command; return why it failed, or nothing."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"it took more than {_LIMIT_S} s"
    said = (ended.stderr or ended.stdout).strip().splitlines()
    return (said[-1] if said else f"exit code {ended.returncode}") if ended.returncode else ""


def _remove_unfinished(folder: Path) -> None:
    """Remove what killed processes left here."""
    for stage in folder.glob(f"{_UNFINISHED}*"):
        if stage.stat().st_mtime < time.time() - 2 * _LIMIT_S:
            shutil.rmtree(stage, ignore_errors=True)
