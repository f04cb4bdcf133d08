"""A small installation: without the extras everything else works, and a message says how to get what is missing."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from slipstream._tools.extras import EXTRAS

ROOT = Path(__file__).parents[2]
#: packages of the project that only an extra makes useful
ONLY_WITH = {"slipstream._console": "console"}

#: blocks the modules of all extras, then runs the rest of the program
WITHOUT = f"""
import importlib.abc, sys

class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if any(name == m or name.startswith(m + ".") for m in {[m for ms in EXTRAS.values() for m in ms]!r}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Block())
"""

IMPORT_ALL = """
import importlib, pkgutil, slipstream
for found in pkgutil.walk_packages(slipstream.__path__, "slipstream.", onerror=lambda name: None):
    if found.name.endswith("__main__") or any(found.name.startswith(only) for only in sys.argv[1:]):
        continue
    importlib.import_module(found.name)
print("imported")
"""

COMMAND = """
from slipstream._cli import main
sys.argv = ["slipstream", *sys.argv[1:]]
main()
"""


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_everything_else_can_be_imported() -> None:
    done = run(IMPORT_ALL, *ONLY_WITH)
    assert (done.returncode, done.stdout) == (0, "imported\n"), done.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [(["console", "--no-browser"], "console"), (["toll", "kafka:127.0.0.1:9/cars", "--out", "never"], "kafka")],
)
def test_a_command_names_the_extra_that_it_needs(arguments: list[str], extra: str) -> None:
    done = run(COMMAND, *arguments)
    assert done.returncode == 4, done.stderr
    assert f"slipstream[{extra}]" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_table_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert set(extras) == {*EXTRAS, "all"}
    assert all(f"{extra}" in extras["all"][0] for extra in EXTRAS)
