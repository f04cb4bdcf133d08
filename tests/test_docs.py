"""The commands in README.md and docs do what they say: blocks marked ``sh run`` are run in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```sh run\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_the_commands_of(page: Path, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for block in blocks(page):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name
)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / link).exists(), link


def test_the_reference_is_what_the_program_says(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "write_reference.py"
    subprocess.run([sys.executable, script, tmp_path / "cli.md"], check=True)
    written = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert (tmp_path / "cli.md").read_text(encoding="utf-8") == written, "run `make docs`"
