"""What a notebook shows: a picture, a status or a map of every public object, and of a mistake its message alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

import slipstream as ss

#: what a job's folder, a network or a trip is shown as; other public classes are values without a picture
SHOWN = {
    "Cuboid",
    "Job",
    "JobStatus",
    "Kept",
    "MovingPoint",
    "Network",
    "Output",
    "Results",
    "RunningJob",
    "Stream",
    "Tolled",
    "Trips",
}


def test_networks_jobs_cuboids_and_trips_are_shown() -> None:
    shown = {
        name for name in ss.__all__ if any(hasattr(getattr(ss, name), f"_repr_{form}_") for form in ("html", "svg"))
    }
    assert shown == SHOWN


def test_tolling_is_shown_as_a_network_with_all_its_outputs() -> None:
    picture = ss.read("kafka://broker:9092/positions").toll()._repr_html_()
    assert picture.startswith("<svg")
    assert all(f"→ {name}<" in picture for name in ("notifications", "alerts", "balances", "travel_times"))


@pytest.mark.parametrize(
    ("cell", "printed"),
    [
        ("ss.read('nowhere.csv')", ["BadArgument: nowhere.csv: no such file or folder."]),
        ("ss.open('.')", ["BadArgument: .: not the folder of a job."]),
        (
            "ss.read('kafka://b:9092/t', {'id': 'bigint', 'speed': 'double'}).filter('sped < 20')",
            ["BadInput: filter: 'sped < 20': column 'sped' does not exist."],
        ),
    ],
)
def test_a_mistake_is_its_message_and_a_hint_without_a_stack_trace(
    cell: str, printed: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shell = InteractiveShell()
    shell.run_cell("import slipstream as ss")
    assert not shell.run_cell(cell).success
    lines = capsys.readouterr().out.splitlines()
    assert lines[:1] == printed
    assert len(lines) <= 2
