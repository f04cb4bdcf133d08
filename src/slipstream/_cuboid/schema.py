"""The schema of a cuboid: a key, plain attributes, and atomic streams that keep their latest n elements."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from slipstream._errors import BadArgument

KEY = "key"
#: the name of the key's text, where a key is declared as text; ``KEY`` is the number that stands for it in a fragment
KEY_TEXT = "key text"
#: NumPy's names of the types that attributes may have
DTYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "f4", "f8")
#: the most elements of an atomic stream
MOST_ELEMENTS = 10_000


@dataclass(frozen=True)
class Plain:
    """An attribute with one value, such as a balance."""

    name: str
    dtype: str


@dataclass(frozen=True)
class AST:
    """An atomic stream: the latest ``depth`` elements of an attribute, such as a speed."""

    name: str
    dtype: str
    depth: int
    ticks: str = "u4"  # the type of the count; i8 if a key may get more than four billion elements

    @property
    def count(self) -> str:
        """The column that counts the elements ever appended."""
        return f"{self.name}#"


@dataclass(frozen=True)
class Schema:
    """The declaration of a cuboid.

    >>> car = Schema("CAR", (AST("speed", "u1", 6), Plain("lane", "u1")))
    >>> car.dtype.itemsize
    19
    >>> car.attribute("sped")
    Traceback (most recent call last):
        ...
    slipstream._errors.BadArgument: No attribute 'sped' in cuboid CAR; it has: speed, lane.
    """

    name: str
    attributes: tuple[Plain | AST, ...]
    key: str = KEY  # what people call the key
    newest: str = ""  # where two fragments hold one key, the row with the larger value of this attribute counts
    text_key: bool = False  # whether keys are texts; rows then hold numbers that the fragment's names stand behind

    def __post_init__(self) -> None:
        names = [attribute.name for attribute in self.attributes]
        if len(set(names)) != len(names) or KEY in names:
            raise BadArgument(
                f"Cuboid {self.name}: attribute names must differ from each other and from '{KEY}'.",
                hint="Rename one of them.",
                code="duplicate-name",
            )

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        """One row of the table, packed."""
        fields: list[tuple[str, str] | tuple[str, str, tuple[int, ...]]] = [(KEY, "<i8")]
        for attribute in self.attributes:
            if isinstance(attribute, AST):
                fields += [
                    (attribute.name, f"<{attribute.dtype}", (attribute.depth,)),
                    (attribute.count, f"<{attribute.ticks}"),
                ]
            else:
                fields.append((attribute.name, f"<{attribute.dtype}"))
        return np.dtype(fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes' names."""
        return tuple(attribute.name for attribute in self.attributes)

    def attribute(self, name: str) -> Plain | AST:
        """The attribute of that name; case does not matter."""
        for attribute in self.attributes:
            if attribute.name.lower() == name.lower():
                return attribute
        raise BadArgument(
            f"No attribute '{name}' in cuboid {self.name}; it has: {', '.join(self.names)}.",
            code="unknown-column",
            found=name,
            expected=self.names,
        )

    def stream(self, name: str) -> AST:
        """The atomic stream of that name."""
        attribute = self.attribute(name)
        if not isinstance(attribute, AST):
            raise BadArgument(
                f"'{name}' of cuboid {self.name} is a plain attribute, not an atomic stream.", code="bad-type"
            )
        return attribute

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        attributes = [
            [a.name, a.dtype, a.depth, a.ticks] if isinstance(a, AST) else [a.name, a.dtype] for a in self.attributes
        ]
        body = {"name": self.name, "key": self.key, "newest": self.newest, "attributes": attributes}
        return {**body, "text_key": True} if self.text_key else body

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Schema:
        """Convert from JSON.

        >>> car = Schema("CAR", (AST("speed", "u1", 6), Plain("lane", "u1")), key="vid")
        >>> Schema.from_json(car.to_json()) == car
        True
        """
        attributes = tuple(_make_attribute(*form) for form in body["attributes"])
        text_key = bool(body.get("text_key", False))
        return cls(str(body["name"]), attributes, str(body["key"]), str(body["newest"]), text_key)


def _make_attribute(name: str, dtype: str, depth: int = 0, ticks: str = "u4") -> Plain | AST:
    """Create an attribute from JSON; refuse invalid values."""
    sound = isinstance(name, str) and name and dtype in DTYPES and ticks in DTYPES
    if not sound or type(depth) is not int or not 0 <= depth <= MOST_ELEMENTS:
        raise ValueError(f"no attribute {[name, dtype, depth, ticks]}")
    return AST(name, dtype, depth, ticks) if depth else Plain(name, dtype)
