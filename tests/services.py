"""Real servers for tests, started by the scripts that users start them with."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


def service(name: str) -> Iterator[str]:
    """What ``scripts/NAME.sh start`` prints, while the server runs; skips the test where it cannot be started."""
    started = subprocess.run([SCRIPTS / f"{name}.sh", "start"], capture_output=True, text=True, check=False)
    if started.returncode:
        pytest.skip(f"{name} cannot run here: {started.stderr.strip()}")
    try:
        yield started.stdout.strip()
    finally:
        stop(name)


def stop(name: str) -> None:
    subprocess.run([SCRIPTS / f"{name}.sh", "stop"], check=True)
