"""A history is opened once per process, and again when it was made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oracles.streams import report
from slipstream._feeds.history import FOLDER, INDEX, History
from slipstream._feeds.tuple_text import import_text
from slipstream._linear_road.state.past_queries import open_past


def test_a_history_that_was_made_since_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "feed.dat").write_text(report(0, 1, 10) + "\n")
    run = import_text(tmp_path / "feed.dat", tmp_path / "run").path
    opened: list[Path] = []

    def open_history(_cls: type[History], given: Any) -> History:
        opened.append(given.path)
        return History(given.path / FOLDER, None)

    monkeypatch.setattr(History, "open", classmethod(open_history))
    assert open_past(str(run)) is open_past(str(run))
    assert opened == [run]
    (run / FOLDER).mkdir()
    (run / FOLDER / INDEX).write_text("{}")
    open_past(str(run))
    assert opened == [run, run]
