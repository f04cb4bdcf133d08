"""Jobs are started and resumed from the page, and nothing else is."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from console.conftest import HERE, OURS
from slipstream._console.errors import Conflict
from slipstream._console.guard import AccessRules
from slipstream._console.jobs.commands import check_command
from slipstream._console.jobs.specification import JobSpecification, make_command, read_specification
from slipstream._console.server import create
from slipstream._console.workspace import Workspace
from slipstream._errors import BadInput, SlipstreamError
from slipstream._runtime.job import JobFile
from slipstream._runtime.watching import starts
from slipstream._runtime.watching.status import Status
from slipstream._tools.logs import append_lines

BORDER = Path(__file__).parents[2] / "examples" / "networks" / "border.yaml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with a network, a feed, a folder of files, and a job that was stopped; beside it a secret."""
    inside = tmp_path / "workspace"
    (inside / "arriving").mkdir(parents=True)
    shutil.copy(BORDER, inside / "border.yaml")
    for name in ("cars.csv", "feed.dat", "arriving/1.csv"):
        (inside / name).write_text("time,vid\n1,2\n")
    (tmp_path / "secret.csv").write_text("classified\n")
    JobFile("toll", 1, {}).write(inside / "tolls")
    return inside


@pytest.fixture
def page(folder: Path) -> Iterator[TestClient]:
    with TestClient(create(folder, AccessRules(), "local[1]"), base_url=HERE, headers=OURS) as client:
        yield client


def workspace(folder: Path) -> Workspace:
    return Workspace.over([folder])


# --- what the page describes


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (
            {"job": "toll", "inputs": {"input": "feed.dat"}, "speed": 2.0, "archive": True, "columns": ["vid=id"]},
            "toll W/feed.dat --no-text --speed 2.0 --rules 2004 --archive --snapshot --columns vid=id --json",
        ),
        (
            {"job": "archive", "inputs": {"input": "kafka:127.0.0.1:9092/cars"}, "follow": True, "snapshot": False},
            "archive kafka:127.0.0.1:9092/cars --no-text --follow --json",
        ),
        (
            {"job": "network", "network": "border.yaml", "inputs": {"soldiers": "cars.csv"}, "rate": 5.0},
            "network run W/border.yaml --input soldiers=W/cars.csv --rate 5.0 --json",
        ),
        (
            {"job": "cuboid", "inputs": {"input": "arriving"}, "definitions": "CREATE CUBOID c (id INT KEY)"},
            "cuboid run --input W/arriving --schema CREATE CUBOID c (id INT KEY)\n --json",
        ),
    ],
)
def test_a_description_becomes_a_command(folder: Path, wanted: dict[str, Any], words: str) -> None:
    made = make_command(JobSpecification.model_validate(wanted), folder / "new", workspace(folder))
    assert " ".join(made).replace(str(folder), "W") == f"{words} --out W/new"


@pytest.mark.parametrize("where", ["../secret.csv", "/etc/passwd", "tcp:a:1 --conf", "nowhere.csv", "--conf"])
@pytest.mark.parametrize("kind", ["toll", "network", "cuboid"])
def test_inputs_outside_the_workspace_are_refused(folder: Path, kind: str, where: str) -> None:
    wanted = {"job": kind, "network": "border.yaml", "inputs": {"soldiers": where}, "definitions": "CREATE CUBOID c"}
    with pytest.raises(SlipstreamError, match="No input"):
        make_command(JobSpecification.model_validate(wanted), folder / "new", workspace(folder))


@pytest.mark.parametrize("out", ["../new", "/tmp/new", "a/b", "-x", ".hidden", "tolls", "border.yaml"])
def test_a_new_job_goes_into_a_new_folder_of_the_workspace(page: TestClient, folder: Path, out: str) -> None:
    body = {"job": "toll", "inputs": {"input": "feed.dat"}, "out": out}
    assert page.post("/api/jobs/start", json=body).status_code == 409


def test_yaml_describes_the_same(page: TestClient) -> None:
    text = "job: toll\ninputs: {input: runs/a10}\nspeed: 10\nrules: 2003\ncolumns: [vid=id]\n"
    found = page.post("/api/jobs/read", json={"text": text}).json()
    assert (found["speed"], found["rules"], found["columns"], found["follow"]) == (10, "2003", ["vid=id"], False)


def test_an_ampersand_is_no_alias() -> None:
    found = read_specification("job: cuboid\ninputs: {input: 'cars & vans.csv'}\ndefinitions: a & b\n")
    assert (found.inputs["input"], found.definitions) == ("cars & vans.csv", "a & b")


def test_the_yaml_of_the_documentation_is_a_job() -> None:
    page = (BORDER.parents[2] / "docs" / "how-to" / "console.md").read_text()
    found = read_specification(page.partition("```yaml")[2].partition("```")[0])
    assert (found.follow, found.archive, found.columns) == (True, True, ["vid=vin", "time=ts:ms"])


@pytest.mark.parametrize(
    "text",
    ["", "- toll", "job: toll", "job: dance\ninputs: {}", "job: toll\ninputs: {input: x}\nfunctions: os.py", "job: [",
     "job: toll\ninputs: {input: x}\nrules: 'os:system'", "a: &a [x]\nb: [*a, *a]",
     "!!python/object/apply:os.system [ls]",     "job: toll\ninputs: {input: x}\nspeed: .nan", "job: 2001-02-30", "?"],
)  # fmt: skip
def test_yaml_that_is_no_job_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        read_specification(text)


@given(st.text(max_size=200))
def test_any_text_is_a_job_or_an_error(text: str) -> None:
    with suppress(BadInput):
        assert read_specification(text).inputs


# --- commands that folders record

HARMLESS = [
    "toll feed.dat --out tolls --follow --lateness=2 --columns vid=id --snapshot",
    "toll --input feed.dat -o tolls",
    "toll kafka:broker:9092/cars -f -o tolls --rules 2003",
    "archive arriving --out ./tolls --format csv",
    "network run border.yaml --input soldiers=cars.csv --out tolls --rate 5",
    "network run border.yaml --out tolls",
    "toll feed.dat --out tolls --master local[2]",
]
HARMFUL = [
    "",
    "chaos --out tolls",
    "console --functions os.py",
    "network draw border.yaml --out tolls",
    "toll feed.dat",
    "toll feed.dat --out elsewhere",
    "toll feed.dat --out ../tolls",
    "toll feed.dat --out tolls --rules os:system",
    "toll feed.dat --out tolls --settings cars.csv",
    "toll feed.dat --out tolls --conf spark.driver.extraJavaOptions=-agentpath:x",
    "toll feed.dat --out tolls --master spark://elsewhere:7077",
    "toll feed.dat --out tolls --config cars.csv",
    "toll feed.dat --out tolls --log-file cars.csv",
    "toll feed.dat --out tolls --to kafka:elsewhere:9092/x",
    "toll feed.dat --out tolls --queries cars.csv",
    "toll feed.dat --out tolls --format --conf",
    "toll ../secret.csv --out tolls",
    "toll /etc/passwd --out tolls",
    "toll nowhere.dat --out tolls",
    "toll kafka:broker:9092/cars --kafka-config ... --out tolls",
    "network run border.yaml --input soldiers=../secret.csv --out tolls",
    "network run border.yaml --functions cars.csv --out tolls",
    "network run /elsewhere/border.yaml --out tolls",
    "cuboid run --input arriving --schema ../secret.csv --out tolls",
    "cuboid run --input arriving --schema=/etc/passwd --out tolls",
]


def started(folder: Path, command: str) -> None:
    start = {"at": 1.0, "pid": 1, "version": "0.1.0", "command": command.split(), "folder": str(folder)}
    append_lines(folder / "tolls" / starts.FILE, [start])
    Status(folder / "tolls", "feed").enter("stopped", "asked to stop")


@pytest.mark.parametrize("command", HARMLESS)
def test_a_harmless_command_is_run_again(page: TestClient, folder: Path, command: str) -> None:
    words = check_command(command.split(), folder, folder / "tolls", workspace(folder))
    assert str(folder / "tolls") in words
    started(folder, command)
    assert page.get("/api/jobs/job", params={"job": "tolls"}).json()["resumable"] == ""


@pytest.mark.parametrize("command", HARMFUL)
def test_any_other_command_is_not(page: TestClient, folder: Path, command: str) -> None:
    with pytest.raises(Conflict):
        check_command(command.split(), folder, folder / "tolls", workspace(folder))
    started(folder, command)
    assert page.get("/api/jobs/job", params={"job": "tolls"}).json()["resumable"] != ""
    answer = page.post("/api/jobs/resume", json={"job": "tolls"})
    assert answer.status_code == 409
    assert "classified" not in answer.text


def test_a_link_does_not_lead_a_command_out(folder: Path) -> None:
    (folder / "linked.csv").symlink_to(folder.parent / "secret.csv")
    with pytest.raises(Conflict):
        check_command(["toll", "linked.csv", "--out", "tolls"], folder, folder / "tolls", workspace(folder))


def test_resuming_never_begins_afresh(folder: Path) -> None:
    words = check_command(
        ["toll", "feed.dat", "--overwrite", "--out", "tolls"], folder, folder / "tolls", workspace(folder)
    )
    assert "--overwrite" not in words


def test_what_the_console_has_started_on_a_cluster_is_resumed_there_and_nowhere_else(folder: Path) -> None:
    words, master = ["toll", "feed.dat", "--out", "tolls", "--master", "spark://ours:7077"], "spark://ours:7077"
    assert "--master" not in check_command(words, folder, folder / "tolls", workspace(folder), master)
    with pytest.raises(Conflict):
        check_command(words, folder, folder / "tolls", workspace(folder), "spark://other:7077")


def test_a_job_that_runs_is_not_resumed(page: TestClient, folder: Path) -> None:
    started(folder, HARMLESS[0])
    Status(folder / "tolls", "feed").enter("running")
    assert page.post("/api/jobs/resume", json={"job": "tolls"}).status_code == 409


# --- processes


def state(page: TestClient, name: str) -> dict[str, Any]:
    found = page.get("/api/jobs/job", params={"job": name}).json()
    return dict(found)


def wait_for(page: TestClient, name: str, wanted: str, seconds: float = 300) -> dict[str, Any]:
    deadline = time.monotonic() + seconds
    while (found := state(page, name))["state"] != wanted:
        assert time.monotonic() < deadline, found
        assert found["state"] in ("starting", "ready", "running", wanted), found
        time.sleep(0.3)
    return found


def test_a_job_that_cannot_start_says_why(page: TestClient) -> None:
    body = {"job": "network", "out": "wrong", "network": "border.yaml", "inputs": {"nobody": "cars.csv"}}
    answer = page.post("/api/jobs/start", json=body)
    assert answer.json()["name"] == "wrong"
    assert answer.json()["command"].startswith("slipstream network run border.yaml --input nobody=cars.csv")
    assert [one["state"] for one in page.get("/api/jobs").json() if one["name"] == "wrong"] == ["starting"]
    found = wait_for(page, "wrong", "failed", 120)
    assert "nobody" in found["why"]
    assert "nobody" in page.get("/api/jobs/log", params={"job": "wrong"}).json()["text"]
    assert found["verdict"]["level"] == "bad"


@pytest.mark.long
def test_a_job_is_started_stopped_and_resumed(workspace: Path, tmp_path: Path) -> None:
    shutil.copytree(workspace / "city", tmp_path / "city")
    with TestClient(create(tmp_path, AccessRules(), "local[2]"), base_url=HERE, headers=OURS) as page:
        body = {"job": "toll", "out": "tolls", "inputs": {"input": "city"}, "speed": 4.0}
        assert page.post("/api/jobs/start", json=body).status_code == 200
        found = wait_for(page, "tolls", "running")
        assert (found["pace"], found["kind"]) == (4.0, "toll")
        assert page.post("/api/jobs/want", json={"job": "tolls", "want": "stop"}).status_code == 200
        stopped = wait_for(page, "tolls", "stopped")
        assert stopped["resumable"] == ""
        assert page.post("/api/jobs/resume", json={"job": "tolls"}).status_code == 200
        found = wait_for(page, "tolls", "finished")
        assert (len(found["starts"]), found["verdict"]["text"]) == (2, "Finished")
        assert found["tuples"] == sum(
            json.loads(line)["tuples"] for line in (tmp_path / "tolls" / "batches.jsonl").open()
        )
        assert "Ended: finished." in page.get("/api/jobs/log", params={"job": "tolls"}).json()["text"]
