"""Access to a key's recent past as the thesis writes it: ``CAR[100].speed[0]``, ``[-5]``, ``[:]``.

``[0]`` is the latest element, ``[-5]`` the sixth latest. In memory an atomic stream is a ring buffer; ``Ring`` has the
buffers of many keys, or the windows of many arrivals, which have the same form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slipstream._cuboid.schema import AST, Schema
from slipstream._errors import BadArgument
from slipstream._tools.numba_tools import Ints, compiled

#: cuboid, a number or a quoted text in brackets, an attribute, an element; a quote in a text is written twice
_REFERENCE = (
    r"""\s*(\w+)\s*\[\s*(?:(-?\d+)|('(?:[^']|'')*'|"(?:[^"]|"")*"))\s*\]"""
    r"(?:\s*\.\s*(\w+)\s*(?:\[\s*(-?\d+|:)\s*\])?)?\s*"
)


class Ring(NamedTuple):
    """Atomic streams of many keys: element ``k`` back of row i is ``values[i, (counts[i] - 1 - k) % depth]``."""

    values: npt.NDArray[Any]
    counts: npt.NDArray[Any]


@compiled
def order_latest_first(values: npt.NDArray[Any], counts: npt.NDArray[Any], rows: Ints) -> npt.NDArray[Any]:
    """The elements of some rows, the latest first; 0 where nothing was ever appended."""
    depth = values.shape[1]
    out = np.zeros((rows.size, depth), dtype=values.dtype)
    for i in range(rows.size):
        count = int(counts[rows[i]])
        for back in range(min(count, depth)):
            out[i, back] = values[rows[i], (count - 1 - back) % depth]
    return out


class Entity:
    """One key of a cuboid: its attributes by name."""

    def __init__(self, schema: Schema, row: npt.NDArray[np.void], key: int | str) -> None:
        self._schema = schema
        self._row = row
        self._key = key

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        attribute = self._schema.attribute(name)
        if not isinstance(attribute, AST):
            return self._row[attribute.name][0].item()
        count = int(self._row[attribute.count][0])
        elements = order_latest_first(self._row[attribute.name], self._row[attribute.count], np.zeros(1, np.int32))
        return StreamPast(f"{self._schema.name}.{attribute.name}", elements[0][:count], count)

    def values(self) -> dict[str, Any]:
        """All attributes as numbers, and lists with the latest first."""
        found: dict[str, Any] = {self._schema.key: self._key}
        for name in self._schema.names:
            value = getattr(self, name)
            found[name] = value[:] if isinstance(value, StreamPast) else value
        return found

    def __repr__(self) -> str:
        return f"{self._schema.name}{self.values()}"


@dataclass(frozen=True)
class StreamPast:
    """An atomic stream of one key; ``ticks`` is how many elements were ever appended."""

    name: str
    elements: npt.NDArray[Any]
    ticks: int

    def __len__(self) -> int:
        return int(self.elements.size)

    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            if (place.start, place.stop, place.step) != (None, None, None):
                raise BadArgument(
                    f"{self.name}: the only range is [:].",
                    hint="[0] is the latest element, [-1] the one before.",
                    code="out-of-range",
                )
            return self.elements.tolist()
        if place > 0:
            raise BadArgument(
                f"{self.name}[{place}]: in the future.",
                hint="[0] is the latest element, [-5] the sixth latest.",
                code="out-of-range",
            )
        if -place >= self.elements.size:
            raise BadArgument(
                f"{self.name}[{place}]: there are only {self.elements.size} elements.", code="out-of-range"
            )
        return self.elements[-place].item()


@dataclass(frozen=True)
class Reference:
    """A parsed ``CAR[100].speed[0]``."""

    cuboid: str
    key: int | str
    attribute: str = ""
    place: int | slice | None = None

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Parse a reference.

        >>> Reference.parse("CAR[100].speed[-5]")
        Reference(cuboid='CAR', key=100, attribute='speed', place=-5)
        >>> Reference.parse("CAR[100]")
        Reference(cuboid='CAR', key=100, attribute='', place=None)
        >>> Reference.parse("CAR['WVW-1'].speed")
        Reference(cuboid='CAR', key='WVW-1', attribute='speed', place=None)
        """
        match = re.fullmatch(_REFERENCE, text)
        if not match:
            raise BadArgument(
                f"{text!r}: not a reference.",
                hint="Write CAR[100], CAR['WVW123'], CAR[100].speed, [0], [-5] or [:].",
                code="malformed-value",
                found=text,
            )
        cuboid, number, quoted, attribute, place = match.groups()
        index = slice(None) if place == ":" else int(place) if place else None
        key: int | str = int(number) if number else quoted[1:-1].replace(quoted[0] * 2, quoted[0])
        return cls(cuboid, key, attribute or "", index)

    def of(self, entity: Entity) -> Any:
        """The values it refers to."""
        if not self.attribute:
            return entity.values()
        value = getattr(entity, self.attribute)
        if not isinstance(value, StreamPast):
            if self.place is not None:
                raise BadArgument(
                    f"'{self.attribute}' of cuboid {self.cuboid} is a plain attribute.",
                    hint="Remove [...].",
                    code="bad-type",
                )
            return value
        return value[:] if self.place is None else value[self.place]
