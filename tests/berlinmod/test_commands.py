"""The commands: a mistake ends with one message and the next step."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from slipstream._berlinmod.dataset import DatasetManifest, write_manifest
from slipstream._berlinmod.layout import NEEDED, TABLES
from slipstream._cli import app
from slipstream._errors import BadArgument, BadInput
from slipstream._spark import session

runner = CliRunner()


def test_help_names_every_command():
    text = runner.invoke(app, ["berlinmod", "--help"]).output
    for command in ("generate", "load", "export", "index", "run", "explain", "draw", "stream"):
        assert command in text
    assert "archive" in runner.invoke(app, ["--help"]).output


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        (["generate", "--scale", "-1", "--out", "x"], BadArgument, "--scale"),
        (["generate", "--network", "none.csv", "--out", "x"], BadArgument, "--network"),
        (["run", "nowhere"], BadArgument, "no such data set"),
        (["run", "nowhere", "--only", "18"], BadArgument, "1 to 17"),
        (["draw", "nowhere", "--query", "0"], BadArgument, "1 to 17"),
        (["index", "."], BadInput, "not a BerlinMOD data set"),
    ],
)
def test_a_mistake_is_named(arguments, kind, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, ["berlinmod", *arguments])
    assert isinstance(result.exception, kind)
    assert message in result.exception.message


@pytest.fixture
def without_spark(tmp_path, monkeypatch):
    """A folder to work in, where nothing may start Spark: what is in the way is found before."""

    def start(*_, **__):
        pytest.fail("Spark was started")

    monkeypatch.setattr(session, "build", start)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "manifest.json").write_text("{}")
    (tmp_path / "table" / "dataScar").mkdir(parents=True)
    write_manifest(tmp_path / "table", DatasetManifest("hand", 1, 1, 1, "", ""))
    return tmp_path


def all_names(kind):
    return ", ".join(" or ".join(names) for names in NEEDED[kind])


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ("load nowhere --out x", BadArgument, "nowhere: no such folder"),
        ("load empty --out x", BadInput, f"empty: no {all_names('published')}."),
        ("load empty --out x --format mobilitydb", BadInput, f"empty: no {all_names('mobilitydb')}."),
        ("load empty --out x --format excel", BadArgument, "--format excel"),
        ("load empty --out full", BadArgument, "--out full: exists"),
        ("load empty --out x --max-rejects 3", BadArgument, "--max-rejects"),
        ("generate --out full", BadArgument, "--out full: exists"),
        ("generate --home-regions none --out x", BadArgument, "--home-regions none"),
        ("export full --out x", BadInput, f"full: no {', '.join(TABLES)}."),
        ("export full --out full", BadArgument, "--out full: exists"),
        ("index full", BadInput, "full: no dataScar, dataMcar"),
        ("run full --as abc", BadArgument, "--as abc"),
        ("run table --only 1", BadInput, "table: no dataMcar, dataMtrip, QueryPoints"),
        ("explain table --query 1", BadInput, "table: no dataMcar, dataMtrip"),
        ("draw table", BadInput, "table: no dataMcar, dataMtrip"),
        ("explain full --query 3 --as abc", BadArgument, "--as abc"),
        ("draw full --out picture.doc", BadArgument, "not a picture"),
        ("draw full --out none/a.png", BadArgument, "--out none/a.png"),
        ("draw full --trips -1", BadArgument, "--trips"),
    ],
)
def test_what_is_missing_or_in_the_way_is_named_before_spark_starts(without_spark, arguments, kind, message):
    result = runner.invoke(app, ["berlinmod", *arguments.split()])
    assert isinstance(result.exception, kind), result.exception
    assert message in result.exception.message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("none.dat --out x", "none.dat: no such file or folder"),
        ("empty --format xml --out x", "--format xml"),
        ("empty --speed -1 --out x", "--speed"),
        ("empty --start yesterday --out x", "--start yesterday"),
        ("kafka:nonsense --out x", "not a topic"),
        ("empty --out full/manifest.json", "is a file"),
    ],
)
def test_archive_looks_at_its_arguments_before_spark_starts(without_spark, arguments, message):
    result = runner.invoke(app, ["archive", *arguments.split()])
    assert isinstance(result.exception, BadArgument), result.exception
    assert message in result.exception.message
