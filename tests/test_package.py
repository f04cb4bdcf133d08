"""What `pip` makes of the sources: the same whatever was run before, with all that the help and the console name."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import types
import urllib.request
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from slipstream._cli import app

ROOT = Path(__file__).parents[1]
PAGE = "slipstream/_console/static/index.html"


def sources(folder: Path) -> Path:
    """The files that git knows or would take, in a folder of their own: a clean clone."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("the sources are not in git here")
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def old_node(folder: Path) -> str:
    """A PATH on which Node is too old."""
    folder.mkdir()
    (folder / "node").write_text("#!/bin/sh\necho v12.0.0\n")
    (folder / "node").chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def pip(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pip, without this process's paths to the sources."""
    settings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "pip", *map(str, arguments), "--no-deps", "--disable-pip-version-check"]
    return subprocess.run(command, env=settings | environment, capture_output=True, text=True, check=False)


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The hook that Hatch runs, here without Hatch."""

    class Interface:
        def __init__(self, root: Path) -> None:
            self.root = str(root)

    stub: Any = types.ModuleType("interface")
    stub.BuildHookInterface = Interface
    monkeypatch.setitem(sys.modules, "hatchling.builders.hooks.plugin.interface", stub)
    spec = importlib.util.spec_from_file_location("build_hook", ROOT / "scripts" / "build_hook.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_wheel_is_built_without_the_page(
    hook: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "web").mkdir()
    shutil.copy(ROOT / "scripts" / "console.sh", tmp_path / "scripts")
    monkeypatch.setenv("PATH", old_node(tmp_path / "bin"))
    build: dict[str, Any] = {"artifacts": []}
    with pytest.raises(RuntimeError, match="requires Node 18 or newer"):
        hook.PageHook(tmp_path).initialize("standard", build)
    (tmp_path / "PKG-INFO").touch()
    with pytest.raises(RuntimeError, match="page is missing"):
        hook.PageHook(tmp_path).initialize("standard", build)
    hook.PageHook(tmp_path).initialize("editable", build)
    monkeypatch.setenv("SLIPSTREAM_WITHOUT_PAGE", "1")
    hook.PageHook(tmp_path).initialize("standard", build)
    assert build == {"artifacts": []}


def test_a_source_archive_brings_its_page(hook: types.ModuleType, tmp_path: Path) -> None:
    (tmp_path / "PKG-INFO").touch()
    page = tmp_path / "src" / PAGE
    page.parent.mkdir(parents=True)
    page.touch()
    build: dict[str, Any] = {"artifacts": []}
    hook.PageHook(tmp_path).initialize("standard", build)
    assert build["artifacts"] == ["/src/slipstream/_console/static/**"]


def test_no_two_modules_have_one_name() -> None:
    counts = Counter(
        path.stem for path in (ROOT / "src" / "slipstream").rglob("*.py") if not path.stem.startswith("__")
    )
    assert [name for name, count in counts.items() if count > 1] == []


def test_no_two_classes_have_one_name() -> None:
    texts = (path.read_text(encoding="utf-8") for path in (ROOT / "src" / "slipstream").rglob("*.py"))
    counts = Counter(name for text in texts for name in re.findall(r"^class (\w+)", text, re.MULTILINE))
    assert [name for name, count in counts.items() if count > 1] == []


def test_packages_of_more_than_a_dozen_modules_have_folders() -> None:
    packages = [path.parent for path in (ROOT / "src" / "slipstream").rglob("__init__.py")]
    counts = {package.name: sum(path.stem != "__init__" for path in package.glob("*.py")) for package in packages}
    assert {name: count for name, count in counts.items() if count > 12} == {}


def test_the_examples_are_written_where_one_says(tmp_path: Path) -> None:
    out = tmp_path / "mine"
    done = CliRunner().invoke(app, ["examples", str(out)])
    assert done.exit_code == 0, done.output
    for file in ("networks/border.yaml", "networks/soldiers.csv", "cuboids/stocks.sql", "notebooks/tolling.ipynb"):
        assert (out / file).read_bytes() == (ROOT / "examples" / file).read_bytes()
    assert CliRunner().invoke(app, ["examples", str(out)]).exit_code != 0


@pytest.mark.long
def test_a_wheel_of_a_clean_clone_has_the_page_and_the_examples(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("no Node here; Debian and Ubuntu: apt-get install nodejs npm")
    clone = sources(tmp_path / "clone")
    made = pip("wheel", clone, "--wheel-dir", tmp_path)
    assert made.returncode == 0, made.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "installed")
    assert PAGE in names
    assert any(name.startswith("slipstream/_console/static/assets/") for name in names)
    examples = {path.relative_to(ROOT) for path in (ROOT / "examples").rglob("*.*") if path.is_file()}
    shipped = {f"slipstream/{path.as_posix()}" for path in examples if "__pycache__" not in path.parts}
    assert shipped <= names
    command = [sys.executable, "-m", "slipstream", "examples"]
    installed = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    subprocess.run(command, cwd=tmp_path, env=installed, check=True)
    assert (tmp_path / "examples" / "networks" / "border.yaml").is_file()


@pytest.mark.long
def test_a_bare_environment_runs_the_demo_and_the_console_from_the_wheel(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("no Node here; Debian and Ubuntu: apt-get install nodejs npm")
    made = pip("wheel", sources(tmp_path / "clone"), "--wheel-dir", tmp_path)
    assert made.returncode == 0, made.stderr
    (wheel,) = tmp_path.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "bare"], check=True)
    python = tmp_path / "bare" / "bin" / "python"
    bare = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    (tmp_path / "locked.txt").write_text(locked_versions())
    install = [python, "-m", "pip", "install", "--quiet", "-c", tmp_path / "locked.txt", f"{wheel}[console]"]
    done = subprocess.run(install, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for words in DEMO:
        command = [python.with_name("slipstream"), *words]
        done = subprocess.run(command, env=bare, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stderr)
    assert_serves_the_page(python.with_name("slipstream"), tmp_path, bare)


@pytest.mark.long
def test_a_source_archive_makes_the_same_wheel_without_node(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("no Node here; Debian and Ubuntu: apt-get install nodejs npm")
    build = [sys.executable, "-m", "uv", "build", "--quiet", "--out-dir", tmp_path]
    clone = sources(tmp_path / "clone")
    subprocess.run([*build, "--sdist", clone], check=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    subprocess.run([*build, "--wheel", archive], env={**os.environ, "PATH": old_node(tmp_path / "bin")}, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    code = {path.relative_to(clone / "src").as_posix() for path in (clone / "src").rglob("*.py")}
    assert {PAGE, "slipstream/examples/networks/border.yaml", "slipstream/py.typed", *code} <= names


DEMO = (
    ("simulate", "--expressways", "1", "--minutes", "5", "--demand", "6", "--out", "runs/first"),
    ("toll", "runs/first", "--out", "tolls"),
    ("validate", "runs/first", "tolls", "--no-response-times"),
)


def locked_versions() -> str:
    """What requirements.lock pins, without hashes: the versions of an installation from the index."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return "\n".join(line.split(" \\")[0] for line in lines if line and line[0].isalnum())


def assert_serves_the_page(command: Path, folder: Path, environment: dict[str, str]) -> None:
    """Start the console of an installation, and fetch its page."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serving = [command, "console", "--no-browser", "--port", str(port)]
    process = subprocess.Popen(serving, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        page = fetch_page(f"http://127.0.0.1:{port}/")
    finally:
        process.terminate()
        process.wait()
    assert b"<div id=" in page


def fetch_page(url: str) -> bytes:
    """Fetch a page from a server that is starting."""
    for _ in range(120):
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return bytes(answer.read())
        except OSError:
            time.sleep(0.5)
    pytest.fail(f"{url} does not answer")


@pytest.mark.long
def test_without_node_a_wheel_is_refused_and_an_editable_install_works(tmp_path: Path) -> None:
    clone = sources(tmp_path / "clone")
    path = old_node(tmp_path / "bin")
    refused = pip("wheel", clone, "--wheel-dir", tmp_path, PATH=path)
    assert refused.returncode != 0
    assert "requires Node 18 or newer" in refused.stderr + refused.stdout
    assert not list(tmp_path.glob("*.whl"))
    installed = pip("install", "--editable", clone, "--target", tmp_path / "installed", PATH=path)
    assert installed.returncode == 0, installed.stderr
