"""What MkDocs needs to show pages that are written to be read in the repository.

In the repository a page links to files beside ``docs`` (the architecture, an example, a notebook). The site has no such
files, so they are brought in: pages and notebooks as pages, everything else as it is, under ``files/``. Code blocks
lose the word that says how the tests run them, and marks for the Python API become directives for mkdocstrings.
"""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
#: pages that lie at the top of the repository
PAGES = {name: f"{name.lower()}.md" for name in ("ARCHITECTURE", "CHANGELOG", "CONTRIBUTING")}
NOTEBOOKS = "examples/notebooks"
#: where the site has all other files of the repository
FILES = "files/"

_LINK = re.compile(r"(?<=\]\()(?!\w+:)([^)#\s]+)")
_FENCE = re.compile(r"^(```\w+) .*$", re.MULTILINE)
_API = re.compile(r"^<!-- api: (\S+) -->$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to outside ``docs``."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / f"{name}.md").read_text(encoding="utf-8")))
    for notebook in sorted((ROOT / NOTEBOOKS).glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=as_page(notebook)))
        files.append(File.generated(config, f"files/{NOTEBOOKS}/{notebook.name}", content=notebook.read_bytes()))
    for path in sorted({path for page in files.documentation_pages() for path in _linked(page)}):
        if files.get_file_from_path(in_site(path)) is None and (ROOT / path).is_file():
            files.append(File.generated(config, in_site(path), content=(ROOT / path).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Make links, code blocks and API marks what the site needs."""
    here = page.file.src_uri
    markdown = _LINK.sub(lambda link: _relative(here, link[1]), markdown)
    markdown = _API.sub(r"::: \1", _FENCE.sub(r"\1", markdown))
    if here.startswith("notebooks/"):
        markdown += f"\n[The notebook](../files/{in_repository(here)}), to run it yourself.\n"
    return markdown


def as_page(notebook: Path) -> str:
    """A notebook as Markdown."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    texts = [("".join(cell["source"]), cell["cell_type"] == "code") for cell in cells]
    return "\n\n".join(f"```python\n{text}\n```" if code else text for text, code in texts) + "\n"


def in_site(path: str) -> str:
    """Where a file of the repository is in the site.

    >>> in_site("docs/index.md"), in_site("ARCHITECTURE.md"), in_site("examples/cuboids/drivers.sql")
    ('index.md', 'architecture.md', 'files/examples/cuboids/drivers.sql')
    """
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    if path.removesuffix(".md") in PAGES:
        return PAGES[path.removesuffix(".md")]
    if path.endswith(".ipynb"):
        return f"notebooks/{Path(path).stem}.md"
    return f"{FILES}{path}"


def in_repository(page: str) -> str:
    """Where the source of a page is."""
    for name, place in PAGES.items():
        if page == place:
            return f"{name}.md"
    if page.startswith("notebooks/"):
        return f"{NOTEBOOKS}/{Path(page).stem}.ipynb"
    return page.removeprefix(FILES) if page.startswith(FILES) else f"docs/{page}"


def _target(page: str, link: str) -> str:
    """The file of the repository that a link on a page means."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(in_repository(page)), link))


def _relative(page: str, link: str) -> str:
    return posixpath.relpath(in_site(_target(page, link)), posixpath.dirname(page) or ".")


def _linked(page: File) -> set[str]:
    """The files outside ``docs`` that a page links to."""
    found = {_target(page.src_uri, link) for link in _LINK.findall(page.content_string)}
    return {path for path in found if not path.startswith("docs/")}
