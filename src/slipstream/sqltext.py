"""Reading SQL: what sqlglot raises for a text that is none.

Mostly errors of its own, but its parser can also stumble over what it has read so far, as in ``map(a``.
"""

from __future__ import annotations

from sqlglot.errors import SqlglotError

from slipstream.errors import MALFORMED

UNREADABLE = (SqlglotError, *MALFORMED)
