"""Real jobs of every kind in a real browser: state, counts and outputs, without errors."""

from __future__ import annotations

import json
import re
import shutil
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from pyspark.sql import SparkSession

from console.browsing import Watched, chromium
from console.made_jobs import begun, commit
from console.serving import served
from slipstream._cuboid import declare, example_series
from slipstream._cuboid.cuboid_feeds import make_cuboid_feed
from slipstream._errors import BadInput
from slipstream._feeds.run import Run
from slipstream._feeds.tuples import FIELDS
from slipstream._io import outputs
from slipstream._linear_road.job.engine import Settings, toll_run
from slipstream._network import yaml_files
from slipstream._network.running.driving import drive
from slipstream._network.running.filling import build_network, fill
from slipstream._network.running.run_folder import ALL, Execution
from slipstream._runtime.watching import metrics
from slipstream._runtime.watching.metrics import BatchMetrics
from slipstream._runtime.watching.starts import record_start
from slipstream._runtime.watching.status import Status, report_status
from slipstream._tools.logs import append_lines

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


def figure(job: Locator, name: str) -> Locator:
    return job.locator(".figure", has=job.page.get_by_role("button", name=name, exact=True))


def look_at(page: Page, folder: Path, expected: tuple[str, ...]) -> None:
    """Open a job, and hold what is shown against its journal and tables."""
    page.get_by_role("navigation", name="Jobs").get_by_role("button", name=folder.name).click()
    job = page.get_by_role("region", name=f"Job {folder.name}")
    expect(job.get_by_role("status").first).to_have_text("Finished")
    journal = outputs.read_journal(folder)
    expect(figure(job, "Batches")).to_contain_text(f"{len(journal):,}")
    expect(figure(job, "Tuples")).to_contain_text(f"{sum(line.tuples for line in journal):,}")
    for name in outputs.output_names(folder):
        rows = outputs.read(folder, name).num_rows
        expect(job.get_by_role("radio", name=f"{name} {rows:,}", exact=True)).to_be_visible()
    for name in expected:
        job.get_by_role("radio", name=name).first.click()
        expect(job.locator(".rows tbody tr").first).to_be_visible()


def measure(folder: Path, batch: int, commit_ms: int) -> None:
    line = BatchMetrics(
        batch, 0.0, -1, -1, commit_ms, {"addBatch": commit_ms}, 10, "a", {"tolls": 9, "accounts": commit_ms}
    )
    append_lines(folder / metrics.FILE, [asdict(line)])


def test_the_verdict_comes_first_and_figures_are_defined(workspace: Path, tmp_path: Path) -> None:
    """A job that falls behind, one that has failed, one that has finished late: only the first two are alarming."""
    shutil.copytree(workspace / "tolled", tmp_path / "late")
    journal = tmp_path / "late" / "batches.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for number, line in enumerate(lines):
        line["committed_ms"] = round(time.time() * 1000) - 1000 * (len(lines) - number)
        for answer in line["detail"]["answers"]:
            answer[3] = 42_000
        measure(tmp_path / "late", number, 900)
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    shutil.copytree(tmp_path / "late", tmp_path / "done")
    Status(tmp_path / "late", "kafka:broker:9092/cars", pace=1.0).enter("running")
    Status(tmp_path / "done", "kafka:broker:9092/cars", pace=1.0).enter("stopped", "finished")
    committed = begun(tmp_path / "broken")
    commit(committed, tmp_path / "broken", 0, [(1, 50.0)])
    with (
        pytest.raises(BadInput),
        record_start(tmp_path / "broken", "cars.csv"),
        report_status(tmp_path / "broken", "cars.csv"),
    ):
        raise BadInput("cars.csv, line 3: no number.", hint="Correct the line.", code="malformed-value")
    with served(tmp_path) as address, chromium() as browser:
        watched = Watched.open(browser, address)
        page = watched.page
        listed = page.get_by_role("navigation", name="Jobs")
        expect(listed.get_by_role("button").first).to_contain_text("Falling behind: 42 s, bottleneck: accounts")
        job = page.get_by_role("region", name="Job late")
        expect(job.get_by_role("status", name="Verdict")).to_contain_text("Falling behind: 42 s, bottleneck: accounts")
        expect(job.locator(".responses tr.alarm")).not_to_have_count(0)
        job.get_by_role("button", name="Busy").hover()
        expect(page.get_by_role("tooltip")).to_contain_text("no headroom")
        page.keyboard.press("Escape")
        listed.get_by_role("button", name="broken").click()
        job = page.get_by_role("region", name="Job broken")
        expect(job.get_by_role("status", name="Verdict")).to_have_text(
            re.compile("Failed: cars.csv, line 3: no number.")
        )
        expect(job.get_by_role("region", name="Log of the job")).to_contain_text("Correct the line.")
        listed.get_by_role("button", name="done").click()
        job = page.get_by_role("region", name="Job done")
        expect(job.get_by_role("status", name="Verdict")).to_contain_text("Finished")
        expect(figure(job, "Lag")).to_contain_text("–")
        expect(job.locator(".alarm, .bad")).to_have_count(0)
        assert page.url == f"{address}/?job=done"
        page.reload()
        expect(page.get_by_role("region", name="Job done")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("region", name="Job broken")).to_be_visible()
        assert not watched.complaints


def test_a_job_is_started_from_the_form_and_from_yaml(tmp_path: Path) -> None:
    (tmp_path / "cars.csv").write_text("time,vid\n1,2\n")
    (tmp_path / "border.yaml").write_text(CARS)
    with served(tmp_path) as address, chromium() as browser:
        watched = Watched.open(browser, address)
        page = watched.page
        expect(page.get_by_text("No jobs yet")).to_be_visible()
        page.get_by_role("button", name="New job").click()
        form = page.get_by_role("form", name="New job")
        form.get_by_role("radio", name="network").click()
        form.get_by_role("combobox", name="Network").select_option("border.yaml")
        form.get_by_label("Source feed").fill("cars.csv")
        form.get_by_label("Folder").fill("mine")
        yaml = form.get_by_role("textbox", name="The same as YAML (edit either)")
        expect(yaml).to_have_value("job: network\nout: mine\nnetwork: border.yaml\ninputs:\n  feed: cars.csv\n")
        yaml.fill("job: network\nout: wrong\nnetwork: border.yaml\ninputs: {nobody: cars.csv}\nparallel: two\n")
        form.get_by_role("button", name="Start").click()
        expect(page.get_by_role("alert")).to_contain_text("parallel")
        yaml.fill("job: network\nout: wrong\nnetwork: border.yaml\ninputs: {nobody: cars.csv}\n")
        form.get_by_role("button", name="Start").click()
        expect(page.get_by_role("region", name="Job wrong").get_by_role("status", name="Verdict")).to_contain_text(
            "Failed"
        )
        expect(page.get_by_role("region", name="Log of the job")).to_contain_text("nobody")
        assert page.url == f"{address}/?job=wrong"
        page.get_by_role("button", name="New job").click()
        yaml.fill("job: toll\nout: mine\ninputs: {}\n")
        form.get_by_role("button", name="Start").click()
        expect(page.get_by_role("alert")).to_contain_text("reads one input, not 0")
        complaints = [one for one in watched.complaints if "409" not in one and "400" not in one]
        assert not complaints


@pytest.mark.long
def test_each_kind_opens_on_its_own_page_too(jobs: Path, tmp_path: Path) -> None:
    with served(jobs) as address, chromium() as browser:
        watched = Watched.open(browser, f"{address}/city")
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
