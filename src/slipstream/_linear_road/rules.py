"""Rule sets: what a segment costs, as data and one function. docs/reference/linear-road.md describes them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np

from slipstream._errors import BadArgument
from slipstream._tools.numba_tools import Longs

#: (Lav, cars in the previous minute) of many segments -> tolls; a segment near an accident is free regardless
TollFunction = Callable[[Longs, Longs], Longs]


@dataclass(frozen=True)
class Rules:
    """One edition of Linear Road, or custom rules.

    ``toll`` maps the average speeds and car counts of many segments to their tolls.

    >>> flat = Rules("flat", toll=lambda lav, cars: np.where(cars > 10, 100, 0))
    >>> flat.toll(np.array([30, 30]), np.array([5, 50])).tolist()
    [0, 100]
    """

    name: str
    toll: TollFunction
    accident_minutes: int = 1  # for how many minutes an accident counts
    base_credit: int = 0  # for leaving by the exit ramp near an accident
    frequent_traveller: int = -1  # total tolls from which on a vehicle pays half; -1: never
    expenditure_is_today: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by name where possible: the toll function need not be picklable."""
        if self.name in RULES or ":" in self.name:
            return find_rules, (self.name,)
        return Rules, tuple(getattr(self, field.name) for field in fields(self))


def square_toll(base: int, free_cars: int) -> TollFunction:
    """Return the published toll function: base * (cars - free)^2 on slow, crowded segments.

    >>> square_toll(2, 50)(np.array([39, 39, 40]), np.array([60, 50, 60])).tolist()
    [200, 0, 0]
    """

    def toll(lav: Longs, cars: Longs) -> Longs:
        return np.where((lav < 40) & (cars > free_cars), base * (cars - free_cars) ** 2, 0)

    return toll


RULES = {
    "2004": Rules("2004", square_toll(2, 50)),
    "2003": Rules("2003", square_toll(2, 150), 20, base_credit=50, frequent_traveller=1000, expenditure_is_today=True),
}


#: rule sets of the user's own, by name
_registered: dict[str, Rules] = {}


def register(rules: Rules) -> Rules:
    """Make a rule set known under its name."""
    if rules.name in RULES:
        raise BadArgument(
            f"rules {rules.name!r}: that name is taken.",
            hint="Choose another name.",
            code="duplicate-name",
            found=rules.name,
        )
    _registered[rules.name] = rules
    return rules


def find_registered(name: str) -> Rules | None:
    """Return a rule set of the user's own, if there is one of that name."""
    return _registered.get(name)


def list_rules() -> list[str]:
    """Return the names of all rule sets."""
    return [*RULES, *_registered]


def find_rules(name: str) -> Rules:
    """Return a rule set by name, or with a user's toll function given as ``module:function``."""
    if rules := RULES.get(name) or find_registered(name):
        return rules
    module, separator, function = name.partition(":")
    if not separator:
        raise BadArgument(
            f"--rules {name}: unknown rule set.",
            hint=f"Use one of {', '.join(list_rules())}, or module:function for your own toll function.",
            code="unknown-value",
            expected=[*list_rules()],
            found=name,
        )
    try:
        toll = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise BadArgument(
            f"--rules {name}: {error}.", hint="The module must be importable.", code="user-code"
        ) from error
    return Rules(name, cast("TollFunction", toll))
