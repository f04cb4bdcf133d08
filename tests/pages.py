"""The code blocks of a page, and a runner for them: ``python tests/pages.py PAGE MARK...`` in an empty folder.

A block says in its first line how it is checked:

    ```sh run                       by `make test`
    ```sh long                      by `make test-long`, after the page's `run` blocks
    ```sh long with kafka           the same, while what scripts/kafka.sh starts runs
    ```sh served                    by `make test-long`: goes on while the blocks after it run, and must till then
    ```sh shown: needs a cluster    by nobody, and why

One process runs a page from its first block to its last, so that what a block leaves (files, names, views) is there
for the next, and so that Spark starts once. Lines that are ``slipstream`` commands and nothing else are called in this
process; everything else is bash's, and so is all of README.md: what is read first is typed as it stands.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any
from unittest.mock import patch

RUNNABLE = ("sh", "python", "sql")
_BLOCK = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: what only a shell understands, in a line or for the rest of a block
_SHELL, _SCRIPT = re.compile(r"[|<>;*]"), re.compile(r"[$&]")


@dataclass(frozen=True)
class Block:
    """A code block: its language, what it says about checking, and its text."""

    language: str
    mark: str
    text: str

    @property
    def excused(self) -> bool:
        """Whether it says why it is not run."""
        return bool(re.fullmatch(r"shown: \S.*", self.mark))

    @property
    def service(self) -> str:
        """The server that it needs, by the name of its script; empty for none."""
        return self.mark.partition(" with ")[2]

    @property
    def when(self) -> str:
        """run, long or served."""
        return self.mark.partition(" with ")[0]


def blocks(page: Path) -> list[Block]:
    """The code blocks of a page."""
    found = _BLOCK.findall(page.read_text(encoding="utf-8"))
    return [Block(language, mark.strip(), text) for language, mark, text in found]


def run_page(page: Path, marks: list[str]) -> None:
    """Run those blocks of a page that bear one of the marks."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with ExitStack() as served:
        for block in (block for block in blocks(page) if block.when in marks):
            print(f"--- {block.language}\n{block.text}", flush=True)
            if block.when == "served":
                served.enter_context(_serving(block.text))
            else:
                _run(block, names, typed=page.name == "README.md")


def _run(block: Block, names: dict[str, Any], *, typed: bool) -> None:
    if block.language == "python":
        exec(compile(block.text, "block", "exec"), names)
    elif block.language == "sql":
        _sql(block.text)
    elif typed or _SCRIPT.search(block.text):
        _bash(block.text)
    else:
        _shell(block.text)


def _sql(text: str) -> None:
    from slipstream._moving import register
    from slipstream._spark import session

    spark = session.build("docs")
    register(spark)
    for statement in filter(str.strip, text.split(";")):
        spark.sql(statement).show()


def _shell(text: str) -> None:
    for ours, lines in groupby(text.replace("\\\n", " ").splitlines(), key=_is_ours):
        together = "\n".join(lines)
        if not ours:
            _bash(together)
            continue
        for line in together.splitlines():
            _slipstream(shlex.split(line, comments=True))


def _is_ours(line: str) -> bool:
    words = shlex.split(line, comments=True) if line.startswith("slipstream ") else []
    outside_quotes = re.sub(r"'[^']*'|\"[^\"]*\"|#.*", "", line)
    return bool(words) and not _SHELL.search(outside_quotes)


def _bash(text: str) -> None:
    """Run lines in bash; if one fails, end what the others have left in the background, which nobody waits for."""
    with subprocess.Popen(["bash", "-euo", "pipefail", "-c", text], start_new_session=True) as process:
        if process.wait():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            raise RuntimeError(f"exit code {process.returncode}: {text}")


@contextmanager
def _serving(text: str) -> Iterator[None]:
    """What never ends by itself, until the page has run; then as Ctrl-C would end it."""
    with subprocess.Popen(["bash", "-c", text], start_new_session=True) as process:
        try:
            yield
            if process.poll() is not None:
                raise RuntimeError(f"it ended with code {process.returncode}: {text}")
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                process.wait(120)


def _slipstream(words: list[str]) -> None:
    from slipstream._cli import run

    with patch.object(sys, "argv", words):
        try:
            run()
        except SystemExit as left:
            if left.code:
                raise RuntimeError(f"{shlex.join(words)}: exit code {left.code}") from left


if __name__ == "__main__":
    import matplotlib as mpl

    mpl.use("Agg")
    run_page(Path(sys.argv[1]), sys.argv[2:])
