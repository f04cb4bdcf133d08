"""Licences: what each locked dependency may be used under, in the words of its own metadata."""

from __future__ import annotations

import json
import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from reference.tables import WRITTEN, table

_ROOT = Path(__file__).parents[2]
_CLASSIFIER = "License :: OSI Approved :: "


def page() -> str:
    """The page."""
    python, page_ = _python(), _page()
    return "\n".join(
        (
            "# Licences\n\n" + WRITTEN,
            "Everything that `make setup` installs is locked, with hashes: Python packages in `requirements.lock`, "
            "those of the console's page in `web/package-lock.json`. Slipstream itself ships none of them but what the "
            "page is built from. `make audit` asks for known vulnerabilities.\n",
            f"## Python\n\n{len(python)} packages.\n",
            table(("package", "licence"), python),
            f"## The console's page\n\n{len(page_)} packages, most of them to build and test it.\n",
            table(("package", "licence"), page_),
        )
    )


def _python() -> list[tuple[str, str]]:
    """Of each package in the lock that is installed; some are for other systems."""
    names = re.findall(r"^([A-Za-z0-9._-]+)==", (_ROOT / "requirements.lock").read_text(encoding="utf-8"), re.MULTILINE)
    found = []
    for name in sorted(set(names)):
        try:
            found.append((name, _licence(distribution(name))))
        except PackageNotFoundError:
            continue
    return found


def _licence(package: Distribution) -> str:
    metadata = package.metadata
    expression = metadata.get("License-Expression") or ""
    classifiers = [
        text.removeprefix(_CLASSIFIER) for text in metadata.get_all("Classifier") or () if _CLASSIFIER in text
    ]
    # some put the whole text into a field that is meant for a name
    named = (metadata.get("License") or "").strip().splitlines()[:1]
    short = [text for text in named if len(text) < 60]
    return expression or ", ".join(classifiers) or "".join(short) or "see the package"


def _page() -> list[tuple[str, str]]:
    locked = json.loads((_ROOT / "web" / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    found = {
        name.rpartition("node_modules/")[2]: package.get("license", "") for name, package in locked.items() if name
    }
    return sorted((name, licence or "see the package") for name, licence in found.items())
