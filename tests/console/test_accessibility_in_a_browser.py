"""Every page, by night and by day, on a desk and on a phone: axe finds nothing that keeps anybody out."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Page, expect

from console.browsing import Watched, chromium
from console.made_jobs import begun, commit
from console.mapped_jobs import commit as commit_tables
from console.mapped_jobs import gps, grid
from console.serving import served
from slipstream._archive.trip_tables import mark_linear_city
from slipstream._moving.moving_point import MovingPoint, to_arrow
from slipstream._runtime.watching.starts import record_start
from slipstream._runtime.watching.status import Status

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
BORDER = Path(__file__).parents[2] / "examples" / "networks" / "border.yaml"
#: the Web Content Accessibility Guidelines, levels A and AA
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
RUN = """async (tags) => (await axe.run(document, { runOnly: tags })).violations.map((one) =>
  `${one.id}: ${one.help}\\n` +
  one.nodes.slice(0, 4).map((node) => `  ${node.target}  ${node.failureSummary}`).join("\\n"))"""


@pytest.fixture(scope="module")
def everything(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with something for each page."""
    folder = tmp_path_factory.mktemp("accessible")
    for name in ("city", "tolled"):
        shutil.copytree(workspace / name, folder / name)
    shutil.copy(BORDER, folder)
    committed = begun(folder / "cars")
    for batch in range(4):
        commit(committed, folder / "cars", batch, [(1, 50.0)])
    with record_start(folder / "cars", "cars.csv"):
        pass
    Status(folder / "cars", "cars.csv", pace=1.0).enter("stopped", "cars.csv: no such file.")
    grid(folder / "streets")
    commit_tables(
        folder / "fleet", [{"gps": gps([("v1", t, 13.4 + t / 1e4, 52.5, 30.0, "car", 1) for t in range(60)])}]
    )
    start = datetime(2007, 5, 28, tzinfo=UTC)
    drive = MovingPoint.of([[(start + timedelta(seconds=30 * k), 900.0 * k, 4.0) for k in range(20)]])
    mark_linear_city(folder / "journeys")
    (folder / "journeys" / "trips").mkdir()
    pq.write_table(pa.table({"vid": [7], "Trip": to_arrow([drive])}), folder / "journeys" / "trips" / "a.parquet")
    return folder


#: page -> what is there when it is complete
PAGES: dict[str, tuple[Any, str]] = {
    "/jobs?job=cars": ("region", "Job cars"),
    "/jobs?job=tolled": ("region", "Job tolled"),
    "/jobs?new=1": ("form", "New job"),
    "/city?result=tolled&segment=0,1,33": ("region", "Segment"),
    "/network?file=border.yaml": ("region", "Palette"),
    "/trajectories?data=journeys&vehicle=7": ("region", "Vehicle 7"),
    "/map?job=fleet&vehicle=v1&filter=kind:car&colour=kind&street=speed": ("region", "Chosen"),
    "/ask?job=cars": ("region", "Tables"),
}

#: networks can only be read there
ON_A_PHONE: dict[str, tuple[Any, str]] = {"/network?file=border.yaml": ("button", "Fit View")}
NARROW = 700


def violations(page: Page) -> list[Any]:
    page.evaluate(AXE.read_text())
    return list(page.evaluate(RUN, RULES))


@pytest.mark.parametrize(
    "width",
    [
        pytest.param(1440, id="desk"),
        pytest.param(1024, id="tablet", marks=pytest.mark.long),
        pytest.param(390, id="phone"),
    ],
)
def test_axe_finds_nothing(everything: Path, width: int, tmp_path: Path) -> None:
    if not AXE.is_file():
        pytest.skip("axe is not installed; run scripts/console.sh")
    found = {}
    with served(everything) as address, chromium() as browser:
        for scheme in ("dark", "light"):
            page = Watched.open(browser, f"{address}/jobs", scheme, width, 900).page
            for path, (role, name) in (PAGES if width > NARROW else PAGES | ON_A_PHONE).items():
                page.goto(f"{address}{path}")
                expect(page.get_by_role(role, name=name).first).to_be_visible()
                page.wait_for_timeout(500)
                page.screenshot(
                    path=tmp_path / f"{path[1:].split('?')[0]}-{width}-{scheme}.png", full_page=width < 1000
                )
                if here := violations(page):
                    found[f"{path} ({scheme})"] = here
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path
    assert not found, "\n".join(f"{path}\n{line}" for path, lines in found.items() for line in lines)
