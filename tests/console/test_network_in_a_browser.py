"""The network editor in a real browser: draws, runs and inspects Query 1 of the Aurora paper."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from pyspark.sql import SparkSession

from console.browsing import PATIENCE, Console, Watched, chromium
from console.every_box import EVERY_BOX, TWO_KEYS
from console.serving import free_port, served
from slipstream._cli.common.user_functions import load_functions
from slipstream._network import yaml_files

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
            expect(page.get_by_text("Empty canvas")).to_be_visible()
            draw_query_1(page)
            expect(page.get_by_text("No errors")).to_be_visible()
            page.get_by_label("File", exact=True).fill("query1.yaml")
            page.get_by_role("button", name="Save").click()
            expect(page.get_by_text("unsaved changes")).to_be_hidden()
            drawn, written = yaml_files.load(tmp_path / "query1.yaml"), yaml_files.load(EXAMPLES / "border.yaml")
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
    page.get_by_label("Rate").select_option("unlimited")
    page.get_by_role("button", name="Step").click()
    expect(page.get_by_text("Paused")).to_be_visible()
    expect(page.locator('[data-id="sources.soldiers"]')).to_contain_text("9 waiting")
    page.get_by_role("button", name="Resume").click()
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
        expect(page.get_by_text("No errors")).to_be_visible()
        draw_qos(page)
        page.get_by_label("Rate").select_option("20/s")
        page.get_by_role("button", name="Run", exact=True).click()
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
        page.get_by_role("button", name="Resume").click()
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_role("status").filter(has_text="Stopped")).to_be_visible()
        assert not watched.complaints


def draw_qos(page: Page) -> None:
    """Drag a point of an output's graph: what was saved has changed."""
    page.locator('[data-id="outputs.alerts"] header').click()
    expect(page.get_by_text("unsaved changes")).to_be_hidden()
    point = page.get_by_label("Point 2 of By delay").bounding_box()
    assert point
    page.mouse.move(point["x"] + point["width"] / 2, point["y"] + point["height"] / 2)
    page.mouse.down()
    page.mouse.move(point["x"] + point["width"] / 2, point["y"] + 40, steps=4)
    page.mouse.up()
    expect(page.get_by_text("unsaved changes")).to_be_visible()


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
        expect(page.get_by_text("No errors")).to_be_visible()
        page.locator('[data-id="group.alarm"]').dblclick()
        expect(page.locator('[data-id="boxes.enough"]')).to_be_visible()
        expect(page.locator('[data-id="boxes.over"]')).to_have_count(0)
        page.get_by_role("navigation", name="Groups").get_by_role("button").click()
        expect(page.locator('[data-id="boxes.over"]')).to_be_visible()
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("unsaved changes")).to_be_hidden()
        grouped = [node.group for node in yaml_files.load(tmp_path / "border.yaml").nodes]
        assert grouped == ["", "alarm", "alarm"]
        assert not watched.complaints


@pytest.fixture
def drawings(spark: SparkSession, tmp_path: Path) -> Path:
    """A workspace with the examples and a network with every kind of box; Spark runs, and the operator is loaded."""
    load_functions(EXAMPLES / "braking.py")
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    (tmp_path / "every_box.yaml").write_text(EVERY_BOX)
    (tmp_path / "two_keys.yaml").write_text(TWO_KEYS)
    return tmp_path


def test_boxes_of_every_kind_are_drawn_with_their_outputs_and_saved_as_they_were(
    drawings: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with served(drawings) as address, chromium() as browser:
        watched = Watched.open(browser, f"{address}/network")
        page = watched.page
        page.get_by_label("Open").select_option("every_box.yaml")
        expect(page.get_by_text("No errors")).to_be_visible()
        network = yaml_files.loads(EVERY_BOX)
        for node in network.nodes:
            if node.name == "archive_trips":
                continue
            box = page.locator(f'[data-id="boxes.{node.name}"]')
            expect(box.locator(".kind")).to_have_text(node.box.kind)
            ports = len(node.box.predicates) + 1 if node.box.kind == "filter" else len(getattr(node.box, "ports", "1"))
            expect(box.locator(".react-flow__handle-right")).to_have_count(ports)
            if node.box.kind != "union":
                expect(box.locator(".react-flow__handle-left")).to_have_count(len(node.inputs))
        expect(page.locator('[data-id="outputs.trips"] .kind')).to_have_text("archive")
        # every arc of the file is on the canvas: archives are outputs, with one arc into them
        drawn = sum(len(node.inputs) for node in network.nodes) + len(network.outputs) - 2 + len(network.points)
        expect(page.locator(".react-flow__edge")).to_have_count(drawn)
        # one stage, with a frame in each line of the layout
        expect(page.locator(".stage").first).to_have_text("Stage 1: 1 partition")
        watched.picture("console-boxes", tmp_path_factory.mktemp("pictures"))
        change_by_hand(page)
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("unsaved changes")).to_be_hidden()
        changed = EVERY_BOX.replace("{by: 10}", "{by: 15}").replace("lateness: 2", "lateness: 3")
        assert yaml_files.load(drawings / "every_box.yaml") == yaml_files.loads(changed.replace("gap: 60", "gap: 90"))
        assert not watched.complaints


def change_by_hand(page: Page) -> None:
    """Change a parameter of an operator, of the toll box, and of an archive."""
    for place, label, value in (
        ("boxes.change", "by", "15"),
        ("boxes.tolls", "lateness", "3"),
        ("outputs.trips", "gap", "90"),
    ):
        page.locator(f'[data-id="{place}"] header').click()
        fill(page, **{label: value})


def test_an_operator_is_chosen_among_those_that_are_loaded(drawings: Path) -> None:
    with served(drawings) as address, chromium() as browser:
        page = Watched.open(browser, f"{address}/network").page
        page.get_by_label("Open").select_option("braking.yaml")
        expect(page.get_by_text("No errors")).to_be_visible()
        page.get_by_role("region", name="Palette").get_by_role("button", name="Operator", exact=True).click()
        inspector = page.locator(".inspector")
        expect(inspector.get_by_text("No operator selected.")).to_be_visible()
        inspector.get_by_label("Operator", exact=True).select_option("braking")
        expect(inspector.get_by_text("slower or faster by more than")).to_be_visible()
        inspector.get_by_label("Input", exact=True).select_option("reports")
        expect(page.locator('[data-id="boxes.operator_1"]')).to_contain_text("faster")
        expect(page.get_by_text("No errors")).to_be_visible()


def test_stages_are_framed_for_the_partitions_one_chooses(
    drawings: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with served(drawings) as address, chromium() as browser:
        watched = Watched.open(browser, f"{address}/network")
        page = watched.page
        page.get_by_label("Open").select_option("two_keys.yaml")
        expect(page.locator(".stage")).to_have_text(["Stage 1: 1 partition"])
        page.get_by_label("Partitions").fill("4")
        expect(page.locator(".stage")).to_have_text(["Stage 1: 4 partitions by vid", "Stage 2: 4 partitions by seg"])
        # all at one moment: the view may be moving to show everything
        inside, beyond, box, later = page.evaluate(
            """() => [...document.querySelectorAll('.stage, [data-id="boxes.by_car"], [data-id="boxes.by_segment"]')]
            .sort((a, b) => b.matches('.stage') - a.matches('.stage'))
            .map(element => element.getBoundingClientRect())
            .map(({left, right, top, bottom}) => ({left, right, top, bottom}))"""
        )
        assert inside["left"] < box["left"] < box["right"] < inside["right"]
        # five layers need two lines, so the second stage is below the first
        assert inside["top"] < box["top"] < box["bottom"] < inside["bottom"] < beyond["top"] < later["top"]
        page.locator('[data-id="boxes.by_segment"] header').click()
        expect(page.locator(".inspector")).to_contain_text("Stage 2: 4 partitions by seg")
        watched.picture("console-stages", tmp_path_factory.mktemp("pictures"))
        page.get_by_label("Stages").uncheck()
        expect(page.locator(".stage")).to_have_count(0)
        assert not watched.complaints


def test_the_yaml_beside_the_picture_is_edited_and_undone(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "networks")
    with served(tmp_path) as address, chromium() as browser:
        page = Watched.open(browser, f"{address}/network?file=networks/border.yaml").page
        box = page.locator(".piece", has_text="over").first
        expect(box).to_be_visible()
        page.get_by_label("YAML", exact=True).check()
        text = page.get_by_label("The network as YAML")
        expect(text).to_have_value(re.compile("network: border"))
        text.fill(text.input_value().replace("over:", "above:").replace("from: over", "from: above"))
        page.get_by_role("button", name="Draw it").click()
        expect(page.locator(".piece", has_text="above").first).to_be_visible()
        page.get_by_role("button", name="Undo").click()
        expect(page.locator(".piece", has_text="over").first).to_be_visible()
        expect(text).to_have_value(re.compile("over:"))
        page.get_by_role("button", name="Redo").click()
        expect(page.locator(".piece", has_text="above").first).to_be_visible()
        text.fill("network: [")
        page.get_by_role("button", name="Draw it").click()
        expect(page.get_by_role("region", name="YAML").get_by_role("alert")).to_contain_text("The YAML, line 1")
        page.get_by_label("Find a box").fill("window")
        expect(page.get_by_role("region", name="Palette").get_by_role("button", name="Filter")).to_have_count(0)


@pytest.mark.long
def test_a_folder_is_previewed_followed_and_its_boxes_are_weighed(tmp_path: Path) -> None:
    shutil.copy(EXAMPLES / "border.yaml", tmp_path)
    (tmp_path / "arriving").mkdir()
    lines = (EXAMPLES / "soldiers.csv").read_text().splitlines()[1:]
    tuples = [dict(zip(("number", "time", "pos"), map(int, line.split(",")), strict=True)) for line in lines]
    (tmp_path / "arriving" / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in tuples))
    console = Console(tmp_path, free_port()).start()
    try:
        with chromium() as browser:
            watched = Watched.open(browser, f"{console.address}/network?file=border.yaml", width=1440)
            page = watched.page
            page.set_default_timeout(PATIENCE)
            expect.set_options(timeout=PATIENCE)
            expect(page.get_by_text("No errors")).to_be_visible()
            page.locator('[data-id="sources.soldiers"] header').click()
            page.get_by_label("Reads").select_option("folder")
            preview = page.get_by_role("region", name="Preview")
            expect(preview.locator("th").first).to_have_text("number bigint")
            expect(preview).to_contain_text("differs from the columns: sid")
            expect(page.get_by_label("Rate")).to_be_disabled()
            fill(page, Field_of_sid="number")
            page.get_by_role("button", name="Run", exact=True).click()
            expect(page.locator('[data-id="boxes.crowd"] .load')).to_contain_text("of time")
            page.locator('[data-id="boxes.crowd"] header').click()
            expect(page.locator(".inspector").get_by_role("figure", name="State")).to_be_visible()
            expect(page.locator(".drawer tbody tr").first).to_be_visible()
            watched.picture("console-live-network", tmp_path)
            page.get_by_role("button", name="Stop").click()
            expect(page.get_by_role("status").first).to_have_text("Stopped")
            assert not watched.complaints
    finally:
        console.stop()


def test_long_networks_wrap_and_a_phone_cannot_change_them(drawings: Path) -> None:
    with served(drawings) as address, chromium() as browser:
        page = Watched.open(browser, f"{address}/network?file=linear_road.yaml", width=1440).page
        boxes = page.locator(".piece")
        expect(boxes.first).to_be_visible()
        scale = page.evaluate(SCALE)
        assert scale >= 0.75, "text must be legible"
        tops = [boxes.nth(number).bounding_box()["y"] for number in range(boxes.count())]  # type: ignore[index]
        assert max(tops) - min(tops) > 300, "it wraps"
        for _ in range(12):
            page.locator(".react-flow__controls-zoomout").click(force=True)
        assert page.evaluate(SCALE) >= 0.75
        phone = Watched.open(browser, f"{address}/network?file=border.yaml", width=390, height=844).page
        box = phone.locator('[data-id="boxes.over"]')
        expect(box).to_be_visible()
        box.locator("header").click()
        expect(phone.get_by_label("Predicate 1")).to_be_disabled()
        expect(phone.get_by_role("button", name="Remove", exact=True)).to_be_disabled()
        for name in ("Save", "New", "Undo", "Auto-layout"):
            expect(phone.get_by_role("button", name=name)).to_be_hidden()
        phone.keyboard.press("Delete")
        expect(box).to_be_visible()
        expect(phone.get_by_role("region", name="Palette")).to_have_count(0)
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390


SCALE = "() => new DOMMatrix(getComputedStyle(document.querySelector('.react-flow__viewport')).transform).a"
