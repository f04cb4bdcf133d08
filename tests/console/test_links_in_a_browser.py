"""What a page shows is in its address: a reload, and a colleague who gets the link, see the same."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from playwright.sync_api import Page, expect

from console.browsing import Watched, chromium
from console.serving import served
from slipstream._archive.trip_tables import mark_linear_city
from slipstream._feeds.run import Run
from slipstream._moving.moving_point import MovingPoint, to_arrow

BORDER = Path(__file__).parents[2] / "examples" / "networks" / "border.yaml"


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlparse(page.url).query).items()}


def test_a_link_to_the_city_shows_the_same(workspace: Path, run: Run) -> None:
    vid = run.manifest.accidents[0].vids[0]
    link = f"/city?result=tolled&second=200&segment=0,1,33&vehicle={vid}&colour=toll&expressway=0&range=60,180"
    with served(workspace) as address, chromium() as browser:
        watched = Watched.open(browser, f"{address}{link}")
        page = watched.page
        for _ in range(2):
            expect(page.get_by_label("Time of the run")).to_have_text("0:03:20")
            expect(page.get_by_role("region", name="Segment")).to_contain_text("Expressway 0 west, segment 33")
            expect(page.get_by_role("region", name="Vehicle")).to_be_visible()
            expect(page.get_by_role("radio", name="Toll")).to_have_attribute("aria-checked", "true")
            expect(page.get_by_role("button", name="All expressways")).to_be_visible()
            expect(page.get_by_role("figure", name="Lag").get_by_role("button", name="all")).to_be_visible()
            page.reload()
        page.get_by_role("slider", name="Second of the run").fill("90")
        page.wait_for_url("**second=90*")
        page.get_by_role("button", name="Close segment").click()
        assert query(page) == {
            "result": "tolled", "second": "90", "vehicle": str(vid), "colour": "toll", "expressway": "0",
            "range": "60,180",
        }  # fmt: skip
        page.get_by_role("figure", name="Lag").get_by_role("button", name="all").click()
        assert "range" not in query(page)
        page.get_by_role("button", name="Latest").click()
        page.wait_for_url(lambda url: "second" not in url)
        page.goto(f"{address}/city?result=nowhere&second=x&segment=a,b&vehicle=&range=9,1&colour=red")
        expect(page.get_by_role("alert")).to_contain_text("No result 'nowhere'")
        # what a link shows may be asked for before its result is open
        assert [one for one in watched.complaints if "404" not in one and "409" not in one] == []


def test_a_chart_is_zoomed_by_dragging_and_the_range_is_in_the_address(workspace: Path) -> None:
    with served(workspace) as address, chromium() as browser:
        page = Watched.open(browser, f"{address}/city?result=tolled").page
        chart = page.get_by_role("figure", name="Commit time")
        expect(chart.locator("canvas")).to_be_visible()
        expect(page.get_by_label("Time of the run")).to_have_text("0:06:59")
        box = chart.locator(".u-over").bounding_box()
        assert box is not None
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] * 0.25, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.75, middle, steps=5)
        page.mouse.up()
        page.wait_for_url("**range=*")
        since, until = map(float, query(page)["range"].split(","))
        assert 60 < since < 180
        assert 240 < until < 380
        chart.get_by_role("button", name="budget").click()
        expect(chart.get_by_role("button", name="budget")).to_have_attribute("aria-pressed", "false")
        with page.expect_download() as downloading:
            chart.get_by_role("button", name="Download").click()
        lines = downloading.value.path().read_text().splitlines()
        assert lines[0] == "x,commit,budget"
        assert all(since <= float(line.split(",")[0]) <= until for line in lines[1:])


def test_a_link_to_trajectories_and_to_a_network_shows_the_same(tmp_path: Path) -> None:
    start = datetime(2007, 5, 28, tzinfo=UTC)
    drive = MovingPoint.of([[(start + timedelta(seconds=30 * k), 900.0 * k, 4.0) for k in range(20)]])
    mark_linear_city(tmp_path / "journeys")
    (tmp_path / "journeys" / "trips").mkdir()
    pq.write_table(pa.table({"vid": [7], "Trip": to_arrow([drive])}), tmp_path / "journeys" / "trips" / "a.parquet")
    shutil.copy(BORDER, tmp_path / "border.yaml")
    link = "/trajectories?data=journeys&time=2007-05-28T00:05:00&vehicle=7&view=3000,2000,0.05"
    link += "&region=1000,0;9000,0;9000,90"
    with served(tmp_path) as address, chromium() as browser:
        watched = Watched.open(browser, f"{address}{link}")
        page = watched.page
        for _ in range(2):
            expect(page.get_by_role("region", name="Vehicle 7")).to_be_visible()
            expect(page.locator("output")).to_contain_text("2007-05-28 00:05:00")
            expect(page.get_by_role("button", name="Search")).to_be_enabled()
            assert query(page)["view"] == "3000,2000,0.05"
            page.reload()
        page.get_by_role("img", name="Map of the journeys").press("ArrowRight")
        page.wait_for_url(lambda url: "view=3000,2000" not in url)
        page.goto(f"{address}/network?file=border.yaml")
        expect(page.locator(".piece", has_text="over").first).to_be_visible()
        assert query(page)["file"] == "border.yaml"
        assert not watched.complaints
