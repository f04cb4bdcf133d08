"""The Trajectories page in a real browser: plays and queries Berlin's journeys and an archived run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Page, expect

from console.browsing import PATIENCE, Watched, chromium
from console.serving import served
from slipstream._berlinmod import queries
from slipstream._berlinmod.dataset import Dataset
from slipstream._berlinmod.generator import GeneratorPlan, generate
from slipstream._berlinmod.streets import read_network
from slipstream._linear_road.job.engine import Settings, toll_run
from slipstream._linear_road.job.toll_layout import TRIPS

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect
    from pyspark.sql import SparkSession

    from slipstream._feeds.run import Run

MONDAY = "2007-05-28"


@pytest.fixture(scope="module")
def journeys(spark: SparkSession, real_data: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few days of Berlin with all answers, and a run of Linear City that was archived."""
    folder = tmp_path_factory.mktemp("journeys")
    berlin = folder / "berlin"
    generate(spark, GeneratorPlan(scale=0.003, seed=4), read_network(real_data / "berlinmod" / "streets.data"), berlin)
    queries.prepare(spark, Dataset.open(berlin))
    for number in queries.NUMBERS:
        queries.run(spark, number, "tba", berlin / "answers")
    toll_run(spark, run, folder / "journeys", Settings(outputs=TRIPS, text=False))
    return folder


def map_of(page: Page) -> FloatRect:
    box = page.get_by_role("img", name="Map of the journeys").bounding_box()
    assert box
    return box


def draw(page: Page, left: float, top: float, right: float, bottom: float) -> None:
    """Draw a rectangle on the map, by shares of its width and height."""
    box = map_of(page)
    corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
    (x, y), *rest = [(box["x"] + box["width"] * u, box["y"] + box["height"] * v) for u, v in corners]
    page.get_by_role("button", name="Draw a region").click()
    page.mouse.move(x, y)
    page.mouse.down()
    for x, y in rest:
        page.mouse.move(x, y, steps=5)
    page.mouse.up()


def who(page: Page, begin: str, end: str) -> dict[str, Any]:
    """Ask who was there, and what the page was answered."""
    page.get_by_label("From", exact=True).fill(begin)
    page.get_by_label("To", exact=True).fill(end)
    # the kernels that answer are compiled when they are first asked
    with page.expect_response("**/api/trajectories/who*", timeout=PATIENCE) as answered:
        page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("button", name="Draw a region")).to_be_visible()
    return answered.value.json()  # type: ignore[no-any-return]


@pytest.mark.long
def test_journeys_are_played_picked_asked_and_their_answers_shown(journeys: Path, tmp_path: Path) -> None:
    with served(journeys) as address, chromium() as browser:
        watched = Watched.open(browser, f"{address}/trajectories")
        page = watched.page
        expect(page.get_by_role("combobox", name="Journeys", exact=True)).to_have_value("berlin")
        licence = play_and_pick(page)
        ask_about_regions(page, licence)
        look_at_all_answers(page, journeys / "berlin" / "answers" / "tba")
        page.locator("aside").evaluate("aside => aside.scrollTo(0, 0)")
        watched.picture("console-trajectories", tmp_path / "pictures")
        assert not watched.complaints
        assert all(url.startswith((address, "data:", "blob:")) for url in watched.asked)


def play_and_pick(page: Page) -> str:
    """Time moves while it is played; a vehicle is found by its licence. Returns the licence."""
    now = page.locator(".player output")
    expect(now).to_have_text(f"Mon {MONDAY} 08:00:00")
    page.get_by_label("Play speed").select_option("300×")
    page.get_by_role("button", name="Play").click()
    expect(now).not_to_have_text(f"Mon {MONDAY} 08:00:00")
    page.get_by_role("button", name="Pause").click()
    page.get_by_label("Licence").fill("B-NO 0")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_role("alert")).to_contain_text("No vehicle has the licence")
    licence = page.locator("#licences option").first.get_attribute("value") or ""
    find(page, licence)
    return licence


def find(page: Page, licence: str) -> None:
    """Find a vehicle and jump to its first drive."""
    page.get_by_label("Licence").fill(licence)
    page.keyboard.press("Enter")
    vehicle = page.get_by_role("region", name=f"Vehicle {licence}")
    expect(vehicle).to_contain_text("distance")
    vehicle.get_by_role("listitem").first.get_by_role("button").click()
    expect(vehicle).to_contain_text("Driving")


def ask_about_regions(page: Page, licence: str) -> None:
    """Everybody was in Berlin, nobody beside it, and some in its middle; who was can be picked."""
    everybody = page.locator("#licences option").count()
    draw(page, 0.02, 0.01, 0.98, 0.99)
    assert len(who(page, f"{MONDAY}T00:00:00", f"{MONDAY}T23:59:59")["stays"]) == everybody
    expect(page.get_by_text(f"{everybody} vehicles were there.")).to_be_visible()
    expect(page.get_by_role("region", name="Who was there").get_by_text(licence, exact=True)).to_be_visible()
    draw(page, 0.01, 0.01, 0.05, 0.05)
    assert not who(page, f"{MONDAY}T00:00:00", f"{MONDAY}T23:59:59")["stays"]
    expect(page.get_by_text("No vehicles were there.")).to_be_visible()
    draw(page, 0.4, 0.35, 0.6, 0.65)
    stays = who(page, f"{MONDAY}T07:00:00", f"{MONDAY}T09:00:00")["stays"]
    assert 0 < len(stays) < everybody
    assert all(0 <= stay["seconds"] <= 7200 for stay in stays)
    first = page.get_by_role("region", name="Who was there").get_by_role("listitem").first
    name = first.locator("strong").inner_text()
    first.get_by_role("button").click()
    expect(page.get_by_role("region", name=f"Vehicle {name}")).to_be_visible()


def look_at_all_answers(page: Page, answers: Path) -> None:
    """Every query's rows are those that lie in its answer."""
    card = page.get_by_role("region", name="The 17 queries")
    for number in queries.NUMBERS:
        files = (answers / f"q{number:02d}").glob("*.parquet")
        rows = sum(pq.read_metadata(file).num_rows for file in files)
        card.get_by_label("Query").select_option(str(number))
        expect(card).to_contain_text(f"{rows:,} rows")
        expect(card.locator("tbody tr")).to_have_count(min(rows, 500))
    card.get_by_label("Query").select_option("1")
    licence = card.locator("tbody button").first
    name = licence.inner_text()
    licence.click()
    expect(page.get_by_role("region", name=f"Vehicle {name}")).to_be_visible()


@pytest.mark.long
def test_an_archived_run_is_on_the_map_of_its_expressways(journeys: Path, run: Run) -> None:
    vid = str(run.manifest.accidents[0].vids[0])
    with served(journeys) as address, chromium() as browser:
        watched = Watched.open(browser, f"{address}/trajectories", "light")
        page = watched.page
        page.get_by_role("combobox", name="Journeys", exact=True).select_option("journeys")
        find(page, vid)
        page.get_by_role("img", name="Map of the journeys").focus()
        for key in ("+", "ArrowLeft", "0"):
            page.keyboard.press(key)
        assert not watched.complaints


@pytest.mark.long
def test_a_vehicle_is_picked_where_it_stands_on_the_map(journeys: Path) -> None:
    with served(journeys) as address, chromium() as browser:
        page = Watched.open(browser, f"{address}/trajectories").page
        with page.expect_response("**/api/trajectories/data?data=journeys*") as opened:
            page.get_by_role("combobox", name="Journeys", exact=True).select_option("journeys")
        licence = page.locator("#licences option").first.get_attribute("value") or ""
        page.get_by_label("Licence").fill(licence)
        with page.expect_response("**/api/trajectories/vehicle*") as history:
            page.keyboard.press("Enter")
        vehicle = page.get_by_role("region", name=f"Vehicle {licence}")
        vehicle.get_by_role("listitem").first.get_by_role("button").click()
        x, y = history.value.json()["lines"][0][0]
        vehicle.get_by_label("Close").click()
        left, bottom, right, top = opened.value.json()["box"]
        box = map_of(page)
        scale = 0.92 * min(box["width"] / (right - left), box["height"] / (top - bottom))
        page.mouse.click(
            box["x"] + box["width"] / 2 + (x - (left + right) / 2) * scale,
            box["y"] + box["height"] / 2 - (y - (bottom + top) / 2) * scale,
        )
        expect(page.get_by_role("region", name="Vehicle")).to_be_visible()


@pytest.mark.long
def test_without_journeys_the_page_says_how_to_make_some(tmp_path: Path) -> None:
    with served(tmp_path) as address, chromium() as browser:
        page = Watched.open(browser, f"{address}/trajectories").page
        expect(page.get_by_text("No journeys yet")).to_be_visible()
        broken = tmp_path / "broken"
        (broken / "dataMtrip").mkdir(parents=True)
        (broken / "manifest.json").write_text(json.dumps({"format": "slipstream-berlinmod", "version": 1}))
        page.reload()
        expect(page.get_by_role("alert")).to_be_visible()
