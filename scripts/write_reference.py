"""Write the pages of docs/reference that follow from the code: ``make docs``.

What a page says about a format or a figure is read from the docstring, the schema or the dataclass that the program
itself uses, so it cannot fall behind.
"""

from __future__ import annotations

import sys
from pathlib import Path

from reference import api, cli, errors, formats, licences, metrics, mobilitydb, operators


def pages() -> dict[str, str]:
    """The name of each page, and what stands on it."""
    return {
        "cli.md": cli.page(),
        "errors.md": errors.page(),
        "formats.md": formats.page(),
        "licences.md": licences.page(),
        "metrics.md": metrics.page(),
        "mobilitydb.md": mobilitydb.page(),
        "operators.md": operators.page(),
        **api.pages(),
    }


def main() -> None:
    """Write all pages into the folder named, or to their place in docs."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference")
    written = pages()
    for old in (folder / "api").glob("*.md"):
        if f"api/{old.name}" not in written:
            old.unlink()
    for name, text in written.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")


main()
