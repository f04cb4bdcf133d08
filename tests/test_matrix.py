"""Each supported PySpark and Python in an environment of its own: a wheel is installed, and does what newcomers do."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "matrix.sh"


def combinations() -> list[tuple[str, str]]:
    """What the script runs: Python and PySpark."""
    line = next(line for line in SCRIPT.read_text().splitlines() if line.startswith("COMBINATIONS="))
    pairs = [pair.split() for pair in line.split('"')[1::2]]
    return [(python, spark) for python, spark in pairs]


def test_every_allowed_minor_version_of_pyspark_and_python_is_in_the_matrix() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "pyspark>=4.2,<4.4" in project["dependencies"]
    assert project["requires-python"] == ">=3.11"
    tested = combinations()
    assert {spark.rsplit(".", 1)[0] for _, spark in tested} == {"4.2", "4.3"}
    assert {python for python, _ in tested} == {"3.11", "3.12", "3.13"}


@pytest.mark.long
@pytest.mark.parametrize(("python", "spark"), combinations())
def test_the_smoke_suite_passes(python: str, spark: str) -> None:
    done = subprocess.run([SCRIPT, python, spark], capture_output=True, text=True, check=False)
    if "skipped:" in done.stdout:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert f"passed: PySpark {spark} Python {python}" in done.stdout
