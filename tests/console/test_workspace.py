"""The console finds what is in its folders, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from console.conftest import HERE, OURS
from slipstream._cli import app
from slipstream._cli.console_command import _open_workspace
from slipstream._console import workspace
from slipstream._console.errors import Conflict, NotFound
from slipstream._console.guard import AccessRules
from slipstream._console.networks import network_files
from slipstream._console.server import create
from slipstream._console.trips.journeys import data_sets
from slipstream._console.workspace import Workspace
from slipstream._errors import BadInput
from slipstream._feeds.run import Run

EXAMPLES = Path(__file__).parents[2] / "examples" / "networks"


@pytest.fixture
def home(workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as README's commands leave it: ``runs/city`` tolled into ``tolled``, an archive, the examples."""
    shutil.copytree(workspace / "city", tmp_path / "runs" / "city")
    shutil.copytree(workspace / "tolled", tmp_path / "tolled")
    shutil.copytree(EXAMPLES, tmp_path / "examples" / "networks")
    (tmp_path / "history" / "trips").mkdir(parents=True)
    pq.write_table(pa.table({"vid": [1]}), tmp_path / "history" / "trips" / "part-0.parquet")
    (tmp_path / "mkdocs.yml").write_text("site_name: no network\nnav:\n  - Network of boxes: networks.md\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_the_readme_makes_is_shown_without_naming_a_folder(home: Path) -> None:
    with TestClient(create(_open_workspace([]), AccessRules(), "local[2]"), base_url=HERE, headers=OURS) as page:
        choices = page.get("/api/city/choices").json()
        assert [run["name"] for run in choices["runs"]] == ["runs/city"]
        assert choices["results"] == ["tolled"]
        opened = page.post("/api/city/open", json={"result": "tolled"}).json()
        assert (opened["status"], opened["run"]) == ("finished", "runs/city")
        assert page.get("/api/trajectories").json()["data_sets"] == ["history"]
        contents = page.get("/api/network/workspace").json()
    assert "examples/networks/border.yaml" in contents["networks"]
    assert "mkdocs.yml" not in contents["networks"]
    assert set(contents["recordings"]) >= {"runs/city", "examples/networks/soldiers.csv"}
    assert not any("part-" in name for name in contents["recordings"])


def test_folders_of_choice_are_shown_and_nothing_beside_them(home: Path) -> None:
    chosen = Workspace.over([home / "runs", home / "tolled"])
    assert (set(chosen.runs()), set(chosen.results())) == ({"runs/city"}, {"tolled"})
    assert data_sets(chosen) == {}
    assert network_files.networks(chosen) == {}
    for name in ("history", "../tolled", ".", "mkdocs.yml", "examples/networks/border.yaml"):
        with pytest.raises(NotFound):
            chosen.result(name)
        with pytest.raises(NotFound):
            network_files.network(chosen, name)
    for name in ("mine.yaml", "examples/networks/mine.yaml", "tolled/mine.yaml"):
        with pytest.raises(NotFound, match="not a valid file name"):
            network_files.new_network(chosen, name)
    assert network_files.new_network(chosen, "runs/mine.yaml") == home / "runs" / "mine.yaml"


def test_a_result_itself_is_a_workspace_without_room_for_another(home: Path) -> None:
    alone = Workspace.over([home / "tolled"])
    assert alone.results() == {"tolled": home / "tolled"}
    assert alone.run_of(home / "tolled") is None
    with pytest.raises(Conflict):
        alone.new("more")


def test_new_results_go_into_runs_or_the_first_folder(home: Path) -> None:
    assert _open_workspace([]).new("city-tolls") == ("runs/city-tolls-1", home / "runs" / "city-tolls-1")
    assert Workspace.over([home / "examples"]).new("x") == ("x-1", home / "examples" / "x-1")
    shutil.rmtree(home / "runs")
    assert _open_workspace([]).new("city-tolls")[1].parent.is_dir()


def test_runs_may_be_a_link_but_links_in_folders_lead_nowhere(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    disk = tmp_path_factory.mktemp("disk")
    shutil.move(home / "runs", disk / "large")
    (home / "runs").symlink_to(disk / "large")
    (home / "elsewhere").symlink_to(disk)
    assert list(_open_workspace([]).runs().values()) == [disk / "large" / "city"]
    (home / "runs").unlink()
    assert _open_workspace([]).runs() == {}


def test_of_two_runs_of_a_name_the_nearest_is_meant_or_neither(home: Path) -> None:
    """A result keeps only the last part of its run's path."""
    (home / "old").mkdir()
    other = json.loads((home / "runs" / "city" / "manifest.json").read_text())
    shutil.copytree(home / "runs" / "city", home / "old" / "city")
    everything = _open_workspace([])
    assert everything.run_of(home / "tolled") is not None, "a copy is the same run"
    (home / "old" / "city" / "manifest.json").write_text(json.dumps(other | {"seed": 99}))
    with pytest.raises(BadInput, match="old/city, runs/city"):
        everything.run_of(home / "tolled")
    shutil.move(home / "tolled", home / "old" / "tolled")
    found = everything.run_of(home / "old" / "tolled")
    assert isinstance(found, Run)
    assert found.path == home / "old" / "city"


def test_a_great_many_folders_are_not_all_looked_through(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _open_workspace([]).is_truncated
    monkeypatch.setattr(workspace, "MOST", 3)
    assert _open_workspace([]).is_truncated
    assert len(list(_open_workspace([]).folders())) == 3


def test_folders_that_are_missing_are_all_named(home: Path) -> None:
    told = CliRunner().invoke(app, ["console", "none", "tolled", "nowhere", "--no-browser"])
    assert "none, nowhere: no such folder" in str(told.exception)
