"""The Python API: what is public, and nothing else.

A page lists the public names of a module with the first line of each; the site adds the whole description of those
names (see scripts/website/hooks.py). What is public is what ``__all__`` says.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

from reference.tables import WRITTEN, first_line, table

#: the modules whose names are public
MODULES = {
    "slipstream": "slipstream.md",
    "slipstream.functions": "functions.md",
    "slipstream.testing": "testing.md",
    "slipstream.udf": "udf.md",
}


def pages() -> dict[str, str]:
    """Every page of the API."""
    rows = [(f"[{name}]({page})", first_line(import_module(name))) for name, page in MODULES.items()]
    index = (
        f"# Python API\n\n{WRITTEN}\n{table(('module', ''), rows)}\n"
        "The [tutorial](../../tutorials/python.md) shows how they work together; [stability](../../stability.md) says "
        "what may change. Everything else is internal.\n"
    )
    return {"api/index.md": index, **{f"api/{page}": _page(name) for name, page in MODULES.items()}}


def _page(name: str) -> str:
    module = import_module(name)
    names = [one for one in sorted(module.__all__, key=str.lower) if not inspect.ismodule(getattr(module, one))]
    rows = [(f"`{one}`", _summary(getattr(module, one))) for one in names]
    described = {one: found for one in names if callable(found := getattr(module, one))}
    marks = "\n".join(f"<!-- api: {_place(name, one, found)} -->" for one, found in described.items())
    return f"# {name}\n\n{first_line(module)}\n\n{table(('name', ''), rows)}\n{marks}\n"


def _summary(found: Any) -> str:
    """The first paragraph of what a name's docstring says; of a plain value, the value."""
    if not callable(found):
        return f"`{found!r}`" if len(repr(found)) < 200 else ""
    text = (inspect.getdoc(found) or "").partition("\n\n")[0].replace("\n", " ")
    return re.sub(r":\w+:(?=`)", "", text)


def _place(module: str, name: str, found: Any) -> str:
    """Where a name is defined, which is where the site finds its description."""
    return f"{getattr(found, '__module__', module)}.{getattr(found, '__name__', name)}"
