"""The API of the network editor: drafts are checked as a whole, saved as network files, and run."""

from __future__ import annotations

import copy
import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from fastapi.testclient import TestClient

from console.every_box import EVERY_BOX, TWO_KEYS
from slipstream._cli.common.user_functions import load_functions
from slipstream._console.guard import AccessRules
from slipstream._console.server import create
from slipstream._network import yaml_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = "http://127.0.0.1:8321"
EXAMPLES = Path(__file__).parents[2] / "examples" / "networks"
load_functions(EXAMPLES / "braking.py")  # as the command line does


@pytest.fixture(scope="module")
def desk(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("desk")
    shutil.copytree(EXAMPLES, folder / "networks")
    return folder


@pytest.fixture(scope="module")
def editor(desk: Path) -> Iterator[TestClient]:
    app = create(desk, AccessRules(), "local[2]")
    with TestClient(app, base_url=HERE, headers={"x-slipstream": "1"}) as client:
        yield client


@pytest.fixture(scope="module")
def border(editor: TestClient) -> dict[str, Any]:
    return editor.get("/api/network/file", params={"file": "networks/border.yaml"}).json()["document"]  # type: ignore[no-any-return]


def check(editor: TestClient, document: dict[str, Any]) -> dict[str, Any]:
    answer = editor.post("/api/network/check", json={"document": document})
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def places(verdict: dict[str, Any]) -> list[str]:
    return [complaint["place"] for complaint in verdict["complaints"]]


def test_the_editor_lists_networks_and_recordings_by_name(editor: TestClient) -> None:
    contents = editor.get("/api/network/workspace").json()
    assert "networks/border.yaml" in contents["networks"]
    assert "networks/soldiers.csv" in contents["recordings"]


def test_the_columns_of_a_recording_are_read_from_it(editor: TestClient) -> None:
    found = editor.get("/api/network/columns", params={"recording": "networks/soldiers.csv"}).json()
    assert found["columns"] == {"sid": "bigint", "time": "bigint", "pos": "bigint"}


def test_what_is_opened_and_saved_says_the_same_to_the_command_line(
    editor: TestClient, desk: Path, border: dict[str, Any]
) -> None:
    assert border["boxes"]["crowd"]["order"] == {"on": "time", "slack": 1}
    saved = editor.put("/api/network/file", json={"file": "mine.yaml", "document": border})
    assert saved.status_code == 200
    assert yaml_files.load(desk / "mine.yaml") == yaml_files.load(EXAMPLES / "border.yaml")
    again = editor.put("/api/network/file", json={"file": "mine.yaml", "document": border})
    assert (again.status_code, again.json()["message"]) == (409, "mine.yaml already exists.")
    assert editor.put("/api/network/file", json={"file": "mine.yaml", "document": border, "replace": True}).is_success


def opened(editor: TestClient, desk: Path, text: str) -> dict[str, Any]:
    """A network file as the page gets it."""
    (desk / "opened.yaml").write_text(text)
    answer = editor.get("/api/network/file", params={"file": "opened.yaml"})
    assert answer.status_code == 200, answer.text
    return answer.json()["document"]  # type: ignore[no-any-return]


def saved(editor: TestClient, desk: Path, document: dict[str, Any]) -> str:
    """The text of the file that the page saves."""
    answer = editor.put("/api/network/file", json={"file": "saved.yaml", "document": document, "replace": True})
    assert answer.status_code == 200, answer.text
    assert answer.json()["document"] == document
    return (desk / "saved.yaml").read_text()


def test_a_box_of_every_kind_is_opened_checked_and_saved_as_it_was(editor: TestClient, desk: Path) -> None:
    document = opened(editor, desk, EVERY_BOX)
    assert yaml_files.loads(saved(editor, desk, document)) == yaml_files.loads(EVERY_BOX)
    assert set(document["outputs"]) == set(yaml.safe_load(EVERY_BOX)["outputs"])
    assert document["outputs"]["trips"]["archive"]["gap"] == 60
    verdict = check(editor, document)
    assert verdict["complaints"] == []
    arcs = {"cars.rejects", "tolls", "tolls.alerts", "change", "change.faster", "seen"}
    assert arcs <= set(verdict["schemas"])
    assert verdict["schemas"]["change.faster"]["before"] == "bigint"


def test_every_example_is_opened_and_saved_as_it_was(editor: TestClient, desk: Path) -> None:
    for file in EXAMPLES.glob("*.yaml"):
        assert yaml_files.loads(saved(editor, desk, opened(editor, desk, file.read_text()))) == yaml_files.load(file)


def test_an_operator_that_is_not_loaded_is_drawn_and_saved_but_does_not_run(editor: TestClient, desk: Path) -> None:
    text = EVERY_BOX.replace("operator: braking", "operator: skidding")
    document = opened(editor, desk, text)
    assert yaml_files.loads(saved(editor, desk, document), unloaded=True) == yaml_files.loads(text, unloaded=True)
    verdict = check(editor, document)
    assert places(verdict) == ["boxes.change"]
    assert "no operator 'skidding'" in verdict["complaints"][0]["message"].lower()
    assert verdict["schemas"]["tolls.alerts"]
    assert not {"change", "change.faster"} & set(verdict["schemas"])


def test_the_boxes_that_are_classes_are_described(editor: TestClient) -> None:
    found = {(one["kind"], one["name"]): one for one in editor.get("/api/network/workspace").json()["operators"]}
    assert found["keep", ""]["ports"] == ["kept", "rejects"]
    assert found["lookup", ""]["takes"] == 2
    assert "balances" in found["toll", ""]["ports"]
    braking = found["operator", "braking"]
    assert braking["ports"] == ["slower", "faster"]
    assert braking["parameters"] == [{"name": "by", "type": "int", "default": 20, "is_required": False}]


def test_the_ranges_of_a_cuboid_are_kept(editor: TestClient, desk: Path) -> None:
    text = EVERY_BOX.replace("AST(4))', from", "AST(4))', ranges: [10, 20], from")
    document = opened(editor, desk, text)
    assert document["boxes"]["cars"]["ranges"] == [10, 20]
    assert yaml_files.loads(saved(editor, desk, document)) == yaml_files.loads(text)


def test_boxes_with_another_key_are_in_a_later_stage(editor: TestClient, desk: Path) -> None:
    document = opened(editor, desk, TWO_KEYS)
    alone = check(editor, document)["stages"]
    assert [(stage["stage"], stage["partitions"]) for stage in alone] == [(1, 1)]
    answer = editor.post("/api/network/check", json={"document": document, "parallel": 2}).json()
    stages = {stage["stage"]: stage for stage in answer["stages"]}
    assert "by_car" in stages[1]["boxes"]
    assert "by_segment" in stages[2]["boxes"]
    assert stages[2]["summary"] == "stage 2: 2 partitions by seg"


@pytest.mark.parametrize(
    ("box", "message"),
    [
        ({"latest": ["sid"], "from": ["soldiers", ""]}, "The right input is not connected."),
        ({"lookup": {"m": "avg(pos)"}, "key": "sid", "from": ["", "soldiers"]}, "The cuboid is not connected."),
        ({"operator": "braking", "from": ""}, "The input is not connected."),
        ({"operator": "", "from": "soldiers"}, "No operator selected."),
        ({"aggregate": {"n": "count(*)"}, "order": {"on": "time"}, "size": 1, "clock": "", "from": "soldiers"},
         "The clock is not connected."),
    ],
)  # fmt: skip
def test_what_is_still_open_in_a_new_box_is_told(
    editor: TestClient, border: dict[str, Any], box: dict[str, Any], message: str
) -> None:
    verdict = check(editor, {**border, "boxes": {**border["boxes"], "new": box}})
    assert [(one["place"], one["message"]) for one in verdict["complaints"]] == [("boxes.new", message)]


def test_a_mistake_in_an_archive_is_told_at_its_output(editor: TestClient, desk: Path) -> None:
    document = opened(editor, desk, EVERY_BOX.replace("x: seg", "x: segment"))
    verdict = check(editor, document)
    assert places(verdict) == ["outputs.trips"]
    assert "segment" in verdict["complaints"][0]["message"]


def test_what_hangs_on_the_clock_of_a_box_waits_for_it(editor: TestClient, desk: Path) -> None:
    document = opened(editor, desk, EVERY_BOX)
    document["boxes"]["beat"] = {"map": {"time": "tim"}, "from": "feed"}
    document["boxes"]["minutes"]["clock"] = "beat"
    assert places(check(editor, document)) == ["boxes.beat"]


@pytest.mark.parametrize(
    ("name", "code"),
    [(name, 422) for name in ("../out.yaml", "/tmp/out.yaml", "a.py", ".hidden.yaml", "networks", "a\x00.yaml")]
    + [("nowhere/a.yaml", 404)],
)
def test_nothing_is_saved_or_opened_elsewhere(editor: TestClient, border: dict[str, Any], name: str, code: int) -> None:
    assert editor.put("/api/network/file", json={"file": name, "document": border}).status_code == code
    assert editor.get("/api/network/file", params={"file": name}).status_code == 404


def test_a_link_out_of_the_workspace_is_not_followed(editor: TestClient, desk: Path, border: dict[str, Any]) -> None:
    (desk / "link.yaml").symlink_to(desk.parent / "elsewhere.yaml")
    assert editor.put("/api/network/file", json={"file": "link.yaml", "document": border}).status_code == 409
    assert not (desk.parent / "elsewhere.yaml").exists()
    (desk / "link.yaml").unlink()


def test_a_right_network_has_a_schema_on_every_arc(editor: TestClient, border: dict[str, Any]) -> None:
    verdict = check(editor, border)
    assert verdict["complaints"] == []
    assert verdict["schemas"]["enough"] == {"time": "bigint", "n": "bigint"}
    assert verdict["schemas"]["over.1"] == {"sid": "bigint", "time": "bigint", "pos": "bigint"}


def test_every_mistake_is_told_at_its_box_and_column(editor: TestClient, border: dict[str, Any]) -> None:
    wrong = copy.deepcopy(border)
    wrong["boxes"]["over"]["filter"] = ["poss >= 30"]
    wrong["boxes"]["lone"] = {"filter": ["x > "], "from": []}
    wrong["boxes"]["sorted"] = {"bsort": True, "order": {"on": "tim"}, "from": "soldiers"}
    wrong["boxes"]["broken"] = {"filter": ["pos >"], "from": "soldiers"}
    verdict = check(editor, wrong)
    found = {complaint["place"]: complaint for complaint in verdict["complaints"]}
    assert set(found) == {"boxes.over", "boxes.lone", "boxes.sorted", "boxes.broken"}
    assert found["boxes.over"]["column"] == "poss"
    assert "Did you mean 'pos'?" in found["boxes.over"]["hint"]
    assert found["boxes.lone"]["message"] == "The input is not connected."
    assert found["boxes.sorted"]["column"] == "tim"
    assert list(verdict["schemas"]) == ["soldiers"]


def test_an_unfinished_sketch_already_has_schemas(editor: TestClient, border: dict[str, Any]) -> None:
    verdict = check(editor, {**border, "outputs": {}, "points": {}})
    assert places(verdict) == [""]
    assert "enough" in verdict["schemas"]
    joined = {"join": "left.sid = right.sid", "size": 1, "left": {"on": "time"}, "right": {"on": "time"}}
    half = {**border, "boxes": {**border["boxes"], "pair": {**joined, "from": ["soldiers", ""]}}}
    assert check(editor, half)["complaints"][0]["message"] == "The right input is not connected."


@pytest.mark.parametrize(
    "document", [{}, {"network": 1}, {"boxes": []}, {"network": "n", "version": 1, "sources": {"s": 1}, "boxes": {}}]
)
def test_anything_else_is_refused_in_words(editor: TestClient, document: dict[str, Any]) -> None:
    assert check(editor, document)["complaints"]


def test_expressions_are_parsed_and_never_executed(editor: TestClient, border: dict[str, Any], tmp_path: Path) -> None:
    for text in (f"__import__('os').mkdir('{tmp_path}/x')", "select 1", "drop table soldiers", "1; delete from t"):
        wrong = copy.deepcopy(border)
        wrong["boxes"]["over"]["filter"] = [text]
        assert places(check(editor, wrong)) == ["boxes.over"]
    assert not (tmp_path / "x").exists()


def until(editor: TestClient, *wanted: str, batches: int = 0) -> dict[str, Any]:
    for _ in range(3000):
        state = editor.get("/api/network/run").json()
        if state["status"] in wanted and state["batches"] >= batches:
            return state  # type: ignore[no-any-return]
        assert state["status"] != "failed", state
        time.sleep(0.1)
    raise AssertionError(state)


def rows(editor: TestClient, kind: str, name: str) -> list[list[Any]]:
    answer = editor.get("/api/network/run/tuples", params={"kind": kind, "name": name})
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]  # type: ignore[no-any-return]


@pytest.mark.long
def test_query_1_of_the_paper_runs_step_by_step_and_its_arcs_can_be_looked_at(
    editor: TestClient, desk: Path, border: dict[str, Any]
) -> None:
    body = {"document": border, "inputs": {"soldiers": "networks/soldiers.csv"}, "train": 8, "steps": 1}
    assert editor.post("/api/network/run/start", json=body).json()["status"] in ("starting", "running")
    assert editor.post("/api/network/run/start", json=body).status_code == 409
    state = until(editor, "paused", batches=1)
    assert state["queues"] == {"soldiers": 9}
    assert len(rows(editor, "arc", "soldiers")) == 8
    editor.post("/api/network/run/resume")
    state = until(editor, "finished")
    # figure 13: ten soldiers are across the border, three windows, two of them with three soldiers or more
    assert state["arcs"]["over"]["tuples"] >= 10
    assert rows(editor, "arc", "crowd") == [[1, 2], [2, 5], [3, 3]]
    assert rows(editor, "end", "alerts") == [[2, 5], [3, 3]]
    assert state["outputs"]["alerts"]["utility"] is not None
    assert yaml_files.load(desk / state["folder"] / "network.yaml") == yaml_files.load(EXAMPLES / "border.yaml")


def test_a_run_can_be_shed_and_stopped(editor: TestClient, border: dict[str, Any]) -> None:
    inputs = {"soldiers": "networks/soldiers.csv"}
    body = {"document": border, "inputs": inputs, "rate": 0.5, "train": 1}
    assert editor.post("/api/network/run/start", json=body).is_success
    until(editor, "running")
    place = editor.get("/api/network/run").json()["drops"][0]["place"]
    state = editor.put("/api/network/run/shed", json={"shares": {place: 0.5}}).json()
    assert next(drop["share"] for drop in state["drops"] if drop["place"] == place) == 0.5
    assert editor.put("/api/network/run/shed", json={"shares": {"nowhere": 0.5}}).status_code == 400
    assert editor.post("/api/network/run/stop").is_success
    until(editor, "stopped")
    assert editor.post("/api/network/run/pause").status_code == 409


def test_a_run_needs_a_recording_for_every_source(editor: TestClient, border: dict[str, Any]) -> None:
    answer = editor.post("/api/network/run/start", json={"document": border, "inputs": {}})
    assert (answer.status_code, answer.json()["message"]) == (400, "No input for the source soldiers.")
    answer = editor.post("/api/network/run/start", json={"document": {**border, "outputs": {}}, "inputs": {}})
    assert "not finished" in answer.json()["message"]


def test_a_folder_that_fills_is_followed_and_its_boxes_are_weighed(
    editor: TestClient, desk: Path, border: dict[str, Any]
) -> None:
    arriving = desk / "arriving"
    arriving.mkdir()
    lines = (EXAMPLES / "soldiers.csv").read_text().splitlines()[1:]
    tuples = [dict(zip(("number", "time", "pos"), map(int, line.split(",")), strict=True)) for line in lines]
    feed = "".join(json.dumps(one) + "\n" for one in tuples)
    (arriving / "first.jsonl").write_text(feed)
    assert "arriving" in editor.get("/api/network/workspace").json()["folders"]
    preview = editor.post("/api/network/preview", json={"source": "arriving", "last": 2}).json()
    assert (preview["types"]["number"], preview["rows"]) == ("bigint", [[1, 1, 34], [1, 2, 38]])
    body = {"document": border, "inputs": {"soldiers": "arriving"}}
    refused = editor.post("/api/network/run/start", json={**body, "columns": ["nothing=number"]})
    assert (refused.status_code, "no source has a column" in refused.json()["message"]) == (409, True)
    started = editor.post("/api/network/run/start", json={**body, "columns": ["soldiers.sid=number"]})
    assert started.is_success, started.text
    state = until(editor, "running", batches=1)
    assert (state["is_live"], state["arcs"]["soldiers"]["tuples"]) == (True, 17)
    (arriving / ".second").write_text(feed)
    (arriving / ".second").rename(arriving / "second.jsonl")
    state = until(editor, "running", batches=2)
    assert state["arcs"]["soldiers"]["tuples"] == 34
    boxes = state["boxes"]
    assert set(boxes) == {"over", "crowd", "enough"}
    assert abs(sum(box["share"] for box in boxes.values()) - 1) < 1e-6
    assert boxes["crowd"]["rows"] > 0
    assert boxes["crowd"]["bytes"] >= 8 * boxes["crowd"]["rows"]
    assert boxes["over"]["rows"] == 0
    history = editor.get("/api/network/run/history", params={"box": "crowd"}).json()
    assert history["rows"][-1] == boxes["crowd"]["rows"]
    assert len({len(column) for column in history.values()}) == 1
    assert editor.post("/api/network/run/stop").is_success
    until(editor, "stopped")


def test_a_network_is_written_as_yaml_and_read_back(editor: TestClient, border: dict[str, Any]) -> None:
    text = editor.post("/api/network/write", json={"document": border}).json()["text"]
    assert yaml_files.loads(text) == yaml_files.load(EXAMPLES / "border.yaml")
    assert editor.post("/api/network/read", json={"text": text}).json()["document"] == border


def test_an_ampersand_in_a_note_is_no_alias(editor: TestClient, border: dict[str, Any]) -> None:
    text = editor.post("/api/network/write", json={"document": border | {"note": "tolls & fines"}}).json()["text"]
    assert editor.post("/api/network/read", json={"text": text}).json()["document"]["note"] == "tolls & fines"


@pytest.mark.parametrize(
    "text", ["", "network: [", "network: n\nversion: 1\nsources: &a {}\ntables: *a", "x" * 5000, "[" * 5000, "- 1"]
)
def test_text_that_is_no_network_is_refused(editor: TestClient, text: str) -> None:
    answer = editor.post("/api/network/read", json={"text": text})
    assert answer.status_code == 409
    assert answer.json()["message"]


@pytest.mark.parametrize("document", [{"": 1.5}, {"boxes": 1.5}, {"": {"": []}, "\u0084": 1}])
def test_a_document_that_is_no_network_is_a_complaint(editor: TestClient, document: dict[str, Any]) -> None:
    assert check(editor, document)["complaints"]
