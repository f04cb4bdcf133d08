"""The Live city page in a real browser."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import Locator, Page, expect

from console.browsing import PATIENCE, Console, Watched, chromium
from console.recorded import Recording
from console.serving import free_port, served
from measure import machine
from slipstream._city.simulate import simulate
from slipstream._city.traffic import Traffic
from slipstream._feeds.run import Accident, Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def shown(page: Page, accident: Accident) -> Locator:
    """An accident in the page's list."""
    where = f"Expressway {accident.xway} {('east', 'west')[accident.dir]}, segment {accident.pos // 5280}"
    return page.get_by_role("button", name=where, exact=True)


def test_a_result_is_opened_looked_at_and_still_there_after_a_reload(workspace: Path, run: Run) -> None:
    accident = next(one for one in run.manifest.accidents if one.cleared == -1)
    with served(workspace) as address, chromium() as browser:
        watched = Watched.open(browser, f"{address}/city")
        page = watched.page
        expect(page.get_by_text("Nothing to display yet")).to_be_visible()
        page.get_by_label("Open").select_option("tolled")
        expect(page.get_by_role("status")).to_have_text("Finished")
        shown(page, accident).click()
        expect(page.get_by_role("region", name="Segment")).to_contain_text("Last minutes")
        page.get_by_label("Vehicle", exact=True).fill(str(accident.vids[0]))
        page.keyboard.press("Enter")
        expect(page.get_by_role("region", name="Vehicle")).to_contain_text("0 mph")
        expect(page.get_by_test_id("balance")).to_contain_text("from notifications")
        page.get_by_role("slider", name="Second of the run").fill("60")
        expect(page.get_by_label("Time of the run")).to_have_text("0:01:00")
        page.reload()
        expect(page.get_by_label("Time of the run")).to_have_text("0:01:00")
        page.get_by_role("button", name="Latest").click()
        expect(page.get_by_label("Time of the run")).to_have_text("0:06:59")
        page.get_by_label("Switch to light").click()
        assert page.evaluate("document.documentElement.dataset.theme") == "light"
        assert not watched.complaints
        assert all(url.startswith((address, "data:", "blob:")) for url in watched.asked)


@pytest.mark.long
def test_the_keyboard_reaches_everything(workspace: Path) -> None:
    with served(workspace) as address, chromium() as browser:
        page = Watched.open(browser, f"{address}/city").page
        page.get_by_label("Open").select_option("tolled")
        expect(page.get_by_label("Time of the run")).to_have_text("0:06:59")
        page.get_by_role("img", name="Map of the city").focus()
        for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
            page.keyboard.press(key)
        expect(page.get_by_role("region", name="Segment")).to_contain_text("Expressway 0 west, segment 1")
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="All expressways")).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="All expressways")).to_be_hidden()
        page.keyboard.press("Alt+3")
        expect(page.get_by_role("link", name="Network")).to_have_attribute("aria-current", "page")


@pytest.mark.long
def test_a_console_with_a_token_lets_its_owner_in(workspace: Path) -> None:
    with served(workspace, "a-token-for-the-wall") as address, chromium() as browser:
        page = Watched.open(browser, f"{address}/city").page
        page.get_by_label("Token").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("Wrong token.")
        page.get_by_label("Token").fill("a-token-for-the-wall")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Nothing to display yet")).to_be_visible()
        assert "wall" not in page.url


@pytest.mark.long
def test_the_whole_story(workspace: Path, run: Run) -> None:
    """Start a run, watch an accident appear, find a balance, reload, pause, go on, lose and regain the server."""
    accident = run.manifest.accidents[0]
    console = Console(workspace, free_port()).start()
    try:
        with chromium() as browser:
            watched = Watched.open(browser, f"{console.address}/city")
            page = watched.page
            page.get_by_role("combobox", name="Run", exact=True).select_option("city")
            page.get_by_role("combobox", name="Speed", exact=True).select_option("10×")
            page.get_by_role("button", name="Start").click()
            status = page.get_by_role("status")
            expect(status).to_have_text("Starting Spark")
            expect(status).to_have_text("Running", timeout=PATIENCE)
            expect(shown(page, accident)).to_be_visible(timeout=PATIENCE)
            page.get_by_label("Vehicle", exact=True).fill(str(accident.vids[0]))
            page.keyboard.press("Enter")
            expect(page.get_by_test_id("balance")).to_contain_text("from")
            page.reload()
            expect(status).to_have_text("Running")
            page.get_by_role("button", name="Pause").click()
            expect(status).to_have_text("Paused", timeout=PATIENCE)
            stood = page.get_by_label("Time of the run").inner_text()
            page.get_by_role("button", name="Resume").click()
            expect(status).to_have_text("Starting Spark")
            expect(status).to_have_text("Running", timeout=PATIENCE)
            expect(page.get_by_label("Time of the run")).not_to_have_text(stood, timeout=PATIENCE)
            console.stop()
            expect(status).to_have_text("Connection lost, retrying")
            console.start()
            expect(status).not_to_have_text("Connection lost, retrying", timeout=120_000)
            expect(page.get_by_text("Nothing to display yet")).to_be_visible()
    finally:
        console.stop()


@pytest.mark.long
def test_pictures_for_the_documentation(spark: SparkSession, tmp_path: Path) -> None:
    traffic = Traffic(expressways=10, minutes=12, demand=5.0, accident_every=4)
    run = simulate(spark, traffic, 8, tmp_path / "ten")
    recording = Recording(run, tmp_path / "ten-tolls")
    for _ in range(350):
        recording.commit(2)
    take_pictures(tmp_path, run, tmp_path / "pictures")


def take_pictures(workspace: Path, run: Run, folder: Path) -> None:
    """All expressways by night and by day, and one with its cars and one of its accidents."""
    with served(workspace) as address, chromium() as browser:
        watched = Watched.open(browser, f"{address}/city")
        page = watched.page
        page.get_by_label("Open").select_option("ten-tolls")
        expect(page.get_by_label("Time of the run")).to_have_text("0:11:39")
        watched.picture("console-city", folder)
        # one that lasts, in the midst of traffic
        lasting = [one for one in run.manifest.accidents if one.cleared == -1 and shown(page, one).is_visible()]
        accident = min(lasting, key=lambda one: abs(one.pos // 5280 - 50))
        shown(page, accident).click()
        page.get_by_label("Vehicle", exact=True).fill(str(accident.vids[0]))
        page.keyboard.press("Enter")
        expect(page.get_by_test_id("balance")).to_contain_text("from")
        page.get_by_role("img", name="Map of the city").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="All expressways")).to_be_visible()
        expect(page.get_by_label("Segment", exact=True).get_by_text("Last minutes")).to_be_visible()
        page.wait_for_timeout(3000)
        watched.picture("console-expressway", folder)
        page.get_by_role("button", name="All expressways").click()
        page.get_by_label("Switch to light").click()
        page.get_by_role("radio", name="Toll").click()
        page.get_by_label("Close segment").click()
        page.get_by_label("Close vehicle").click()
        watched.picture("console-day", folder)


@pytest.mark.bench
def test_how_smooth_a_hundred_expressways_are_and_how_old_their_data(run: Run, tmp_path: Path) -> None:
    many = multiplied(run, tmp_path / "hundred", 100 // run.stored)
    recording = Recording(many, tmp_path / "tolled").commit(60)
    with served(tmp_path) as address, chromium() as browser:
        page = Watched.open(browser, f"{address}/city").page
        page.get_by_label("Open").select_option("tolled")
        expect(page.get_by_label("Time of the run")).to_have_text("0:00:59")
        page.evaluate(COUNT_FRAMES)
        ages = []
        for _ in range(10):
            recording.commit(1)
            began = time.monotonic()
            shown = f"0:01:{len(ages):02d}"
            expect(page.get_by_label("Time of the run")).to_have_text(shown)
            ages.append(time.monotonic() - began)
            time.sleep(0.7)
        gaps = sorted(page.evaluate("window.gaps"))
    rate = 1000 * len(gaps) / sum(gaps)
    print(f"\n{machine()}")
    slowest = gaps[len(gaps) * 99 // 100]
    print(f"{many.stored * many.copies} expressways: {rate:.0f} frames/s, 99 % of frames within {slowest:.0f} ms")
    print(f"data on screen {1000 * sum(ages) / len(ages):.0f} ms after its commit, at most {1000 * max(ages):.0f} ms")


COUNT_FRAMES = """() => {
  window.gaps = [];
  let last = performance.now();
  requestAnimationFrame(function tick(now) {
    window.gaps.push(now - last);
    last = now;
    requestAnimationFrame(tick);
  });
}"""


def multiplied(run: Run, folder: Path, copies: int) -> Run:
    """The run in another folder, presented many times."""
    shutil.copytree(run.path, folder)
    many = Run.open(folder).multiplied(copies)
    (folder / "manifest.json").write_text(many.manifest.to_json())
    return Run.open(folder)
