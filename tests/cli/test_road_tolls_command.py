"""Settings of rules and receivers that cannot be used are refused before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from commands import Slipstream

REPORTS = "vid,time,spd,pos\n1,0,90,100\n"


@pytest.mark.parametrize(
    ("settings", "options", "said"),
    [
        ("report_every = 0", ["--rules", "general"], "report_every 0"),
        ("report_evry = 5", ["--rules", "general"], "report_evry is unknown"),
        ("[tariff]\nprices = 'much'", ["--rules", "general"], "prices is 'much'"),
        ("report_every = 5", [], "only the rules general have settings, not 2004"),
        ("report_every = 5", ["--rules", "math:sqrt"], "not math:sqrt"),
    ],
)
def test_settings_of_rules(
    slipstream: Slipstream, tmp_path: Path, settings: str, options: list[str], said: str
) -> None:
    (tmp_path / "reports.csv").write_text(REPORTS)
    (tmp_path / "road.toml").write_text(settings)
    done = slipstream(
        "toll", tmp_path / "reports.csv", "--out", tmp_path / "out", "--settings", tmp_path / "road.toml", *options
    )
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "out").exists()


def test_reports_that_lack_what_the_rules_need(slipstream: Slipstream, tmp_path: Path) -> None:
    (tmp_path / "reports.csv").write_text(REPORTS.replace("pos", "where"))
    done = slipstream(
        "toll", tmp_path / "reports.csv", "--format", "csv", "--rules", "general", "--out", tmp_path / "o"
    )
    assert done.code == 2
    assert "no field for pos" in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--loss", "1"], "--loss 1.0"),
        (["--interval", "0"], "--interval 0.0"),
        (["--format", "text"], "--format text"),
        (["--multiply", "2"], "--multiply"),
        (["--centre", "Berlin"], "--centre Berlin"),
        ([], "neither a BerlinMOD data set nor trips"),
    ],
)
def test_positions_that_cannot_be_driven(slipstream: Slipstream, tmp_path: Path, options: list[str], said: str) -> None:
    done = slipstream("drive", tmp_path, "--as", "gps", "--to", "stdout", *options)
    assert done.code == 2
    assert said in done.err
