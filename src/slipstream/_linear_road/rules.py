"""Rule sets: what a segment costs, as data and one function. docs/reference/linear-road.md has them in words."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np

from slipstream._errors import BadArgument
from slipstream._tools.numba_tools import Longs

#: (Lav, cars of the minute before) of many segments -> tolls; a segment near an accident is free whatever it says
TollFunction = Callable[[Longs, Longs], Longs]


@dataclass(frozen=True)
class Rules:
    """One edition of Linear Road, or rules of your own.

    ``toll`` is a function from the average speeds and car counts of many segments to their tolls.

    >>> flat = Rules("flat", toll=lambda lav, cars: np.where(cars > 10, 100, 0))
    >>> flat.toll(np.array([30, 30]), np.array([5, 50])).tolist()
    [0, 100]
    """

    name: str
    toll: TollFunction
    accident_minutes: int = 1  # how many minutes before this one an accident counts
    base_credit: int = 0  # for leaving by the exit ramp near an accident
    frequent_traveller: int = -1  # tolls charged from which on one pays half; -1: never
    expenditure_is_today: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Rules that can be found by name travel by name: their toll function need not be picklable."""
        if self.name in RULES or ":" in self.name:
            return find, (self.name,)
        return Rules, tuple(getattr(self, field.name) for field in fields(self))


def squares(base: int, free_cars: int) -> TollFunction:
    """The published form: base * (cars - free)^2 where it is slow and crowded.

    >>> squares(2, 50)(np.array([39, 39, 40]), np.array([60, 50, 60])).tolist()
    [200, 0, 0]
    """

    def toll(lav: Longs, cars: Longs) -> Longs:
        return np.where((lav < 40) & (cars > free_cars), base * (cars - free_cars) ** 2, 0)

    return toll


RULES = {
    "2004": Rules("2004", squares(2, 50)),
    "2003": Rules("2003", squares(2, 150), 20, base_credit=50, frequent_traveller=1000, expenditure_is_today=True),
}


#: rule sets of the user's own, by name
_registered: dict[str, Rules] = {}


def register(rules: Rules) -> Rules:
    """Make a rule set known under its name."""
    if rules.name in RULES:
        raise BadArgument(f"rules {rules.name!r}: that name is taken.", hint="Choose another name.")
    _registered[rules.name] = rules
    return rules


def registered(name: str) -> Rules | None:
    """Return a rule set of the user's own, if there is one of that name."""
    return _registered.get(name)


def known() -> list[str]:
    """Return the names of all rule sets."""
    return [*RULES, *_registered]


def find(name: str) -> Rules:
    """A rule set by name, or a user's toll function as ``module:function``."""
    if rules := RULES.get(name) or registered(name):
        return rules
    module, separator, function = name.partition(":")
    if not separator:
        raise BadArgument(
            f"--rules {name}: unknown.", hint=f"Known: {', '.join(known())}; or module:function for a toll of your own."
        )
    try:
        toll = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise BadArgument(f"--rules {name}: {error}.", hint="The module must be importable from here.") from error
    return Rules(name, cast("TollFunction", toll))
