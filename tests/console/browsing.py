"""A real browser with a real console; tests are skipped if either is not available."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from slipstream._console.server import static

#: where the documentation's pictures lie; written only with SLIPSTREAM_PICTURES=1
PICTURES = Path(__file__).parents[2] / "docs" / "images"

#: for what waits for Spark to start, in milliseconds: minutes where the machine is busy with something else
PATIENCE = 900_000

# Shared machines are slow now and then; a test must not depend on the clock.
expect.set_options(timeout=90_000)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's Chromium, without a window, for the console's page."""
    if not (static() / "index.html").is_file():
        pytest.skip("the page is not built; run scripts/console.sh")
    with any_chromium() as browser:
        yield browser


@contextmanager
def any_chromium() -> Iterator[Browser]:
    """Debian's Chromium, without a window."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium here; Debian and Ubuntu: apt-get install chromium")
    with sync_playwright() as playwright:
        # root, as in a container, gets no sandbox
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


@dataclass
class Console:
    """``slipstream console`` as a process of its own, at a port it keeps."""

    workspace: Path
    port: int
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Console:
        command = [sys.executable, "-m", "slipstream", "console", str(self.workspace), "--no-browser"]
        self.process = subprocess.Popen([*command, "--port", str(self.port), "--master", "local[2]"])
        deadline = time.monotonic() + 120
        while not self._answers():
            assert self.process.poll() is None, "the console ended"
            assert time.monotonic() < deadline, "the console does not answer"
            time.sleep(0.2)
        return self

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
            self.process = None

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/healthz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False


@dataclass
class Watched:
    """A page, and what it asked for and complained about."""

    page: Page
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @classmethod
    def open(
        cls, browser: Browser, address: str, scheme: str = "dark", width: int = 1600, height: int = 900
    ) -> Watched:
        size = {"width": width, "height": height}
        page = browser.new_page(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
        page.set_default_timeout(90_000)
        watched = cls(page)
        page.on("request", lambda request: watched.asked.append(request.url))
        page.on("pageerror", lambda error: watched.complaints.append(str(error)))
        page.on("console", lambda said: watched.complaints.append(said.text) if said.type == "error" else None)
        page.goto(address)
        return watched

    def picture(self, name: str, folder: Path) -> None:
        """A picture; into the documentation where they are wanted, else into ``folder``."""
        folder = PICTURES if os.environ.get("SLIPSTREAM_PICTURES") else folder
        folder.mkdir(exist_ok=True)
        self.page.mouse.move(0, 0)
        self.page.wait_for_timeout(600)
        self.page.screenshot(path=folder / f"{name}.png")
