"""Window functions: the SQL aggregates the kernels know, and the user's (init, incr, final) triples.

Scalar user functions need no place here: any function registered with Spark can be called in an expression.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slipstream.errors import BadArgument


@dataclass(frozen=True)
class WindowFunction:
    """A user-defined window function, as in Postgres: a state is opened, fed each tuple of the window, closed.

    ``init`` gets the window's position on the order attribute, ``incr`` the state and the arguments of one tuple in
    order, ``final`` the state; ``returns`` is the type of the result.
    """

    name: str
    init: Callable[[float], Any]
    incr: Callable[..., Any]
    final: Callable[[Any], Any]
    returns: str


_registered: dict[str, WindowFunction] = {}

#: aggregate -> the type of its result, None when that is its argument's
SQL_AGGREGATES: dict[str, str | None] = {
    "count": "integer",
    "count_distinct": "integer",
    "sum": None,
    "avg": "float",
    "min": None,
    "max": None,
    "first": None,
    "last": None,
    "stddev": "float",
    "bool_and": "boolean",
    "bool_or": "boolean",
}


def register(function: WindowFunction) -> WindowFunction:
    """Make a window function known under its name."""
    if function.name in SQL_AGGREGATES:
        raise BadArgument(f"window function {function.name}: SQL has one of that name.", hint="Choose another name.")
    _registered[function.name] = function
    return function


def registered(name: str) -> WindowFunction | None:
    """The user's window function of that name, if there is one."""
    return _registered.get(name)


def known() -> list[str]:
    """All names a window function can have."""
    return sorted([*SQL_AGGREGATES, *_registered])
