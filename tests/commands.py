"""Runs ``slipstream`` commands as a person would, without starting another process."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest

from slipstream._cli import run


@dataclass(frozen=True)
class Outcome:
    """What a command left behind on the terminal."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Slipstream:
    """The command line; its exit code and both outputs come back as an :class:`Outcome`."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *arguments: object) -> Outcome:
        self._capture.readouterr()
        with patch.object(sys, "argv", ["slipstream", *map(str, arguments)]), pytest.raises(SystemExit) as left:
            run()
        out, err = self._capture.readouterr()
        return Outcome(int(left.value.code or 0), out, err)
