"""The network editor in a real browser: Query 1 of the Aurora paper, drawn with the mouse, run, and looked at."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from pyspark.sql import SparkSession

from console.browsing import PATIENCE, Console, Watched, chromium
from console.serving import free_port, served
from slipstream.network import files

EXAMPLES = Path(__file__).parents[2] / "examples" / "networks"


def drag(page: Page, piece: str, x: int, y: int) -> None:
    """Take a piece from the palette and let it go on the canvas."""
    item = page.get_by_role("region", name="Palette").get_by_role("button", name=piece, exact=True)
    item.drag_to(page.locator(".canvas"), target_position={"x": x, "y": y})


def connect(page: Page, origin: str, port: int, target: str) -> None:
    """Draw an arc from one dot to another."""
    start = page.locator(f'[data-id="{origin}"] .react-flow__handle-right').nth(port).bounding_box()
    end = page.locator(f'[data-id="{target}"] .react-flow__handle-left').bounding_box()
    assert start
    assert end
    page.mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
    page.mouse.down()
    page.mouse.move(end["x"] + end["width"] / 2, end["y"] + end["height"] / 2, steps=8)
    page.mouse.up()


def fill(page: Page, **fields: str) -> None:
    """Fill fields of the chosen piece, and leave the last."""
    for label, text in fields.items():
        page.locator(".inspector").get_by_label(label.replace("_", " "), exact=True).fill(text)
    page.keyboard.press("Tab")


@pytest.mark.long
def test_query_1_is_drawn_checked_saved_run_and_its_output_seen(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "soldiers.csv", tmp_path)
    console = Console(tmp_path, free_port()).start()
    try:
        with chromium() as browser:
            watched = Watched.open(browser, f"{console.address}/network")
            page = watched.page
            page.set_default_timeout(PATIENCE)
            expect.set_options(timeout=PATIENCE)
            expect(page.get_by_text("An empty canvas")).to_be_visible()
            draw_query_1(page)
            expect(page.get_by_text("Makes sense")).to_be_visible()
            page.get_by_label("File", exact=True).fill("query1.yaml")
            page.get_by_role("button", name="Save").click()
            expect(page.get_by_text("not saved")).to_be_hidden()
            drawn, written = files.load(tmp_path / "query1.yaml"), files.load(EXAMPLES / "border.yaml")
            assert [node.box for node in drawn.nodes] == [node.box for node in written.nodes]
            step_then_run(page)
            page.reload()
            expect(page.get_by_text("Finished")).to_be_visible()
            rows = page.locator(".tuples tbody tr")
            expect(rows).to_have_text(["33", "25"])
            assert not watched.complaints
            assert all(url.startswith((console.address, "data:", "blob:")) for url in watched.asked)
    finally:
        console.stop()


def draw_query_1(page: Page) -> None:
    drag(page, "Source", 130, 120)
    page.get_by_label("Recording").select_option("soldiers.csv")
    fill(page, Name="soldiers")
    drag(page, "Filter", 370, 120)
    fill(page, Name="over", Predicate_1="poss >= 30")
    connect(page, "sources.soldiers", 0, "boxes.over")
    # the mistake is told at the box, and the column that was meant
    expect(page.locator('[data-id="boxes.over"] .complaint')).to_contain_text("poss")
    expect(page.get_by_role("alert")).to_contain_text("Did you mean 'pos'?")
    page.locator('[data-id="boxes.over"] header').click()
    fill(page, Predicate_1="pos >= 30")
    drag(page, "Aggregate", 610, 120)
    fill(page, Name="crowd", Order_on="time", Slack="1")
    connect(page, "boxes.over", 0, "boxes.crowd")
    drag(page, "Filter", 370, 300)
    fill(page, Name="enough", Predicate_1="n >= 3")
    connect(page, "boxes.crowd", 0, "boxes.enough")
    drag(page, "Output", 610, 300)
    fill(page, Name="alerts")
    connect(page, "boxes.enough", 0, "outputs.alerts")


def step_then_run(page: Page) -> None:
    page.get_by_label("Train", exact=True).fill("8")
    page.get_by_label("Rate").select_option("all at once")
    page.get_by_role("button", name="Step").click()
    expect(page.get_by_text("Paused")).to_be_visible()
    expect(page.locator('[data-id="sources.soldiers"]')).to_contain_text("9 waiting")
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("Finished")).to_be_visible()
    # arcs tell what passed; the output has the paper's two tuples
    expect(page.locator(".rate").first).to_be_visible()
    page.get_by_label("Tuples on").select_option("end:alerts")
    expect(page.locator(".tuples tbody tr")).to_have_text(["33", "25"])


@pytest.fixture
def patrol(spark: SparkSession, tmp_path: Path) -> Path:
    """A workspace with Query 1 and an hour of soldiers; Spark runs already."""
    shutil.copy(EXAMPLES / "border.yaml", tmp_path)
    rows = [f"{sid},{time},{(7 * sid + 3 * time) % 60}" for time in range(3600) for sid in range(3)]
    (tmp_path / "soldiers.csv").write_text("\n".join(["sid,time,pos", *rows]) + "\n")
    return tmp_path


@pytest.mark.long
def test_a_running_network_is_watched_shed_paused_and_stopped(patrol: Path) -> None:
    expect.set_options(timeout=PATIENCE)
    with served(patrol) as address, chromium() as browser:
        watched = Watched.open(browser, f"{address}/network")
        page = watched.page
        page.get_by_label("Open").select_option("border.yaml")
        expect(page.get_by_text("Makes sense")).to_be_visible()
        draw_qos(page)
        page.get_by_label("Rate").select_option("20/s")
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_role("status").filter(has_text="Running")).to_be_visible()
        labels = page.locator(".rate")
        expect(labels.filter(has_text="queued")).to_have_count(1)
        expect(labels.filter(has_text="/s").first).to_be_visible()
        shed_half(page)
        page.get_by_label("Tuples on").select_option("arc:over")
        expect(page.locator(".tuples tbody tr").first).to_be_visible()
        watched.picture("console-network", patrol / "pictures")
        page.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("status").filter(has_text="Paused")).to_be_visible()
        page.get_by_role("button", name="Go on").click()
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_role("status").filter(has_text="Stopped")).to_be_visible()
        assert not watched.complaints


def draw_qos(page: Page) -> None:
    """Drag a point of an output's graph: what was saved has changed."""
    page.locator('[data-id="outputs.alerts"] header').click()
    expect(page.get_by_text("not saved")).to_be_hidden()
    point = page.get_by_label("Point 2 of By delay").bounding_box()
    assert point
    page.mouse.move(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
    page.mouse.down()
    page.mouse.move(point["x"] + point["width"] / 2, point["y"] + 40, steps=4)
    page.mouse.up()
    expect(page.get_by_text("not saved")).to_be_visible()


def shed_half(page: Page) -> None:
    """Drop half of what comes from the source; the arc says so, and how many it dropped."""
    page.get_by_label("Arc from soldiers to over").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Share to drop here").fill("50")
    expect(page.locator(".rate .shed")).to_contain_text("50 %")
    expect(page.locator(".rate .shed")).not_to_have_text("⤓ 50 %, 0")


def test_boxes_of_a_group_are_one_until_one_zooms_in(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "border.yaml", tmp_path)
    with served(tmp_path) as address, chromium() as browser:
        watched = Watched.open(browser, f"{address}/network")
        page = watched.page
        page.get_by_label("Open").select_option("border.yaml")
        for name in ("crowd", "enough"):
            page.locator(f'[data-id="boxes.{name}"] header').click()
            fill(page, Group="alarm")
            if name == "crowd":
                page.locator('[data-id="group.alarm"]').wait_for()
        expect(page.locator('[data-id="boxes.crowd"]')).to_have_count(0)
        expect(page.get_by_text("Makes sense")).to_be_visible()
        page.locator('[data-id="group.alarm"]').dblclick()
        expect(page.locator('[data-id="boxes.enough"]')).to_be_visible()
        expect(page.locator('[data-id="boxes.over"]')).to_have_count(0)
        page.get_by_role("navigation", name="Groups").get_by_role("button").click()
        expect(page.locator('[data-id="boxes.over"]')).to_be_visible()
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("not saved")).to_be_hidden()
        grouped = [node.group for node in files.load(tmp_path / "border.yaml").nodes]
        assert grouped == ["", "alarm", "alarm"]
        assert not watched.complaints
