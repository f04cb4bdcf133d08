"""What is shipped beside the package: image, services around it, chart; as far as they can be tried here."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from slipstream._cli import app

ROOT = Path(__file__).parents[1]
COMPOSE = ROOT / "deploy" / "compose"
CHART = ROOT / "deploy" / "helm" / "slipstream"
MANIFESTS = ROOT / "deploy" / "kubernetes" / "job.yaml"


def services() -> dict[str, dict[str, Any]]:
    body: dict[str, dict[str, Any]] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
    return body


def test_every_file_that_a_service_mounts_exists() -> None:
    mounted = [str(volume).split(":", 1)[0] for one in services().values() for volume in one.get("volumes", ())]
    files = [place for place in mounted if place.startswith(".")]
    assert files
    assert [place for place in files if not (COMPOSE / place).exists()] == []


def test_prometheus_scrapes_the_port_that_the_engine_serves() -> None:
    (job,) = yaml.safe_load((COMPOSE / "prometheus.yml").read_text())["scrape_configs"]
    served = services()["engine"]["command"]
    port = served[served.index("--metrics") + 1].rpartition(":")[2]
    assert job["static_configs"] == [{"targets": [f"engine:{port}"]}]


def commands() -> list[list[str]]:
    """The commands of slipstream in the compose file and in the chart."""
    found = [services()[name]["command"] for name in ("engine", "console")]
    (script,) = services()["city"]["command"]
    found += [shlex.split(part)[1:] for part in script.split("&&")]
    return [*found, yaml.safe_load((CHART / "values.yaml").read_text())["job"]]


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_option_of_a_service_exists(command: list[str]) -> None:
    told = CliRunner().invoke(app, [command[0], "--help"]).output
    assert [word for word in command if word.startswith("--") and word not in told] == []


def test_the_image_runs_as_a_user_of_its_own_and_has_a_health_check() -> None:
    text = (ROOT / "Dockerfile").read_text()
    last = text.rpartition("\nFROM ")[2]
    assert re.search(r"^USER slipstream$", last, re.MULTILINE)
    assert "HEALTHCHECK" in last
    assert "npm" not in last
    assert all((ROOT / file).exists() for file in re.findall(r"scripts/[\w.]+", text))


def test_the_manifests_are_what_kubernetes_accepts() -> None:
    if find_spec("kubernetes_validate") is None:
        pytest.skip("no schemas of Kubernetes here: pip install kubernetes-validate")
    import kubernetes_validate

    for document in yaml.safe_load_all(MANIFESTS.read_text()):
        kubernetes_validate.validate(document, "1.33", strict=True)


def test_helm_accepts_the_chart_and_makes_the_manifests_of_it() -> None:
    helm = shutil.which("helm")
    if helm is None:
        pytest.skip("no helm here: go install helm.sh/helm/v3/cmd/helm@v3.19.0")
    linted = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout
    made = subprocess.run([helm, "template", "tolls", CHART], capture_output=True, text=True, check=True)
    assert made.stdout == MANIFESTS.read_text()


@pytest.mark.long
def test_the_steps_of_the_image_give_an_environment_in_which_a_job_runs(tmp_path: Path) -> None:
    """Not in a bare Debian, and without a daemon: the steps themselves, into a folder of their own."""
    if shutil.which("npm") is None:
        pytest.skip("no Node here; Debian and Ubuntu: apt-get install nodejs npm")
    image = tmp_path / "opt"
    bare = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    for step in ("install", "package"):
        done = subprocess.run(
            [ROOT / "scripts" / "image.sh", step],
            env=bare | {"SLIPSTREAM_IMAGE": str(image)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    program = image / "bin" / "slipstream"
    run = ["simulate", "--expressways", "0.5", "--minutes", "2", "--out", "run"]
    for words in (run, ["toll", "run", "--out", "tolls"], ["validate", "run", "tolls", "--no-response-times"]):
        done = subprocess.run([program, *words], env=bare, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    found = json.loads(
        subprocess.run([image / "bin" / "pip", "list", "--format", "json"], check=True, capture_output=True).stdout
    )
    assert not {"pytest", "mypy", "ruff"} & {one["name"] for one in found}
