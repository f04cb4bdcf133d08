"""The streets that BerlinMOD's vehicles drive on: a file's, or the synthetic city's; and weighted regions."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from slipstream._berlinmod.synthetic_city import synthetic_network
from slipstream._errors import MALFORMED, BadArgument, BadInput
from slipstream._roads.importing import street_files
from slipstream._roads.importing.lists import read_nested_list
from slipstream._roads.street_network import StreetNetwork, find_strong, restrict


def read_network(path: Path | None, *, metres: bool = False) -> StreetNetwork:
    """Read the network in ``path``, without what a vehicle could not leave; without a path, the synthetic city.

    It takes the files of ``slipstream roads import``, and the folders that it writes.
    """
    if path is None:
        return synthetic_network()
    if not path.exists():
        raise BadArgument(
            f"--network {path}: no such file.",
            hint="Omit --network to use the synthetic city.",
            code="no-such-file",
            found=path,
        )
    network = street_files.read_network(path, metres=metres)
    kept = find_strong(network)
    return network if kept.all() else restrict(network, kept)


def secondo_regions(path: Path) -> list[tuple[float, list[list[tuple[float, float]]]]]:
    """Read weighted regions: (weight, outer rings) by priority."""
    try:
        rows = sorted(read_nested_list(path)[4], key=lambda row: float(row[0]))
        regions = [
            (_finite(row[1], least=0), [[(_finite(x), _finite(y)) for x, y in face[0]] for face in row[2]])
            for row in rows
        ]
    except MALFORMED as error:
        raise BadInput(
            f"{path}: not (Priority Weight ((((x y) ...)) ...)) ({error}).",
            hint="The file must contain a relation with attributes Priority, Weight and GeoData.",
            code="unreadable-file",
        ) from error
    return regions


def _finite(value: Any, least: float = -math.inf) -> float:
    number = float(value)
    if not math.isfinite(number) or number < least:
        raise ValueError(f"{number} is out of range")
    return number
