"""Position reports: the columns that tolling needs, in plain words, and a recorded run as a source.

Linear Road calls them ``vid``, ``spd``, ``xway``, ``dir``, ``seg`` and ``pos``; both names are accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from slipstream._archive.ended_trips import APART, FOOT, LANE, START, parse_instant
from slipstream._errors import BadInput
from slipstream._feeds.run import Run
from slipstream._feeds.tuples import FIELDS, LINEAR_ROAD, ReportForm
from slipstream._io.readers.user_sources import Source, Tuples
from slipstream._io.report_packing import CLASS
from slipstream._network.algebra import Schema
from slipstream._network.boxes.tolls.toll import NEEDED
from slipstream._network.column_types import plain_type
from slipstream._network.sql.box_expressions import column

#: a field of a report -> what we call it; fields of requests keep their names
PLAIN = {
    "vid": "id",
    "spd": "speed",
    "xway": "expressway",
    "dir": "direction",
    "seg": "segment",
    "pos": "position",
}

#: the columns of a position report and their types; a topic or a socket has these unless a schema says otherwise
REPORT: Mapping[str, str] = dict.fromkeys(
    ("id", "time", "speed", "expressway", "lane", "direction", "segment", "position"), "bigint"
)

#: tuples that a batch of a run has, roughly
_PER_BATCH = 500_000
#: where places of Linear City lie, from the columns of a report; E0 makes a number a double, not a decimal
_X = f"{{pos}} * {FOOT!r}E0"
_Y = f"{{xway}} * {APART!r}E0 + if({{dir}} = 0, {LANE!r}E0, -{LANE!r}E0) * ({{lane}} + 1)"


def map_toll_columns(schema: Schema, form: ReportForm = LINEAR_ROAD) -> dict[str, str]:
    """Return what the toll box needs, as expressions over a stream; raises ``BadInput`` if a column is missing.

    Rules for real roads round numbers down that are not whole.
    """
    wanted = (*FIELDS, *([CLASS] if form.classes > 1 else []))
    found = {field: column(name) for field in wanted if (name := _find_column(schema, field))}
    if missing := [field for field in form.needed if field not in found]:
        field, needed = missing[0], [PLAIN.get(name, name) for name in form.needed]
        raise BadInput(
            f"toll: no column {PLAIN.get(field, field)!r}.",
            hint=f"Tolling needs {', '.join(needed)}; the stream has {', '.join(schema)}.",
            code="unknown-column",
            found=[*schema],
            expected=needed,
        )
    if form.needs_lanes:
        return found
    whole = [field for field in found if plain_type(schema[_find_column(schema, field)]) == "float"]
    return found | {field: f"cast(floor({found[field]}) as bigint)" for field in whole}


def has_reports(schema: Schema) -> bool:
    """Return whether a stream has the columns of position reports."""
    return all(_find_column(schema, field) for field in NEEDED)


def place_columns(schema: Schema) -> dict[str, str]:
    """Return id, time and place of a position report, in the plane of Linear City, as expressions.

    The road, the direction and the lane, which say where a trip ends, come with them.
    """
    names = {field: column(_find_column(schema, field)) for field in NEEDED}
    return {
        "id": names["vid"],
        "time": f"{names['time']} + {parse_instant(START)}",
        "x": _X.format(**names),
        "y": _Y.format(**names),
        "road": names["xway"],
        "direction": names["dir"],
        "lane": names["lane"],
    }


def _find_column(schema: Schema, field: str) -> str:
    """The column of a stream that holds a field; empty if it has none."""
    return next((name for name in (field, PLAIN.get(field, "")) if name in schema), "")


class RunSource(Source):
    """A recorded run, minute by minute; ``columns`` maps each column to a field."""

    def __init__(self, path: str, columns: Mapping[str, str]) -> None:
        self.path, self.columns = str(Path(path).absolute()), dict(columns)
        self.schema = dict.fromkeys(columns, "bigint")
        run = _open_run(self.path)
        tuples = sum(run.manifest.counts.values())
        self._minutes = max(1, _PER_BATCH * len(run.minutes) // max(tuples, 1))

    def latest(self, start: int) -> int:
        """As many minutes as a batch takes."""
        return min(start + self._minutes, len(_open_run(self.path).minutes))

    def has_ended(self, position: int) -> bool:
        """After the last minute."""
        return position == len(_open_run(self.path).minutes)

    def read(self, start: int, end: int) -> Tuples:
        """All tuples of some minutes, the copies of a multiplied run among them, in the order of time."""
        run = _open_run(self.path)
        table = run.tuples(run.minutes[start:end])
        return pa.table({column: table[field] for column, field in self.columns.items()})


@lru_cache(maxsize=4)
def _open_run(path: str) -> Run:
    return Run.open(Path(path))
