"""The documentation site as it lies on the disk: read in a real browser, without a server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from console.browsing import any_chromium

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built into a folder."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.long
def test_no_page_of_the_site_loads_from_another_host(site: Path) -> None:
    loads = re.compile(r"<(?:script|img|iframe)[^>]*\bsrc=\"?(?:https?:)?//|<link[^>]*\bhref=\"?(?:https?:)?//")
    for page in site.rglob("*.html"):
        assert not loads.search(page.read_text(encoding="utf-8")), page


@pytest.mark.long
@pytest.mark.parametrize("page", ["index.html", "how-to/sumo.html"])
def test_the_site_is_searched_from_the_disk(page: str, site: Path) -> None:
    with any_chromium() as browser:
        tab = browser.new_page()
        asked: list[str] = []
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto((site / page).as_uri())
        tab.get_by_role("textbox", name="Search").fill("bsort")
        found = tab.locator(".md-search-result__item a").first
        expect(found).to_be_visible()
        found.click()
        expect(tab.locator("article")).to_contain_text("bsort")
        assert tab.url.startswith(site.as_uri())
        assert all(url.startswith(("file:", "data:", "blob:")) for url in asked), asked
