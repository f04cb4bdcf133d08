"""Real jobs of every kind in a real browser: state, counts and outputs, without errors."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from pyspark.sql import SparkSession

from console.browsing import Watched, chromium
from console.serving import served
from slipstream._cuboid import declare, example_series
from slipstream._cuboid.cuboid_feeds import make_cuboid_feed
from slipstream._feeds.run import Run
from slipstream._feeds.tuples import FIELDS
from slipstream._io import outputs
from slipstream._linear_road.job.engine import Settings, toll_run
from slipstream._network import yaml_files
from slipstream._network.running.driving import drive
from slipstream._network.running.filling import build_network, fill
from slipstream._network.running.run_folder import ALL, Execution

STOCKS = """CREATE CUBOID stock (stock_id INT KEY, price FLOAT AST(8));
CREATE QUERY moves AS SELECT stock_id, delta(price) AS moved FROM stock WHERE delta(price) > 0"""
CARS = f"""
network: cars
version: 1
sources: {{feed: {{{", ".join(f"{name}: integer" for name in FIELDS)}}}}}
boxes:
  reports: {{filter: [type = 0], from: feed}}
  speeds: {{map: {{vid: vid, time: time, speed: spd, x: pos, y: lane}}, from: reports}}
  kept: {{keep: 'CREATE CUBOID car (vid INT KEY, speed SMALLINT AST(4))', from: speeds}}
  fast: {{query: 'SELECT vid, avg(speed) AS mean FROM car WHERE avg(speed) > 60', from: kept}}
outputs:
  fast: {{from: fast}}
  trips: {{from: speeds, archive: {{id: vid, time: time, x: x, y: y, gap: 60}}}}
"""


@pytest.fixture(scope="module")
def jobs(spark: SparkSession, workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a job of every kind, all finished."""
    folder = tmp_path_factory.mktemp("jobs")
    shutil.copytree(workspace / "city", folder / "city")
    run = Run.open(folder / "city")
    toll_run(spark, run, folder / "tolls", Settings(batch_seconds=60, snapshot=True, text=False))
    toll_run(spark, run, folder / "archive", Settings(batch_seconds=60, outputs="trips", text=False))
    toll_run(spark, run, folder / "both", Settings(batch_seconds=60, outputs="answers and trips", text=False))
    script = declare.parse(STOCKS)
    example_series.write(folder / "ticks", 40, seed=2, files=1)
    stocks = make_cuboid_feed(str(folder / "ticks"), script.cuboids["stock"])
    fill(spark, stocks, build_network(script), folder / "stocks", fragments=2)
    made = Execution.prepare(folder / "cars", yaml_files.loads(CARS), {"feed": folder / "city"}, train=2000)
    drive(spark, made, trains=ALL)
    return folder


#: the outputs that each job must show rows of
ROWS = {
    "tolls": ("notifications",),
    "archive": ("trips",),
    "both": ("notifications", "trips"),
    "stocks": ("moves",),
    "cars": ("fast", "trips"),
}


@pytest.mark.long
def test_jobs_of_every_kind_show_state_counts_and_outputs(jobs: Path, tmp_path: Path) -> None:
    with served(jobs) as address, chromium() as browser:
        watched = Watched.open(browser, f"{address}/jobs")
        page = watched.page
        expect(page.get_by_role("navigation", name="Jobs").get_by_role("button")).to_have_count(len(ROWS))
        for name, expected in ROWS.items():
            look_at(page, jobs / name, expected)
            watched.picture(f"console-job-{name}", tmp_path / "pictures")
        expect(page.get_by_role("alert")).to_have_count(0)
        assert not watched.complaints


def look_at(page: Page, folder: Path, expected: tuple[str, ...]) -> None:
    """Open a job, and hold what is shown against its journal and tables."""
    page.get_by_role("navigation", name="Jobs").get_by_role("button", name=folder.name).click()
    job = page.get_by_role("region", name=f"Job {folder.name}")
    expect(job.get_by_role("status")).to_have_text("Finished")
    journal = outputs.read_journal(folder)
    expect(job.locator(".figure", has_text="batches")).to_contain_text(f"{len(journal):,}")
    expect(job.locator(".figure", has_text="tuples")).to_contain_text(f"{sum(line.tuples for line in journal):,}")
    for name in outputs.output_names(folder):
        rows = outputs.read(folder, name).num_rows
        expect(job.get_by_role("radio", name=f"{name} {rows:,}", exact=True)).to_be_visible()
    for name in expected:
        job.get_by_role("radio", name=name).first.click()
        expect(job.locator(".rows tbody tr").first).to_be_visible()


@pytest.mark.long
def test_each_kind_opens_on_its_own_page_too(jobs: Path, tmp_path: Path) -> None:
    with served(jobs) as address, chromium() as browser:
        watched = Watched.open(browser, address)
        page = watched.page
        expect(page.get_by_label("Open").locator("option:not([disabled])")).to_have_text(["both", "tolls"])
        for name in ("both", "tolls"):
            page.get_by_label("Open").select_option(name)
            expect(page.get_by_role("status").first).to_have_text("Finished")
            expect(page.get_by_label("Time of the run")).to_have_text("0:06:59")
        watched.picture("console-tolls", tmp_path / "pictures")
        page.get_by_role("link", name="Trajectories").click()
        for name in ("archive", "both", "cars"):
            page.get_by_role("combobox", name="Journeys", exact=True).select_option(name)
            expect(page.get_by_role("img", name="Map of the journeys")).to_be_visible()
            watched.picture(f"console-trips-{name}", tmp_path / "pictures")
        expect(page.get_by_role("alert")).to_have_count(0)
        assert not watched.complaints
