"""The two ways in which a well-formed wish of the page cannot be granted."""

from __future__ import annotations

from slipstream._errors import BadArgument


class NotThere(BadArgument):
    """The page named something that does not exist."""

    usual_code = "not-there"


class NotNow(BadArgument):
    """It cannot be done in the present state."""

    usual_code = "not-now"
