"""``slipstream rate``: arguments, and real ratings of a small run on both engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import Slipstream
from services import service
from slipstream._bench.rating.trial import ResponseSummary, Trial, Window
from slipstream._feeds.text import import_text


def test_bad_arguments_are_told(slipstream: Slipstream, tmp_path: Path) -> None:
    assert slipstream("rate", "--out", tmp_path, "--window", "soon").code == 2
    assert slipstream("rate", "--out", tmp_path, "--engine", "abacus").code == 2
    assert slipstream("rate", "--out", tmp_path, "--run", tmp_path / "none").code == 2
    assert slipstream("rate", "--out", tmp_path, "--replay", "--door", "tcp").code == 2
    assert slipstream("rate", "--out", tmp_path, "--engine", "postgres", "--full", "--at", 4).code == 2
    assert slipstream("rate", "--out", tmp_path, "--at", 4).code == 2
    assert slipstream("rate", "--out", tmp_path, "--only", "5").code == 2
    done = slipstream("rate", "--out", tmp_path, "--full")
    assert done.code == 2
    assert "has no rating yet" in done.err


@pytest.mark.parametrize("text", ["soon", "0s", "-5m", "1.5m", "5 minutes", "", "5d", "s", "٣m"])
@pytest.mark.parametrize("option", ["--window", "--probe"])
def test_what_is_no_length_of_time_is_refused(slipstream: Slipstream, option: str, text: str, tmp_path: Path) -> None:
    done = slipstream("rate", "--out", tmp_path / "rating", option, text)
    assert done.code == 2
    assert f"{option} {text}: not a length of time." in done.err
    assert "90s, 20m or 3h" in done.err
    assert not (tmp_path / "rating").exists()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    lines = [f"0,{second},1,50,0,0,0,10,52800,0,0,0,0,0,0" for second in range(0, 600, 30)]
    (tmp_path / "feed.dat").write_text("\n".join(lines) + "\n")
    import_text(tmp_path / "feed.dat", tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("ended", [0, 2])
def test_an_interrupted_search_says_what_it_knows(
    ended: int, slipstream: Slipstream, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def drive(engine: object, run: object, expressways: int, window: Window, out: Path) -> Trial:
        tried.append(window.seconds)
        if len(tried) > ended:
            raise KeyboardInterrupt
        return Trial(expressways, window.seconds, {"toll": ResponseSummary(1, 2, 3, 5)})

    monkeypatch.setattr("slipstream._bench.rating.engines.Replay.drive", drive)
    done = slipstream("rate", "--replay", "--run", run, "--out", tmp_path / "rating", "--window", "2m", "--probe", "30")
    assert done.code == 130
    assert set(tried) == {30}
    plain = " ".join(done.err.split())
    if ended:
        assert "L = 2 held so far" in plain
        assert "slipstream rate --min 2 --max 600 --window 120s --probe 30s --out" in plain
    else:
        assert "before any L held" in plain


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    yield from service("postgres")


@pytest.mark.long
@pytest.mark.parametrize(
    ("engine", "window"),
    [("slipstream", ("--window", "2m")), ("slipstream", ("--full",)), ("postgres", ("--window", "2m"))],
)
def test_a_real_rating_of_a_small_run(
    slipstream: Slipstream, tmp_path: Path, engine: str, window: tuple[str, ...], server: str
) -> None:
    """Five minutes of half an expressway, at most twice: any machine holds that."""
    made = slipstream("simulate", "--expressways", 0.5, "--minutes", 5, "--out", tmp_path / "run")
    assert made.code == 0, made.err
    options = ["--to", 2, *window, "--probe", "1m", "--out", tmp_path / "rating", "--engine", engine]
    rated = slipstream("rate", "--run", tmp_path / "run", *options, "--json")
    assert rated.code == 0, rated.err
    assert rated.json["expressways"] == 2
    assert (tmp_path / "rating" / "rating.html").exists()
