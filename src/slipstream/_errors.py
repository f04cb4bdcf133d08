"""Errors a user can act on: what was wrong, what was expected, what to do next.

Every error that reaches a user is a :class:`SlipstreamError`; the command line prints its message and
``hint`` and leaves with its ``exit_code``. Anything else is a bug and keeps its traceback.
"""

from __future__ import annotations

# What taking text or bytes apart raises when they are not as they should be, in Python and in the readers we use.
# Keep the reader in the try small: a mistake of ours in it would be called the user's.
MALFORMED = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    NotImplementedError,
    RecursionError,
    SyntaxError,
)


class SlipstreamError(Exception):
    """Base of all errors meant for people.

    >>> print(BadInput("run.csv, line 3: 14 fields", hint="A Linear Road line has 15 integers."))
    run.csv, line 3: 14 fields
    A Linear Road line has 15 integers.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message and the hint, without the frames of our own code."""
        return [f"{type(self).__name__}: {self.message}", *([self.hint] if self.hint else [])]


class BadArgument(SlipstreamError):
    """An argument or option that cannot be used as given."""

    exit_code = 2


class BadInput(SlipstreamError):
    """A file or stream whose contents cannot be used."""

    exit_code = 3


class Unavailable(SlipstreamError):
    """Something the machine lacks: Java, disk space, a server, a port."""

    exit_code = 4


class CheckFailed(SlipstreamError):
    """The work was done and a check of its result said no."""

    exit_code = 5
