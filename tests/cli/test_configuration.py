"""``slipstream.toml``: the command line wins, then the environment, then the file; unknown keys are refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from commands import Slipstream
from slipstream._cli.common import configuration, input_options
from slipstream._cli.linear_road import history_command, simulate_command, toll_command
from slipstream._spark import session


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLIPSTREAM_MASTER", raising=False)
    monkeypatch.delenv(configuration.VARIABLE, raising=False)
    return tmp_path


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What Spark was asked for; it is not started."""
    asked: list[dict[str, Any]] = []

    def build(name: str, **settings: Any) -> None:
        asked.append(settings)
        raise KeyboardInterrupt

    monkeypatch.setattr(session, "build", build)
    return asked


SPARK = """
[spark]
master = "local[3]"

[spark.conf]
spark.driver.memory = "3g"
"spark.ui.enabled" = true
"""


def test_spark_gets_what_the_file_says(slipstream: Slipstream, here: Path, started: list[dict[str, Any]]) -> None:
    (here / "slipstream.toml").write_text(SPARK)
    slipstream("simulate", "--minutes", 1, "-o", "run")
    assert started[0]["master"] == "local[3]"
    assert started[0]["conf"] == {"spark.driver.memory": "3g", "spark.ui.enabled": "true"}


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(
    slipstream: Slipstream, here: Path, started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "slipstream.toml").write_text(SPARK)
    command = ("simulate", "--minutes", 1, "-o", "run")
    monkeypatch.setenv("SLIPSTREAM_MASTER", "local[5]")
    slipstream(*command)
    slipstream(*command, "--master", "local[7]", "--conf", "spark.driver.memory=7g")
    assert [settings["master"] for settings in started] == ["local[5]", "local[7]"]
    assert started[1]["conf"] == {"spark.driver.memory": "7g", "spark.ui.enabled": "true"}


def test_defaults_are_of_all_commands_or_of_one(
    slipstream: Slipstream, here: Path, monkeypatch: pytest.MonkeyPatch, started: list[dict[str, Any]]
) -> None:
    made: list[tuple[Any, ...]] = []
    monkeypatch.setattr(simulate_command, "_is_of", lambda *given: made.append(given))
    (here / "slipstream.toml").write_text("[defaults]\nseed = 5\n\n[defaults.simulate]\nminutes = 2\n")
    slipstream("simulate", "-o", "run", "--json")
    assert started
    (here / "slipstream.toml").write_text("[defaults]\nseed = 5\njson = true\n[defaults.simulate]\nseed = -1\n")
    refused = slipstream("simulate", "-o", "run")
    error = json.loads(refused.err.splitlines()[-1])["error"]
    assert error["code"] == "bad-config"
    assert error["place"] == {"file": "slipstream.toml", "field": "defaults.seed"}
    assert slipstream("simulate", "-o", "run", "--seed", 3).code == 130


def test_a_default_of_a_nested_command(slipstream: Slipstream, here: Path) -> None:
    (here / "slipstream.toml").write_text('[defaults.network.run]\nout = "made"\n')
    (here / "made").write_text("in the way")
    (here / "x.yaml").write_text("network: x\nsources: {}\n")
    refused = slipstream("network", "run", "x.yaml")
    assert "--out" not in refused.err or "Missing" not in refused.err
    assert slipstream("network", "attach", "x", "y", "x.yaml").err.startswith("slipstream: Missing option '--out'")


def test_kafka_settings_come_before_those_of_the_command_line(
    slipstream: Slipstream, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(input_options, "read_settings", lambda texts: asked.append(texts) or ())
    monkeypatch.setattr(toll_command, "run_job", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    (here / "feed.dat").touch()
    (here / "other.toml").write_text('[kafka]\nsecurity.protocol = "SSL"\n"ssl.ca.location" = "ca.pem"\n')
    slipstream("toll", "feed.dat", "-o", "out", "--config", "other.toml", "--kafka-config", "security.protocol=SASL")
    assert asked[0] == ["security.protocol=SSL", "ssl.ca.location=ca.pem", "security.protocol=SASL"]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[sparks]\n", "slipstream.toml, sparks: no such key.", "Did you mean spark?"),
        ('[spark]\nmasters = "x"\n', "slipstream.toml, spark.masters: no such key.", "Did you mean master?"),
        ("[defaults]\nspeeed = 1\n", "slipstream.toml, defaults.speeed: no such key.", "Did you mean speed?"),
        (
            "[defaults.history]\nspeed = 1\n",
            "slipstream.toml, defaults.history.speed: no such key.",
            "Did you mean seed?",
        ),
        (
            "[defaults.network.ran]\nrate = 1\n",
            "slipstream.toml, defaults.network.ran: no such key.",
            "Did you mean run?",
        ),
        (
            '[spark.conf]\ndriver = "x"\n',
            "slipstream.toml, spark.conf.driver: not a Spark setting.",
            "begin with spark.",
        ),
        ("spark = 3\n", "slipstream.toml, spark: not a table.", "Write [spark] on a line of its own."),
        ("[spark]\nmaster = 3\n", "slipstream.toml, spark.master: 3 is not text.", 'Write master = "local[4]".'),
        ("[spark\n", "slipstream.toml: Expected ']'", "must be TOML"),
        ('[spark]\nmaster = "mars"\n', "--master mars: not a Spark master.", "Give local[*]"),
    ],
)
def test_a_mistake_is_named_with_file_and_key(
    slipstream: Slipstream, here: Path, text: str, message: str, hint: str
) -> None:
    (here / "slipstream.toml").write_text(text)
    refused = slipstream("history", "run")
    assert refused.code == 2
    assert message in refused.err
    assert hint in refused.err


def test_a_file_that_is_named_must_be_there(slipstream: Slipstream) -> None:
    refused = slipstream("doctor", "--config", "none.toml")
    assert refused.code == 2
    assert "--config none.toml: cannot be read" in refused.err


def test_the_environment_names_the_file_or_none(
    slipstream: Slipstream, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "slipstream.toml").write_text("[wrong]\n")
    monkeypatch.setenv(configuration.VARIABLE, "")
    assert "no such run" in slipstream("history", "run").err.lower() or "wrong" not in slipstream("history", "run").err
    (here / "other.toml").write_text("[other]\n")
    monkeypatch.setenv(configuration.VARIABLE, str(here / "other.toml"))
    assert "other.toml, other: no such key" in slipstream("history", "run").err


def test_processes_that_a_command_starts_read_the_same_file(
    slipstream: Slipstream, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str | None] = []
    monkeypatch.setattr(
        history_command, "_find_known", lambda *_, **__: seen.append(os.environ.get(configuration.VARIABLE))
    )
    (here / "mine.toml").write_text("")
    from slipstream._feeds.tuple_text import import_text

    (here / "x.dat").write_text("0,0,107,32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1\n")
    import_text(here / "x.dat", here / "run")
    monkeypatch.setattr(session, "build", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    slipstream("history", "run", "--config", "mine.toml")
    assert seen == [str(here / "mine.toml")]
    assert configuration.VARIABLE not in os.environ
