"""A command line that cannot be read looks like every other mistake; an option that was renamed names its new name."""

from __future__ import annotations

import pytest

from commands import Slipstream
from slipstream._cli.common.usage import RENAMED


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("toll runs/x --out out --sink console", "No such option: --sink.", "It is --to now."),
        ("toll runs/x --out out --encoding json", "No such option: --encoding.", "It is --format now."),
        ("import x.xml --out out --from sumo", "No such option: --from.", "It is --format now."),
        ("cuboid run --from ticks --out out", "No such option: --from.", "It is --input now."),
        ("rate --from 3", "No such option: --from.", "It is --min now."),
        ("rate --to 3", "No such option: --to.", "It is --max now."),
        ("validate run out --kinds 0", "No such option: --kinds.", "It is --only now."),
        ("berlinmod run data --queries 1", "No such option: --queries.", "It is --only now."),
        ("history run --force", "No such option: --force.", "It is --overwrite now."),
        ("toll x --out y --spee 3", "No such option: --spee.", "Did you mean --silence or --speed?"),
        ("toll x", "Missing option '--out' / '-o'.", "`slipstream toll --help` shows how to use it."),
        ("rate --max 0", "--max 0: must be at least 1.", "`slipstream rate --help` shows how to use it."),
        (
            "toll x -o out --lateness x",
            "--lateness x: not a whole number.",
            "`slipstream toll --help` shows how to use it.",
        ),
        (
            "drive r --to csv: --speed fast",
            "--speed fast: not a number.",
            "`slipstream drive --help` shows how to use it.",
        ),
        ("export r -o x --format xml", "--format xml: 'xml' is not one of 'linear-road'.", "shows how to use it."),
        ("tol", "No such command 'tol'. Did you mean 'toll'?", "`slipstream --help` shows how to use it."),
    ],
)
def test_the_next_step_is_named(slipstream: Slipstream, line: str, message: str, hint: str) -> None:
    ended = slipstream(*line.split())
    assert ended.code == 2
    assert ended.out == ""
    assert f"slipstream: {message}" in ended.err
    assert ended.err.rstrip().endswith(hint)


def test_no_renamed_option_leads_to_itself() -> None:
    assert not [old for old, new in RENAMED.items() if old in new]


def test_a_group_without_a_command_shows_its_help(slipstream: Slipstream) -> None:
    ended = slipstream("job")
    assert ended.code == 2
    assert "Pause, resume, step and stop a running job" in ended.out + ended.err
