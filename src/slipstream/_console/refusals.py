"""The two ways in which a well-formed wish of the page cannot be granted."""

from __future__ import annotations

from slipstream._errors import BadArgument


class NotThere(BadArgument):
    """The page named something that does not exist."""


class NotNow(BadArgument):
    """It cannot be done in the present state."""
