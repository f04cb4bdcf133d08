"""What the commands share: shares, rejects, and how results are printed."""

from __future__ import annotations

import pytest
import typer
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

from commands import Slipstream
from slipstream._cli.common.options import MaxRejects, check_rejects, share, show
from slipstream._cli.common.printed_tables import print_table
from slipstream._errors import BadArgument, BadInput


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


@pytest.mark.parametrize(
    ("option", "value"), [("--master", "nonsense"), ("--master", "spark:7077"), ("--conf", "x"), ("--conf", "a=b")]
)
def test_spark_options_are_checked_first(slipstream: Slipstream, option: str, value: str) -> None:
    ended = slipstream("history", "no/such/run", option, value)
    assert ended.code == 2
    assert f"{option} {value}" in ended.err


def test_figures_are_not_cut_and_titles_do_not_wrap(capsys: pytest.CaptureFixture[str]) -> None:
    title = "tuples delivered by a network with a long name"
    show({"charged": 5208630.0, "stable": True, "share": 13.364784692391}, as_json=False, title=title)
    printed = capsys.readouterr().out
    assert printed.splitlines()[0] == title
    assert all(text in printed for text in ("5,208,630 ", "yes", "13.36 "))
    wide = Table(*map(str, range(9)))
    wide.add_row(*["1,234,567,890.12"] * 9)
    print_table(wide)
    assert capsys.readouterr().out.count("1,234,567,890.12") == 9


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_cuts_nothing(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    figures = ("1,234,567", "0.0123", "12.345", "99.99 %")
    table = Table("output", "tuples", "mean delay s", "worst s", "on time", title="a network")
    table.add_row("notifications_of_a_network_with_a_long_name", *figures)
    print_table(table, console=Console(width=width, force_terminal=True, color_system=None))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= max(width, 54)
    assert all(any(figure in line for line in lines) for figure in figures)
    text = "".join(line.split("│")[1].strip() for line in lines if line.startswith("│"))
    assert text == "notifications_of_a_network_with_a_long_name"


def test_a_table_without_rows_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show({}, as_json=False, title="dropped")
    assert capsys.readouterr().out == "dropped: nothing\n"
