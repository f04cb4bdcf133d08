"""The command line, for the tests in this folder."""

from __future__ import annotations

import pytest

from commands import Slipstream


@pytest.fixture
def slipstream(capsys: pytest.CaptureFixture[str]) -> Slipstream:
    return Slipstream(capsys)
