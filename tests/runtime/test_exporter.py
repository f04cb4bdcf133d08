"""A job exports its metrics itself: over HTTP, or as a file; and dashboards and alerts use names that exist."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from console.made_jobs import begun, commit
from slipstream._errors import BadArgument, Unavailable
from slipstream._runtime.watching import exporter, metrics
from slipstream._runtime.watching.exporter import Observed, Where, collect, encode, export_to, exporting
from slipstream._runtime.watching.following import FollowedJob
from slipstream._runtime.watching.metrics import BatchMetrics
from slipstream._runtime.watching.starts import read_starts, record_start
from slipstream._runtime.watching.status import READY, RUNNING, Status
from slipstream._tools.logs import append_lines

MONITORING = Path(__file__).parents[2] / "examples" / "monitoring"


@pytest.fixture(autouse=True)
def _nowhere() -> Iterator[None]:
    yield
    export_to(None)


def followed(folder: Path) -> FollowedJob:
    """A job of two batches that takes 7 s for its results, and may take 5."""
    committed = begun(folder)
    for batch in range(2):
        commit(committed, folder, batch, [(1, 50.0), (2, 60.0)])
        line = BatchMetrics(batch, 0.0, -1, -1, 250, {"addBatch": 200}, 4096, "a", {"tolls": 150, "accounts": 20})
        append_lines(folder / metrics.FILE, [asdict(line)])
    with record_start(folder, "cars.csv"):
        pass
    return FollowedJob(folder, lambda _batch, _pace: {"toll": 7.0}, {"toll": 5.0})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def samples(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(text)
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def value(text: str, name: str, **labels: str) -> float:
    wanted = frozenset({"job_name": "tolls", "kind": "toll", **labels}.items())
    return samples(text)[f"slipstream_job_{name}", wanted]


@contextmanager
def exported(folder: Path, where: str) -> Iterator[Status]:
    export_to(Where.parse(where))
    job, current = followed(folder / "tolls"), Status(folder / "tolls", "cars.csv", pace=1.0)
    current.enter(READY)
    with exporting(folder / "tolls", "toll", job, current, 1.0):
        yield current


def get(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def check(text: str) -> None:
    """What the two batches of ``followed`` amount to."""
    assert value(text, "batches_total") == 2
    assert (value(text, "tuples_total"), value(text, "rejects_total")) == (4, 2)
    assert value(text, "rows_total", output="fast") == 4
    assert (value(text, "lag_seconds"), value(text, "behind")) == (7, 1)
    assert value(text, "response_seconds", result="toll") == value(text, "longest_response_seconds", result="toll") == 7
    assert value(text, "response_limit_seconds", result="toll") == 5
    assert value(text, "stage_seconds", stage="tolls") == 0.15
    assert (value(text, "commit_seconds"), value(text, "state_bytes"), value(text, "starts_total")) == (0.25, 4096, 1)
    assert abs(value(text, "last_commit_timestamp_seconds") - time.time()) < 600


def test_a_job_serves_its_metrics_and_its_health(tmp_path: Path) -> None:
    port = free_port()
    with exported(tmp_path, str(port)) as current:
        code, text = get(f"http://127.0.0.1:{port}/metrics")
        assert code == 200
        check(text)
        assert value(text, "state", state="ready") == 1
        current.enter(RUNNING)
        assert value(get(f"http://127.0.0.1:{port}/metrics")[1], "state", state="running") == 1
        assert get(f"http://127.0.0.1:{port}/healthz") == (200, "ok\n")
        assert get(f"http://127.0.0.1:{port}/readyz") == (200, "running\n")
        current.state = "starting"
        assert get(f"http://127.0.0.1:{port}/readyz") == (503, "starting\n")
        assert get(f"http://127.0.0.1:{port}/../etc/passwd")[0] == 404
        assert get(f"http://127.0.0.1:{port}/metrics", Host="evil.example")[0] == 421
        with pytest.raises(Unavailable, match=str(port)), exported(tmp_path / "other", str(port)):
            pass
    with pytest.raises(urllib.error.URLError):
        get(f"http://127.0.0.1:{port}/metrics")


def test_a_job_writes_its_metrics_into_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "_EVERY", 0.05)
    file = tmp_path / "metrics" / "tolls.prom"
    with exported(tmp_path, str(file)) as current:
        check(file.read_text())
        current.enter(RUNNING)
        deadline = time.monotonic() + 60
        while value(file.read_text(), "state", state="running") != 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert value(file.read_text(), "batches_total") == 2


def test_without_the_option_nothing_is_exported(tmp_path: Path) -> None:
    job = followed(tmp_path / "tolls")
    with exporting(tmp_path / "tolls", "toll", job, Status(tmp_path / "tolls", ""), 1.0):
        assert job.batches == 0


@pytest.mark.parametrize("text", ["metrics", "70000", "0.0.0.0:", "host:port", "tolls.txt", "-1", "a b:1"])
def test_what_is_neither_a_port_nor_a_file_is_refused(text: str) -> None:
    with pytest.raises(BadArgument, match="neither a port nor a file"):
        Where.parse(text)


def test_metrics_of_several_jobs_are_one_document(tmp_path: Path) -> None:
    jobs = [followed(tmp_path / name) for name in ("tolls", "trips")]
    for job in jobs:
        job.read()
    text = encode([Observed(job.folder.name, "toll", "running", 1.0, job) for job in jobs]).decode()
    assert text.count("# TYPE slipstream_job_lag_seconds gauge") == 1
    assert {dict(labels)["job_name"] for name, labels in samples(text) if name == "slipstream_job_behind"} == {
        "tolls",
        "trips",
    }


# --- dashboards and alerts


def names(tmp_path: Path) -> set[str]:
    job = followed(tmp_path / "tolls")
    job.read()
    return {
        sample.name
        for metric in collect(Observed("tolls", "toll", "running", 1.0, job, read_starts(job.folder)))
        for sample in metric.samples
    }


@pytest.mark.parametrize("file", ["alerts.yml", "grafana.json"])
def test_dashboards_and_alerts_use_metrics_that_exist(tmp_path: Path, file: str) -> None:
    used = set(re.findall(r"slipstream_\w+", (MONITORING / file).read_text()))
    assert used
    assert used <= names(tmp_path)


def test_every_metric_is_on_the_dashboard_or_alarms(tmp_path: Path) -> None:
    used = "".join((MONITORING / file).read_text() for file in ("alerts.yml", "grafana.json"))
    # the rate that a job computes itself is for those who have no Prometheus
    assert {name for name in names(tmp_path) if name not in used} <= {
        "slipstream_job_rate",
        "slipstream_job_batches_total",
    }


def test_panels_do_not_overlap() -> None:
    board = json.loads((MONITORING / "grafana.json").read_text())
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in board["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert all(panel["title"] and panel["targets"] for panel in board["panels"])


def promtool(*arguments: str | Path, given: str = "") -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool here; Debian and Ubuntu: apt-get install prometheus")
    done = subprocess.run([program, *arguments], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_prometheus_reads_the_configuration_and_the_rules() -> None:
    assert "8 rules found" in promtool("check", "config", MONITORING / "prometheus.yml")


def test_prometheus_finds_nothing_to_complain_about(tmp_path: Path) -> None:
    job = followed(tmp_path / "tolls")
    job.read()
    text = encode([Observed("tolls", "toll", "running", 1.0, job, read_starts(job.folder))]).decode()
    promtool("check", "metrics", given=text)


def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    labels = 'job_name="tolls",kind="toll"'
    series = {
        f"slipstream_job_behind{{{labels}}}": "0x4 1x60",
        f'slipstream_job_state{{{labels},state="running"}}': "1x60",
        f'slipstream_job_state{{{labels},state="failed"}}': "0x30 1x30",
        f"slipstream_job_busy_ratio{{{labels}}}": "0.95x60",
        f"slipstream_job_last_commit_timestamp_seconds{{{labels}}}": "0+60x10 600x50",
        f"slipstream_job_rejects_total{{{labels}}}": "0+60x60",
        f"slipstream_job_tuples_total{{{labels}}}": "0+600x60",
        f"slipstream_job_starts_total{{{labels}}}": "1x20 2+1x40",
        'up{job="slipstream",instance="a"}': "1x20 0x40",
    }
    first_fires = {
        "SlipstreamJobBehind": 7, "SlipstreamJobFailed": 31, "SlipstreamJobNoHeadroom": 10, "SlipstreamJobSilent": 17,
        "SlipstreamJobRejects": 6, "SlipstreamJobRestarting": 24, "SlipstreamJobUnreachable": 23,
    }  # fmt: skip
    rules = {
        rule["alert"]: rule for rule in yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"][0]["rules"]
    }
    assert {*first_fires} == {*rules} - {"SlipstreamStateGrowing"}
    tests = [{"eval_time": "1m", "alertname": name, "exp_alerts": []} for name in first_fires]
    plan = {
        "rule_files": [str(MONITORING / "alerts.yml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "alert_rule_test": tests,
                # 0 before, 1 at the minute at which it first fires
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) or vector(0)',
                        "eval_time": f"{minute + later}m",
                        "exp_samples": [{"labels": "{}", "value": int(later == 2)}],
                    }
                    for name, minute in first_fires.items()
                    for later in (-2, 2)
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(plan))
    promtool("test", "rules", tmp_path / "test.yml")


def queries() -> dict[str, str]:
    """The queries of the dashboard by panel, for all jobs."""
    board = json.loads((MONITORING / "grafana.json").read_text())
    return {
        f"{panel['title']} {target['refId']}": target["expr"].replace("$job_name", ".*")
        for panel in board["panels"]
        for target in panel["targets"]
    }


def test_the_dashboard_follows_the_schema_of_grafana() -> None:
    """What Grafana's own model does not know, it would drop; everything that is there must come back."""
    dashboards = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder")
    board = json.loads((MONITORING / "grafana.json").read_text())
    read = json.loads(encoder.JSONEncoder().encode(dashboards.Dashboard.from_json(board)))
    lost = [place for place in find_lost(board, read, "") if ".titleFormat:" not in place]  # Prometheus' own field
    assert lost == []


def find_lost(given: Any, read: Any, place: str) -> Iterator[str]:
    """The parts of a document that another one lacks or has otherwise."""
    if isinstance(given, dict) and isinstance(read, dict):
        for key, value in given.items():
            yield from find_lost(value, read.get(key), f"{place}.{key}")
    elif isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        for number, (one, other) in enumerate(zip(given, read, strict=True)):
            yield from find_lost(one, other, f"{place}[{number}]")
    elif given != read:
        yield f"{place}: {given!r} is read as {read!r}"


@pytest.mark.long
def test_a_real_prometheus_scrapes_a_job(tmp_path: Path) -> None:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("no Prometheus here; Debian and Ubuntu: apt-get install prometheus")
    port, own = free_port(), free_port()
    settings = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    settings["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    settings["scrape_configs"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{port}"]
    shutil.copy(MONITORING / "alerts.yml", tmp_path)
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(settings))
    command = [program, f"--config.file={tmp_path}/prometheus.yml", f"--storage.tsdb.path={tmp_path}/data"]
    with exported(tmp_path, str(port)):
        server = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{own}"], stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 120
            while not (found := ask(own, "slipstream_job_behind")):
                assert time.monotonic() < deadline
                time.sleep(0.5)
            assert found[0]["metric"]["job_name"] == "tolls"
            assert found[0]["value"][1] == "1"
            for panel, query in queries().items():  # a rate needs two scrapes
                deadline = time.monotonic() + 120
                while not ask(own, query):
                    assert time.monotonic() < deadline, f"{panel}: {query}"
                    time.sleep(0.5)
        finally:
            server.terminate()
            server.wait(30)


def ask(port: int, query: str) -> list[dict[str, dict[str, str]]]:
    try:
        address = f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
        with urllib.request.urlopen(address, timeout=10) as answer:
            return list(json.load(answer)["data"]["result"])
    except OSError:
        return []
