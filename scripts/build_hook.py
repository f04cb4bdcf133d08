"""What Hatch runs before it builds: a wheel or source archive holds the console's page, or is not built.

The page is built here and now, so an artefact never depends on what was run before. A source archive already holds it
and needs no Node. An editable install (``make setup``) takes the page from the source folder when it is there.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

#: set to 1 for an installation that never serves the page, such as on a cluster's machines
WITHOUT = "SLIPSTREAM_WITHOUT_PAGE"
PAGE = Path("src", "slipstream", "_console", "static")


class PageHook(BuildHookInterface):  # type: ignore[misc,type-arg]
    """Puts the page into what is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page and have it packed, or stop the build."""
        if version == "editable" or os.environ.get(WITHOUT) == "1":
            return
        root = Path(self.root)
        if not (root / "PKG-INFO").is_file():  # what only source archives have
            build_page(root)
        if not (root / PAGE / "index.html").is_file():
            raise RuntimeError(
                f"The console's page is missing from {PAGE}. Build from a fresh clone or source archive."
            )
        build_data["artifacts"].append(f"/{PAGE.as_posix()}/**")


def build_page(root: Path) -> None:
    """Build the page in a source folder, or say why that is impossible."""
    done = subprocess.run(
        ["bash", str(root / "scripts" / "console.sh")], capture_output=True, text=True, check=False, timeout=900
    )
    if done.returncode != 0:
        raise RuntimeError(
            f"{done.stderr.strip()}\n"
            "A wheel of Slipstream includes the console's page, and building that requires Node 18 or newer and npm's "
            f"registry. Install Node, or set {WITHOUT}=1 for an installation whose console has no page."
        )
