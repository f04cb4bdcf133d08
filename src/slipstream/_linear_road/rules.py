"""Rule sets: what a segment costs, as data and one function. docs/reference/linear-road.md describes them."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from slipstream._errors import BadArgument, BadInput
from slipstream._feeds.tuples import LINEAR_ROAD, REPORT_EVERY, ReportForm
from slipstream._linear_road.general import GeneralRules, RoadSettings, SegmentMinute, Tariff, read_settings
from slipstream._tools.numba_tools import Longs
from slipstream._tools.strict_json import parse_json

#: (Lav, cars in the previous minute) of many segments -> tolls; a segment near an accident is free regardless
TollFunction = Callable[[Longs, Longs], Longs]
#: what general rules have instead
RoadToll = Callable[[SegmentMinute], Longs]
HIGHEST_TOLL = 2**31 - 1


@dataclass(frozen=True)
class Rules:
    """One edition of Linear Road, or custom rules.

    ``toll`` maps the average speeds and car counts of many segments to their tolls. With ``road``, the settings of a
    real road, it gets one argument with more information; :meth:`general` makes such rules.

    >>> flat = Rules("flat", toll=lambda lav, cars: np.where(cars > 10, 100, 0))
    >>> flat.toll(np.array([30, 30]), np.array([5, 50])).tolist()
    [0, 100]
    """

    name: str
    toll: TollFunction | RoadToll
    accident_minutes: int = 1  # for how many minutes an accident counts
    base_credit: int = 0  # for leaving by the exit ramp near an accident
    frequent_traveller: int = -1  # total tolls from which on a vehicle pays half; -1: never
    expenditure_is_today: bool = False
    road: RoadSettings | None = None  # None: the benchmark's conditions

    @classmethod
    def general(
        cls,
        name: str = "road",
        toll: RoadToll | None = None,
        *,
        accident_minutes: int = 1,
        base_credit: int = 0,
        frequent_traveller: int = -1,
        **settings: Any,
    ) -> Rules:
        """Return rules for a real road, with the settings of ``slipstream.RoadSettings``.

        ``toll`` gets a ``slipstream.SegmentMinute``: arrays with an element for each segment and class of vehicles. It
        decides what is free near an accident. Without it, a segment costs 10.

        >>> def by_night(at):
        ...     return np.where((at.minute_of_day < 300) | at.accident, 0, 12)
        >>> rules = Rules.general("ring", by_night, report_every=5, segment_length=2000)
        >>> rules.road.trip_gap
        60
        """
        return cls(
            name, toll or Tariff(), accident_minutes, base_credit, frequent_traveller, True, RoadSettings(**settings)
        )

    @property
    def form(self) -> ReportForm:
        """The form of position reports."""
        return self.road.form if self.road else LINEAR_ROAD

    @property
    def trip_gap(self) -> int:
        """The silence that ends a trip, in seconds."""
        return self.road.trip_gap if self.road else REPORT_EVERY

    def price(self, at: SegmentMinute) -> Longs:
        """Return the tolls of segments, checked."""
        if self.road:
            found = cast("RoadToll", self.toll)(at)
        else:
            found = np.where(at.accident, 0, cast("TollFunction", self.toll)(at.speed, at.cars))
        tolls = np.asarray(found)
        if tolls.shape != at.speed.shape or not np.issubdtype(tolls.dtype, np.number):
            raise BadInput(
                f"Rules {self.name} returned {tolls.dtype} of the shape {tolls.shape} for {at.speed.size} segments.",
                hint="A toll function must return a number for each segment that it is given.",
                code="user-code",
            )
        wrong = tolls[~((tolls >= 0) & (tolls <= HIGHEST_TOLL))]
        if wrong.size:
            raise BadInput(
                f"Rules {self.name} returned a toll of {wrong[0]:,}.",
                hint=f"A toll function must return 0 to {HIGHEST_TOLL:,}.",
                code="user-code",
            )
        return tolls.astype(np.int64)

    def price_means(self, speed: Any, cars: Any) -> Any:
        """Return the tolls of segments by their mean speeds and cars, which need not be whole."""
        if self.road:
            return cast("RoadToll", self.toll)(SegmentMinute.of_means(speed, cars))
        return cast("TollFunction", self.toll)(speed, cars)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by name where possible, else with the toll function: it may be defined in a script."""
        if self.name in RULES or ":" in self.name:
            return find_rules, (self.name,)
        return _restore, (self._pickled,)

    @cached_property
    def _pickled(self) -> bytes:
        from pyspark import cloudpickle

        found = tuple(getattr(self, field.name) for field in fields(self))
        return bytes(cloudpickle.dumps(found))  # type: ignore[no-untyped-call]


def _restore(pickled: bytes) -> Rules:
    return Rules(*pickle.loads(pickled))


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
    "general": Rules("general", Tariff(), expenditure_is_today=True, road=RoadSettings()),
}
#: the name of general rules with settings is this word, and the settings
GENERAL = "general"


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
    """Return a rule set by name, or with a user's own given as ``module:name``: a toll function, or rules.

    The name of general rules may have settings: ``name_general`` makes it.
    """
    if rules := RULES.get(name) or find_registered(name):
        return rules
    if name.startswith(f"{GENERAL} {{"):
        return _make_general(name)
    module, separator, function = name.partition(":")
    if not separator:
        raise BadArgument(
            f"--rules {name}: unknown rule set.",
            hint=f"Use one of {', '.join(list_rules())}, or module:name for a toll function or rules of your own.",
            code="unknown-value",
            expected=[*list_rules()],
            found=name,
        )
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise BadArgument(
            f"--rules {name}: {error}.", hint="The module must be importable.", code="user-code"
        ) from error
    return replace(found, name=name) if isinstance(found, Rules) else Rules(name, cast("TollFunction", found))


def name_general(file: Path) -> str:
    """Return the name of the general rules with the settings of a file."""
    return f"{GENERAL} {read_settings(file).to_text()}"


def _make_general(name: str) -> Rules:
    given = GeneralRules.from_body(parse_json(name.removeprefix(GENERAL)))
    return Rules(
        name,
        given.tariff,
        given.accident_minutes,
        given.base_credit,
        given.frequent_traveller,
        given.expenditure_is_today,
        given.road,
    )
