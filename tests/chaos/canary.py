"""``slipstream`` with a broken commit: it does not check whether the tables already have a batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from slipstream._io.outputs.delta_tables import OutputTable


@contextmanager
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A commit that is broken while the block runs."""
    with monkeypatch.context() as patch:
        patch.setattr(OutputTable, "last_batch", lambda *_: -1)
        patch.setattr(OutputTable, "check", lambda *_: None)
        yield


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch, broken(patch):
        from slipstream._cli import main

        main()
