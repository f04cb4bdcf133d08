"""Archives of Spark's classes: found only where they fit and nobody else can have written them, and used by Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slipstream._errors import Unavailable
from slipstream._spark import class_archive, session


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "slipstream"


@pytest.fixture
def archive(cache: Path) -> Path:
    place = class_archive.archive_file(session.java())
    place.parent.mkdir()
    place.write_bytes(b"")
    place.chmod(0o600)
    assert place.parent == cache
    return place


def test_no_archive_no_options(cache: Path) -> None:
    assert not cache.exists()
    assert class_archive.use_archive(session.java()) == ""


def test_an_archive_is_used(archive: Path) -> None:
    assert str(archive) in class_archive.use_archive(session.java())


def test_an_archive_that_others_can_write_is_not_used(archive: Path) -> None:
    archive.chmod(0o622)
    assert class_archive.use_archive(session.java()) == ""


def test_another_java_has_another_archive(cache: Path, tmp_path: Path) -> None:
    other = tmp_path / "java"
    other.touch()
    assert class_archive.archive_file(other) != class_archive.archive_file(session.java())
    assert not cache.exists()


def test_a_damaged_archive_is_ignored(archive: Path) -> None:
    archive.write_bytes(os.urandom(10_000))
    java = [str(session.java()), *class_archive.use_archive(session.java()).split(), "-version"]
    assert subprocess.run(java, capture_output=True, check=False).returncode == 0


@pytest.mark.long
def test_prepare_writes_an_archive_that_spark_maps(cache: Path) -> None:
    slipstream = [sys.executable, "-m", "slipstream", "prepare"]
    first = subprocess.run(slipstream, capture_output=True, text=True, check=True)
    assert "Archiving the classes" in first.stderr
    second = subprocess.run(slipstream, capture_output=True, text=True, check=True)
    assert "already there" in second.stderr
    assert [place.suffix for place in cache.iterdir()] == [".jsa"]
    looks = (
        "from slipstream._spark import session; spark = session.build(quick=True);"
        "pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid();"
        "print('.jsa' in open(f'/proc/{pid}/maps').read().replace('classes.jsa', ''))"
    )
    found = subprocess.run([sys.executable, "-c", looks], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "True"


@pytest.mark.parametrize(
    ("java", "why"), [("echo out of memory >&2; exit 1", "out of memory"), ("sleep 9", "more than 0.1 s")]
)
def test_a_java_that_writes_no_archive_is_reported_in_one_line(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, java: str, why: str
) -> None:
    program = tmp_path / "java"
    program.write_text(f"#!/bin/sh\n{java}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(class_archive, "_LIMIT_S", 0.1 if "sleep" in java else 600)
    with pytest.raises(Unavailable, match=f"no archive of Spark's classes: .*{why}"):
        class_archive.write_archive(program, tmp_path / "classes", "", ())
    assert not list(cache.glob("*.jsa"))
