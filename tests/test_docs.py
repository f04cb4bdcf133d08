"""The pages do what they say: every block of code is run or says why not, every link leads somewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from itertools import dropwhile, groupby, takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from pages import RUNNABLE, Block, blocks
from services import service
from slipstream._cli import app
from slipstream._cli.common.usage import UsageError
from slipstream._cuboid import consistency
from slipstream._linear_road.job import summary
from slipstream._linear_road.job.toll_layout import ANSWERS_AND_TRIPS

ROOT = Path(__file__).parents[1]
TOP = [ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CHANGELOG", "CONTRIBUTING")]
PAGES = [*TOP, *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)")
#: a command that hides from the tests in an indented block
HIDDEN = re.compile(r"^ {4}(?:slipstream|python|make|scripts/\S+) ", re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def with_blocks(*marks: str) -> list[Path]:
    return [page for page in PAGES if any(block.when in marks for block in blocks(page))]


def run(page: Path, folder: Path, *marks: str) -> None:
    """Run a page in a folder of its own, as somebody does who has Slipstream installed and the examples at hand."""
    (folder / "examples").symlink_to(ROOT / "examples")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "pages.py", page, *marks],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", with_blocks("run"), ids=name_of)
def test_the_blocks_of(page: Path, tmp_path: Path) -> None:
    run(page, tmp_path, "run")


@pytest.mark.long
@pytest.mark.parametrize("page", with_blocks("long"), ids=name_of)
def test_the_long_blocks_of(page: Path, tmp_path: Path) -> None:
    with ExitStack() as servers:
        for name in {block.service for block in blocks(page) if block.service}:
            servers.enter_context(contextmanager(service)(name))
        run(page, tmp_path, "run", "long", "served")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    for block in blocks(page):
        assert block.language, f"no language: {block.text}"
        checked = block.when in ("run", "long", "served") or block.excused
        assert checked or block.language not in RUNNABLE, f"neither run, long, served nor `shown: why`:\n{block.text}"
        assert block.language != "py", "write python"
    assert not HIDDEN.search(page.read_text(encoding="utf-8")), "commands stand in blocks with a language"


def commands(block: Block) -> list[list[str]]:
    """The ``slipstream`` commands of a block, as words; also of those that are only shown."""
    text = re.sub(r"<<'?(\w+)'?.*?^\1$", "", block.text, flags=re.MULTILINE | re.DOTALL).replace("\\\n", " ")
    lexer = shlex.shlex(
        re.sub(r"(?:^|\s)#[^\n]*$| \d(?=>)", "", text, flags=re.MULTILINE), punctuation_chars=";&|<>\n", posix=True
    )
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    found = []
    for is_end, part in groupby(lexer, key=lambda word: set(word) <= set(";&|\n")):
        words = [] if is_end else list(takewhile(lambda word: not set(word) <= set("<>"), part))
        words = list(dropwhile(lambda word: re.fullmatch(r"[A-Z_]+=.*", word), words))
        found += [words[1:]] if words[:1] == ["slipstream"] else []
    return found


def parse(words: list[str]) -> None:
    """Parse a command as the program does, without running anything; values are not looked at."""
    command: Any = get_command(app)
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        command, words = command.commands[words[0]], words[1:]
    options, rest, _ = command.make_parser(typer.Context(command)).parse_args(list(words))
    assert not rest, f"not understood: {rest}"
    missing = [one.name for one in command.params if one.required and options.get(one.name) in (None, ())]
    assert not missing or "help" in options, f"missing: {missing}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_has_options_that_exist(page: Path) -> None:
    for block in blocks(page):
        for words in commands(block) if block.language == "sh" else []:
            try:
                parse(words)
            except (UsageError, KeyError, AssertionError) as error:
                raise AssertionError(f"slipstream {shlex.join(words)}: {error}") from None


@pytest.mark.parametrize("words", [["toll"], ["toll", "run", "--in", "x"], ["tol"], ["describe", "a", "b"]])
def test_a_command_that_cannot_be_parsed_is_noticed(words: list[str]) -> None:
    with pytest.raises((UsageError, KeyError, AssertionError)):
        parse(words)


@pytest.mark.parametrize("mark", ["", "shown", "shown:", "never"])
def test_a_mark_without_a_reason_is_no_excuse(mark: str) -> None:
    assert not Block("sh", mark, "").excused


@pytest.mark.parametrize(
    "block",
    [
        "sh run\nfalse\n",
        "sh run\nsleep 600 &\nfalse\n",
        "python run\nassert False\n",
        "sh run\nslipstream describe none\n",
    ],
)
def test_a_block_that_fails_is_noticed(block: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```{block}```\n")
    with pytest.raises(AssertionError):
        run(page, tmp_path, "run")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        target = page.parent / link if link else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), f"{link}#{anchor}"


def test_the_reference_is_what_the_program_says(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "write_reference.py", tmp_path], check=True)
    for written in sorted(tmp_path.rglob("*.md")):
        kept = ROOT / "docs" / "reference" / written.relative_to(tmp_path)
        assert written.read_text(encoding="utf-8") == kept.read_text(encoding="utf-8"), f"{kept}: run `make docs`"


def test_every_figure_has_a_meaning(tmp_path: Path) -> None:
    told = summary.summarise(tmp_path, began=0.0, clock=None, outputs=ANSWERS_AND_TRIPS)
    assert set(told) | {"rtc"} == set(summary.MEANING)
    assert set(consistency.compute_figures([consistency.Moment(0, 0.0, 1.0, tuples=1, period=1.0)])) == set(
        consistency.MEANING
    )
