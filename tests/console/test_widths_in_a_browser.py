"""Every page on a phone, a tablet and a desktop: nothing off the screen, nothing too small to use."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Page, expect

from console.browsing import Watched, chromium
from console.serving import served
from slipstream._archive.trip_tables import mark_linear_city
from slipstream._moving.moving_point import MovingPoint, to_arrow
from slipstream._runtime.watching import metrics
from slipstream._tools.logs import append_lines, read_lines

EXAMPLES = Path(__file__).parents[2] / "examples" / "networks"
SCREENS = {"phone": (390, 844), "tablet": (1024, 768), "desk": (1440, 900)}

#: what a finger or a mouse must reach; what lies inside a part that scrolls by itself may be beside the screen
BESIDE = """() => [...document.querySelectorAll("button, select, input, a, canvas, output, h3, .figure")]
  .filter((one) => !one.closest(".react-flow, .rows, .tuples, .skip") && one.getClientRects().length)
  .filter((one) => one.getBoundingClientRect().right > innerWidth + 0.5 || one.getBoundingClientRect().left < -0.5)
  .map((one) => one.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def everything(workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with its results, a network, and a drive on an expressway."""
    folder = tmp_path_factory.mktemp("everything")
    for name in ("city", "tolled"):
        shutil.copytree(workspace / name, folder / name)
    shutil.copytree(EXAMPLES, folder / "networks")
    start = datetime(2007, 5, 28, tzinfo=UTC)
    drive = MovingPoint.of([[(start + timedelta(seconds=30 * k), 900.0 * k, 4.0) for k in range(20)]])
    mark_linear_city(folder / "journeys")
    (folder / "journeys" / "trips").mkdir()
    pq.write_table(pa.table({"vid": [7], "Trip": to_arrow([drive])}), folder / "journeys" / "trips" / "a.parquet")
    return folder


def check_fit(page: Page, width: int) -> None:
    """Nothing is wider than the screen."""
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(BESIDE) == []


def check_size(page: Page, selector: str, width: float, height: float) -> None:
    """Something is large enough to be used."""
    box = page.locator(selector).first.bounding_box()
    assert box, selector
    assert (box["width"] >= width, box["height"] >= height) == (True, True), (selector, box)


@pytest.mark.long
@pytest.mark.parametrize("screen", SCREENS)
def test_every_page_fits(everything: Path, screen: str, tmp_path: Path) -> None:
    width, height = SCREENS[screen]
    with served(everything) as address, chromium() as browser:
        watched = Watched.open(browser, f"{address}/city", width=width, height=height)
        page = watched.page
        expect(page.get_by_text("Nothing to display yet")).to_be_visible()
        check_fit(page, width)
        page.get_by_label("Open").select_option("tolled")
        expect(page.get_by_label("Time of the run")).to_have_text("0:06:59")
        check_fit(page, width)
        check_size(page, ".map canvas", 300, 250)
        check_size(page, "input[type=range]", 200, 20)
        page.get_by_role("img", name="Map of the city").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="All expressways")).to_be_visible()
        expect(page.get_by_role("region", name="Segment")).to_contain_text("Last minutes")
        check_fit(page, width)
        page.screenshot(path=tmp_path / "city.png")

        page.get_by_role("link", name="Network").click()
        page.get_by_label("Open").select_option("networks/border.yaml")
        box = page.locator(".piece", has_text="over").first
        expect(box).to_be_visible()
        check_fit(page, width)
        check_size(page, ".react-flow", 300, 300)
        box.click()
        expect(page.get_by_role("heading", name="Filter")).to_be_visible()
        check_fit(page, width)
        page.screenshot(path=tmp_path / "network.png")

        page.get_by_role("link", name="Trajectories").click()
        expect(page.get_by_role("img", name="Map of the journeys")).to_be_visible()
        expect(page.get_by_text("Draw a region first")).to_be_visible()
        page.get_by_role("button", name="Middle square").click()
        expect(page.get_by_role("button", name="Search")).to_be_enabled()
        check_fit(page, width)
        check_size(page, ".journey-map canvas", 300, 250)
        check_size(page, "input[type=range]", 200, 20)
        page.screenshot(path=tmp_path / "trajectories.png")

        page.get_by_role("link", name="Jobs").click()
        expect(page.get_by_role("region", name="Job tolled").locator(".rows tbody tr").first).to_be_visible()
        check_fit(page, width)
        page.screenshot(path=tmp_path / "jobs.png")
        assert not watched.complaints


def behind(tolled: Path, speed: float, seconds: float) -> None:
    """Let an engine's folder say that it ran at a speed and needed so many seconds for each batch."""
    clock = tolled / "checkpoint" / "clock.json"
    clock.write_text(json.dumps(json.loads(clock.read_text()) | {"speed": speed}))
    measured = read_lines(tolled / metrics.FILE)
    (tolled / metrics.FILE).unlink()
    append_lines(tolled / metrics.FILE, [line | {"commit_ms": seconds * 1000} for line in measured])


@pytest.mark.long
def test_a_finished_run_alarms_nobody_and_limits_are_those_of_real_time(everything: Path, tmp_path: Path) -> None:
    shutil.copytree(everything / "city", tmp_path / "city")
    for name in ("tolled", "faster"):
        shutil.copytree(everything / "tolled", tmp_path / name)
    # its batches are of 20 seconds, that is, of 2 at ten times real time
    behind(tmp_path / "faster", 10.0, 2.448)
    with served(tmp_path) as address, chromium() as browser:
        page = Watched.open(browser, f"{address}/city").page
        page.get_by_label("Open").select_option("tolled")
        expect(page.get_by_role("status")).to_have_text("Finished")
        expect(page.get_by_text("last minute, compared with the limit")).to_be_visible()
        expect(page.locator(".bullet")).to_have_count(5)
        page.get_by_label("Open").select_option("faster")
        expect(page.get_by_text("last minute; limits do not apply at 10×")).to_be_visible()
        expect(page.locator(".figure", has_text="Query time capacity")).to_contain_text("-448 ms")
        expect(page.locator(".figure", has_text="Stable")).to_contain_text("no")
        expect(page.locator(".figure.alarm, tr.alarm, .bullet, .legend .dashed")).to_have_count(0)
