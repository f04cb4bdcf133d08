"""The editions of Linear Road for the validator: the numbers of docs/reference/linear-road.md."""

from __future__ import annotations

from dataclasses import dataclass

from slipstream._errors import BadArgument

TOLL, ALERT, BALANCE, EXPENDITURE, TRAVEL_TIME = range(5)

#: display names of the kinds of answers
ANSWERS = {
    TOLL: "toll notification",
    ALERT: "accident alert",
    BALANCE: "account balance",
    EXPENDITURE: "daily expenditure",
    TRAVEL_TIME: "travel time",
}


@dataclass(frozen=True)
class Edition:
    """One rule set; ``limits`` are seconds by kind of answer."""

    name: str
    base_toll: int
    free_cars: int
    accident_minutes: int
    limits: tuple[int, int, int, int, int]
    base_credit: int = 0
    frequent_traveller: int | None = None
    expenditure_is_today: bool = False


EDITIONS = {
    edition.name: edition
    for edition in (
        Edition("2004", base_toll=2, free_cars=50, accident_minutes=1, limits=(5, 5, 5, 10, 30)),
        Edition(
            "2003",
            base_toll=2,
            free_cars=150,
            accident_minutes=20,
            limits=(15, 15, 60, 90, 120),
            base_credit=50,
            frequent_traveller=1000,
            expenditure_is_today=True,
        ),
    )
}


def find_edition(name: str) -> Edition:
    """Return the edition called ``name``.

    >>> find_edition("2004").limits
    (5, 5, 5, 10, 30)
    """
    if name not in EDITIONS:
        raise BadArgument(
            f"--rules {name}: no such rule set.",
            hint=f"Use one of: {', '.join(EDITIONS)}.",
            code="unknown-value",
            expected=[*EDITIONS],
            found=name,
        )
    return EDITIONS[name]
