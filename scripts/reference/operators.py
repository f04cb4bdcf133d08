"""The operators on moving points: what each takes, gives and means."""

from __future__ import annotations

import inspect

from reference.tables import WRITTEN, first_line, table
from slipstream._moving import sql_functions

#: what the columns of a kernel are called in SQL
_TYPES = {
    "MPoints": "mpoint",
    "Longs": "instant",
    "Periods": "periods",
    "Points": "point",
    "IPoints": "ipoint",
    "MReals": "mreal",
    "MBools": "mbool",
    "Floats": "number",
    "Bools": "boolean",
    "Ints": "int",
    "Temporals": "value over time",
    "Boxes": "stbox",
    "str": "text",
    "Any": "any",
}
#: the types of values over time
_OVER_TIME = ("tfloat", "tint", "tbool", "ttext")


def page() -> str:
    """The page."""
    return "\n".join(
        (
            "# Moving-point operators\n\n" + WRITTEN,
            "`slipstream.functions.register(spark)` makes them functions of a session's SQL; "
            "`slipstream.functions.NAME` works on DataFrame columns. "
            "Types: [file formats](formats.md#trajectories); "
            "a *value over time* is a tfloat, a tint, a tbool or a ttext. "
            "What they mean: [moving points](../explanation/moving-points.md).\n",
            table(("operator", "takes", "gives", ""), sorted(_kernels())),
            "## On arrays\n",
            table(("operator", "gives", ""), sorted(_on_arrays())),
            "## Expanded by Spark\n\nNo Python is involved in these.\n",
            table(("operator", "takes", "gives"), _in_sql()),
        )
    )


def _in_sql() -> list[tuple[str, str, str]]:
    return [(f"`{name}`", f"`{takes}`", f"`{gives}`") for name, (takes, gives, _) in sql_functions.IN_SQL.items()]


def _kernels() -> list[tuple[str, str, str, str]]:
    return [
        (f"`{f.name}`", ", ".join(_takes(f)), f.returns.name, first_line(f.compute)) for f in sql_functions.FUNCTIONS
    ]


def _takes(function: sql_functions.Function) -> list[str]:
    found = inspect.signature(function.compute).parameters.values()
    # lines and regions are stored alike; few operators take lines
    known = _TYPES | {"Lines": "line" if function.name in ("line_distance", "line_to_wkt") else "region"}
    # an operator for each type of values over time has the type in its name
    known["Temporals"] = next((kind for kind in _OVER_TIME if function.name.endswith(f"_{kind}")), known["Temporals"])
    return [" or ".join(known[part] for part in str(p.annotation).split(" | ")) for p in found]


def _on_arrays() -> list[tuple[str, str, str]]:
    rows = []
    for name, (returns, call, _) in sql_functions.ON_ARROW.items():
        of = getattr(call, "function", None)
        on = "one value and each of an array" if isinstance(call, sql_functions.Each) else "every value of an array"
        words = f"`{of.name}` on {on}: an array of answers." if of else first_line(call)
        rows.append((f"`{name}`", returns.name, words))
    return rows
