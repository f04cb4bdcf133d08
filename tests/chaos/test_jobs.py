"""Jobs of every kind whose commit fails half-way, in one Spark session: each resumes as if nothing had happened.

The same fault in a job with a broken commit must be noticed. ``test_campaign.py`` does worse, with real processes.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.canary import broken
from chaos.subjects import SUBJECTS
from commands import Slipstream
from oracles.streams import busy_stream
from slipstream._chaos.output_comparison import Committed, find_difference, verify_comparator
from slipstream._chaos.subject import Subject
from slipstream._feeds.tuple_text import import_text
from slipstream._io.outputs import Batch, journal

BATCHES = 3


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("feed")
    lines = [line for line in busy_stream(1) if int(line.split(",")[1]) < 180]
    (folder / "feed.dat").write_text("\n".join(lines))
    return import_text(folder / "feed.dat", folder / "run").path


def carried_out(subject: Subject, out: Path, slipstream: Slipstream) -> Committed:
    done = slipstream(*subject.arguments(out))
    assert done.code == 0, done.err
    return Committed.read(out)


def failing(append: Callable[[Path, Batch], None]) -> Callable[[Path, Batch], None]:
    """A journal that cannot be written when a batch with rows is in its tables already."""

    def fail(folder: Path, batch: Batch) -> None:
        if any(batch.outputs.values()):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(folder))
        append(folder, batch)

    return fail


def interrupted(subject: Subject, out: Path, slipstream: Slipstream, monkeypatch: pytest.MonkeyPatch) -> Committed:
    """What a job has put out that failed in the middle of a commit, and was started again."""
    with monkeypatch.context() as patch:
        patch.setattr(journal, "append", failing(journal.append))
        failed = slipstream(*subject.arguments(out))
    assert failed.code != 0
    assert "Traceback" not in failed.err
    return carried_out(subject, out, slipstream)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.long] if kind != "network" else []) for kind in SUBJECTS]
)
def test_a_failed_commit_does_no_harm_and_a_broken_one_is_caught(
    kind: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    subject, slipstream = SUBJECTS[kind](run, tmp_path, BATCHES), Slipstream(capsys)
    expected = carried_out(subject, tmp_path / "undisturbed", slipstream)
    verify_comparator(expected)
    found = interrupted(subject, tmp_path / "out", slipstream, monkeypatch)
    assert find_difference(expected, found, whole=True, repeatable=subject.is_repeatable) == ""
    with broken(monkeypatch):
        doubled = interrupted(subject, tmp_path / "broken", slipstream, monkeypatch)
    assert "too many" in find_difference(expected, doubled, whole=True)


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("kind", ["network", pytest.param("cuboid", marks=pytest.mark.long)])
def test_a_journal_that_was_cut_short_is_mended_and_one_that_lost_batches_refused(
    kind: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash may leave half a line; what Spark has committed is never done again without a word."""
    subject, slipstream, out = SUBJECTS[kind](run, tmp_path, BATCHES), Slipstream(capsys), tmp_path / "out"
    expected = carried_out(subject, tmp_path / "undisturbed", slipstream)
    with monkeypatch.context() as patch:
        patch.setattr(journal, "append", failing(journal.append))
        assert slipstream(*subject.arguments(out)).code != 0
    lines = out / "batches.jsonl"
    with lines.open("ab") as file:
        file.write(b'{"batch": 1, "comm')
    found = carried_out(subject, out, slipstream)
    assert find_difference(expected, found, whole=True, repeatable=subject.is_repeatable) == ""
    whole = lines.read_bytes().splitlines(keepends=True)
    lines.write_bytes(whole[0])
    (out / "status.json").unlink()
    refused = slipstream(*subject.arguments(out))
    assert refused.code == 3
    assert f"1 batches, but {len(whole)} were committed" in " ".join(refused.err.split())
    assert "Traceback" not in refused.err


def test_rows_in_another_order_are_noticed() -> None:
    right = Committed({"out": Counter(["a", "b"])}, {"out": ["a", "b"]}, journal={"out": 2})
    verify_comparator(right)
    wrong = replace(right, orders={"out": ["b", "a"]})
    assert "row 1: b is out of order" in find_difference(right, wrong, whole=True)
    assert find_difference(right, wrong, whole=True, repeatable=False) == "", "of several feeds each run has its own"
    early = Committed({"out": Counter(["a"])}, {"out": ["a"]}, journal={"out": 1})
    assert find_difference(right, early, whole=False) == ""
