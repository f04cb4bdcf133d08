"""Real stores for tests: an S3 server and an HDFS, started by the scripts of the repository, on ports of their own."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from slipstream._tools.files import aws_settings, stores

ROOT = Path(__file__).parents[1]
S3, HDFS = "s3", "hdfs"
_TIMEOUT_S = 900


def _locate(kind: str) -> Path:
    return ROOT / "scripts" / f"{kind}.sh"


def script(kind: str, *words: str) -> str:
    """Run the script of a store; a store that cannot be installed or started here skips the test."""
    try:
        done = subprocess.run([_locate(kind), *words], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{kind} did not start within {_TIMEOUT_S} s")
    if done.returncode:
        pytest.skip(f"{kind} cannot run here: {done.stderr.strip()}")
    return done.stdout.strip()


@contextmanager
def running(kind: str, *, builds: bool = True) -> Iterator[str]:
    """Run a store while the block runs; yields the URI of an empty folder in it.

    Quick tests use a server that is there, but do not build one.
    """
    if kind == S3 and not builds and subprocess.run([_locate(S3), "built"], check=False).returncode:
        pytest.skip("no S3 server was built here: scripts/s3.sh start")
    before = dict(os.environ)
    try:
        if kind == S3:
            pytest.importorskip("obstore", reason="S3 needs the extra s3")
            os.environ["SLIPSTREAM_S3_PORT"] = str(_free_port())
            words = shlex.split(script(S3, "start").replace("export", ""))
            os.environ.update(word.split("=", 1) for word in words)
            uri = "s3://slipstream/tests"
        else:
            pytest.importorskip("hdfs_native", reason="HDFS needs the extra hdfs")
            os.environ["SLIPSTREAM_HDFS_PORT"] = str(_free_port())
            uri = f"{script(HDFS, 'start')}/tests"
        stores.open_store.cache_clear()
        aws_settings.apply_profile()
        yield uri
    finally:
        script(kind, "stop")
        os.environ.clear()
        os.environ.update(before)
        stores.open_store.cache_clear()


def _free_port() -> int:
    """A port after which others are free, too: HDFS takes four."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
