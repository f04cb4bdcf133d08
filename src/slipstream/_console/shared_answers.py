"""Answers that every watcher of a page asks for again and again: made once for all of them.

Fifty pages that show the same job ask for it fifty times within a second. The first request makes the answer, the
others wait for it and get the same bytes; what is older than half a second is made again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from fastapi import Request, Response
from pydantic import TypeAdapter

#: seconds for which an answer is good
_FRESH_S = 0.5
#: answers to remember: a page asks for a few
_MOST = 500


@dataclass
class _SharedAnswer:
    lock: Lock = field(default_factory=Lock)
    body: bytes = b""
    made: float = float("-inf")


class SharedAnswers:
    """Answers by what was asked."""

    def __init__(self) -> None:
        self._answers: dict[tuple[Any, ...], _SharedAnswer] = {}
        self._lock = Lock()

    def get(self, asked: tuple[Any, ...], make: Callable[[], bytes]) -> bytes:
        """Return the answer, made by ``make`` unless another request has just made it; errors are not remembered.

        >>> answers, made = SharedAnswers(), []
        >>> [answers.get(("jobs",), lambda: made.append(1) or b"[]") for _ in range(3)], len(made)
        ([b'[]', b'[]', b'[]'], 1)
        """
        with self._lock:
            if len(self._answers) >= _MOST:
                self._answers.clear()
            answer = self._answers.setdefault(asked, _SharedAnswer())
        with answer.lock:
            if time.monotonic() - answer.made > _FRESH_S:
                answer.body = make()
                answer.made = time.monotonic()
            return answer.body

    def forget(self) -> None:
        """Make every answer again: something was changed."""
        with self._lock:
            self._answers.clear()


def get_answers(request: Request) -> SharedAnswers:
    """Return the shared answers of this application."""
    answers: SharedAnswers = request.app.state.answers
    return answers


def respond_once(request: Request, kind: TypeAdapter[Any], asked: tuple[Any, ...], make: Callable[[], Any]) -> Response:
    """Return a value as JSON, made and encoded once for all who ask at the same time."""
    body = get_answers(request).get(asked, lambda: kind.dump_json(make()))
    return Response(body, media_type="application/json")
