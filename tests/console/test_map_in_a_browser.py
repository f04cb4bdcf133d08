"""The Map page in a browser: what a job has committed, on its streets; links, filters, files, and what is saved."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pyarrow as pa
import pytest
from playwright.sync_api import Page, expect

from console.browsing import Watched, chromium
from console.mapped_jobs import EIGHT, append, commit, gps, grid, swarm
from console.serving import served
from console.test_map_page import CSV, NETWORK, ZONES
from slipstream._moving.space.systems import System

#: how many pixels of the points have a colour
COLOURED = """() => {
  const canvas = document.querySelectorAll(".live-map canvas")[1];
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let i = 3; i < data.length; i += 4) if (data[i]) found++;
  return found;
}"""
DROP = """([name, text]) => {
  const transfer = new DataTransfer();
  transfer.items.add(new File([text], name));
  const page = document.querySelector(".map-page");
  page.dispatchEvent(new DragEvent("dragover", { dataTransfer: transfer, bubbles: true, cancelable: true }));
  page.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
}"""


def on_streets(seconds: int) -> pa.Table:
    """Two cars and a bus that drive east along the first streets of the grid."""
    rows = []
    for car, (kind, north, speed) in enumerate((("car", 0.0, 12.0), ("car", 800.0, 9.0), ("bus", 1600.0, 6.0))):
        for t in range(0, seconds, 5):
            lon, lat = System.parse(32633).locate(390_000.0 + speed * t, 5_818_000.0 + north)
            rows.append((f"v{car}", t, float(lon[0]), float(lat[0]), speed * 3.6, kind, 2 * car))
    return gps(rows)


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    grid(tmp_path / "streets")
    network = NETWORK % (tmp_path / "streets", json.dumps(ZONES))
    commit(tmp_path / "fleet", [{"gps": on_streets(300)}], network)
    return tmp_path


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlparse(page.url).query).items()}


def test_a_link_to_the_map_shows_the_same_and_what_is_selected_is_saved(fleet: Path, tmp_path: Path) -> None:
    link = "/map?job=fleet&layer=gps&time=2026-05-04T08:01:00&colour=speed&filter=kind:car&tail=120&vehicle=v1"
    with served(fleet) as address, chromium() as browser:
        watched = Watched.open(browser, f"{address}{link}")
        page = watched.page
        for _ in range(2):
            expect(page.locator(".report")).to_contain_text("2 of 3 now")
            expect(page.locator("output")).to_contain_text("2026-05-04 08:01:00")
            expect(page.get_by_role("region", name="Look").get_by_label("Colour by")).to_have_value("speed")
            expect(page.get_by_role("checkbox", name="bus")).not_to_be_checked()
            expect(page.get_by_role("region", name="Chosen")).to_contain_text("32.4")
            expect(page.get_by_role("region", name="Selection")).to_contain_text("60 positions of 1 id selected")
            assert page.evaluate(COLOURED) > 50
            page.reload()
        with page.expect_download() as downloading:
            page.get_by_role("button", name="CSV").click()
        rows = list(csv.DictReader(downloading.value.path().read_text().splitlines()))
        assert (len(rows), {row["id"] for row in rows}, float(rows[0]["time"])) == (60, {"v1"}, EIGHT)
        page.get_by_role("button", name="Let go").click()
        page.get_by_role("checkbox", name="bus").check()
        expect(page.locator(".report")).to_contain_text("3 of 3 now")
        page.get_by_role("region", name="Look").get_by_label("Streets by").select_option("speed")
        page.get_by_role("button", name="Middle").click()
        page.get_by_role("radio", name="Density").click()
        page.get_by_role("img", name="Map").press("+")
        page.wait_for_url("**view=*")
        now = query(page)
        assert (now["street"], now["as"], now["filter"], "vehicle" in now) == (
            "speed",
            "density",
            "kind:car|bus",
            False,
        )
        assert len(now["area"].split(",")) == 4
        with page.expect_download() as downloading:
            page.get_by_role("button", name="GeoJSON").click()
        saved = downloading.value.path()
        page.get_by_label("Open a file").set_input_files(
            {"name": "again.geojson", "mimeType": "", "buffer": saved.read_bytes()}
        )
        expect(page.get_by_role("button", name="Close again.geojson")).to_be_visible()
        assert not watched.complaints


def test_what_is_committed_appears(fleet: Path) -> None:
    committed = commit(fleet / "live", [{"gps": on_streets(100)}])
    with served(fleet) as address, chromium() as browser:
        watched = Watched.open(browser, f"{address}/map?job=live")
        page = watched.page
        expect(page.get_by_role("button", name="Newest")).to_have_attribute("aria-pressed", "true")
        expect(page.get_by_text("60 positions of 3 ids, as of batch 0")).to_be_visible()
        append(committed, fleet / "live", 1, {"gps": gps([("new", 120, 13.4, 52.5, 1.0, "tram", 1)])})
        expect(page.get_by_text("61 positions of 4 ids, as of batch 1")).to_be_visible()
        expect(page.locator("output")).to_contain_text("08:02:00")
        assert "time" not in query(page)
        with page.expect_download() as downloading:
            page.get_by_role("button", name="GeoJSON").click()
        again = {"name": "again.geojson", "mimeType": "", "buffer": downloading.value.path().read_bytes()}
        page.get_by_label("Open a file").set_input_files(again)
        expect(page.get_by_text("61 positions of 4 ids", exact=True)).to_be_visible()
        page.evaluate(DROP, ["van.csv", "id,speed\n1,2\n"])
        expect(page.get_by_role("alert")).to_contain_text("no columns for the place were found")
        page.get_by_role("button", name="Close again.geojson").click()
        expect(page.get_by_text("61 positions of 4 ids, as of batch 1")).to_be_visible()
        page.evaluate(DROP, ["van.csv", "id,speed\n1,2\n"])
        expect(page.get_by_role("alert")).to_contain_text("no columns for the place were found")
        # what is requested from the job meanwhile does not take the message away
        page.wait_for_timeout(2000)
        expect(page.get_by_role("alert")).to_be_visible()
        assert [one for one in watched.complaints if "400" not in one] == []


def test_a_file_that_is_dropped_is_shown_and_one_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with served(tmp_path) as address, chromium() as browser:
        watched = Watched.open(browser, f"{address}/map")
        page = watched.page
        expect(page.get_by_text("No job here has positions yet")).to_be_visible()
        page.evaluate(DROP, ["van.csv", CSV])
        expect(page.get_by_text("2 positions of 1 id", exact=True)).to_be_visible()
        expect(page.locator("output")).to_contain_text("2026-05-04 08:00")
        page.evaluate(DROP, ["van.csv", "id,speed\n1,2\n"])
        expect(page.get_by_role("alert")).to_contain_text("no columns for the place were found")
        assert [one for one in watched.complaints if "400" not in one] == []


@pytest.mark.long
@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_pictures_of_the_map(fleet: Path, width: int, tmp_path: Path) -> None:
    commit(fleet / "many", [{"gps": swarm(5000, 300)}])
    link = "/map?job=many&time=2026-05-04T08:02:00&colour=speed&tail=30"
    with served(fleet) as address, chromium() as browser:
        for scheme in ("dark", "light"):
            watched = Watched.open(browser, f"{address}{link}", scheme, width, 900 if width > 400 else 844)
            expect(watched.page.locator(".report")).to_contain_text("5,000 of 5,000 now")
            assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
            if (width, scheme) == (1440, "dark"):
                watched.picture("console-map", tmp_path / "pictures")
            assert not watched.complaints


@pytest.mark.bench
def test_how_smooth_a_hundred_thousand_points_are(tmp_path: Path) -> None:
    commit(tmp_path / "many", [{"gps": swarm(100_000, 30)}])
    with served(tmp_path) as address, chromium() as browser:
        page = Watched.open(browser, f"{address}/map?job=many&time=2026-05-04T08:00:00&colour=speed", width=1440).page
        page.get_by_label("Play speed").select_option("1")
        page.get_by_role("button", name="Play", exact=True).click()
        page.wait_for_timeout(8000)
        print(f"\n{page.locator('.report').text_content()}")
