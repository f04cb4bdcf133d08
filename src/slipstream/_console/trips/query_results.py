"""The results of the 17 queries for display: a table, and points and paths for the map."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slipstream._berlinmod import queries
from slipstream._console.errors import NotFound
from slipstream._errors import BadInput

_MOST_PLACES = 20_000


@dataclass(frozen=True)
class QuerySummary:
    """A query with results."""

    query: int
    title: str
    rows: dict[str, int]


@dataclass
class QueryResult:
    """A result: columns and rows as text, and its geometries for the map."""

    title: str
    total: int
    columns: list[str]
    rows: list[list[Any]]
    points: list[tuple[float, float]] = field(default_factory=list)
    lines: list[list[tuple[float, float]]] = field(default_factory=list)
    licences: list[str] = field(default_factory=list)


def read_title(number: int) -> str:
    """Return the title of a query, from the first lines of its text."""
    lines = queries.query_text(number, "tba").splitlines()
    words = [line.removeprefix("--").strip() for line in lines[: next(i for i, w in enumerate(lines) if w[:2] != "--")]]
    return " ".join(words[:2]).partition(": ")[2].partition(". ")[0].rstrip(".")


def list_results(data: Path) -> list[QuerySummary]:
    """Return the queries with results in a data set."""
    out = []
    for number in queries.NUMBERS:
        rows = {form: count for form in queries.REPRESENTATIONS if (count := _count(data, number, form)) is not None}
        if rows:
            out.append(QuerySummary(number, read_title(number), rows))
    return out


def _files(data: Path, number: int, form: str) -> list[Path]:
    folder = data / "answers" / form / f"q{number:02d}"
    return sorted(folder.glob("*.parquet")) if (folder / "_SUCCESS").exists() else []


def _count(data: Path, number: int, form: str) -> int | None:
    files = _files(data, number, form)
    return sum(pq.read_metadata(file).num_rows for file in files) if files else None


def read_result(data: Path, number: int, form: str, most: int) -> QueryResult:
    """Return the first rows of a result, and its geometries up to a limit."""
    files = _files(data, number, form)
    if not files:
        raise NotFound(
            f"Query {number} has not been run there.", hint=f"slipstream berlinmod run {data.name} --only {number}"
        )
    try:
        table = pa.concat_tables([pq.read_table(file) for file in files], promote_options="default")
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"query {number}: {error}", hint="Run the query again.", code="damaged-output") from error
    rows = table.slice(0, most).to_pylist()
    made = QueryResult(
        read_title(number), table.num_rows, table.column_names, [[_display(v) for v in row.values()] for row in rows]
    )
    for name in table.column_names:
        _add_geometries(made, name, table.slice(0, _MOST_PLACES).column(name).to_pylist())
    made.licences = sorted(set(made.licences))
    return made


def _add_geometries(made: QueryResult, name: str, values: list[Any]) -> None:
    if name.startswith("Licence"):
        made.licences += [value for value in values if value]
    for value in values:
        if isinstance(value, dict) and {"x", "y"} <= value.keys():
            if isinstance(value["x"], list):
                made.lines.append(list(zip(value["x"], value["y"], strict=True)))
            else:
                made.points.append((value["x"], value["y"]))


def _display(value: Any) -> Any:
    """Return a value as the table shows it."""
    if isinstance(value, datetime):
        return value.strftime("%a %Y-%m-%d %H:%M:%S")
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, dict):
        return _display_struct(value)
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _display_struct(value: dict[str, Any]) -> str:
    if "t" in value and isinstance(value["t"], list):
        times = value["t"]
        return f"{len(times)} points, {_display(times[0])} to {_display(times[-1])}" if times else "empty"
    if value.keys() == {"x", "y"} and not isinstance(value["x"], list):
        return f"({value['x']:.1f}, {value['y']:.1f})"
    if value.keys() == {"begin", "end"}:
        begins, ends = ([v] if not isinstance(v, list) else v for v in (value["begin"], value["end"]))
        return "; ".join(f"{_display(b)} to {_display(e)}" for b, e in zip(begins, ends, strict=True))
    return "; ".join(
        f"{key} {_display(part) if not isinstance(part, list) else len(part)}" for key, part in value.items()
    )
