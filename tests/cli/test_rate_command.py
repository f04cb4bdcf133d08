"""``slipstream rate``: arguments, and real ratings of a small run on both engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import Slipstream
from services import service


def test_bad_arguments_are_told(slipstream: Slipstream, tmp_path: Path) -> None:
    assert slipstream("rate", "--out", tmp_path, "--window", "soon").code == 2
    assert slipstream("rate", "--out", tmp_path, "--engine", "abacus").code == 2
    assert slipstream("rate", "--out", tmp_path, "--run", tmp_path / "none").code == 2


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
