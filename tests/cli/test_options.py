"""What the commands share: shares, rejects, and how results are printed."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from slipstream.cli.options import MaxRejects, check_rejects, share
from slipstream.errors import BadArgument, BadInput


@pytest.mark.parametrize("given", ["x", "", "-1", "1.5", "101%", "nan", "inf"])
def test_a_share_is_between_nothing_and_everything(given: str) -> None:
    with pytest.raises(BadArgument, match="--max-rejects"):
        share(given)


def test_the_option_takes_numbers_and_percent() -> None:
    app = typer.Typer()

    @app.command()
    def print_share(most: MaxRejects = 1.0) -> None:
        print(most)

    for arguments, printed in ([], "1.0"), (["--max-rejects", "0.25"], "0.25"), (["--max-rejects", "5%"], "0.05"):
        assert CliRunner().invoke(app, arguments).output.strip() == printed


@pytest.mark.parametrize(
    ("rejected", "total", "most", "good"),
    [
        (0, 0, 1.0, True),
        (0, 5, 0.0, True),
        (4, 5, 1.0, True),
        (5, 5, 1.0, False),
        (1, 5, 0.0, False),
        (1, 5, 0.2, True),
        (2, 5, 0.2, False),
    ],
)
def test_too_many_rejects_and_nothing_but_rejects_are_refused(
    rejected: int, total: int, most: float, good: bool
) -> None:
    if good:
        check_rejects(rejected, total, most, "out/rejects.csv")
        return
    with pytest.raises(BadInput, match=f"{rejected} of {total} rejected") as refused:
        check_rejects(rejected, total, most, "out/rejects.csv")
    assert "out/rejects.csv" in refused.value.hint
