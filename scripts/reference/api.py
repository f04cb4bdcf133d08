"""The Python API: a page a package, a section a module, with the first line of everything public.

Each section ends with a mark that the site turns into the whole description (see scripts/website/hooks.py); read in the
repository, a page is a table of contents.
"""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from pkgutil import iter_modules

from reference.tables import WRITTEN, first_line, table

PACKAGES = ("feeds", "city", "cuboid", "linear_road", "archive", "bench", "network", "moving", "berlinmod")


def pages() -> dict[str, str]:
    """Every page of the API."""
    rows = [(f"[{name}]({name}.md)", first_line(import_module(f"slipstream.{name}"))) for name in PACKAGES]
    index = f"# Python API\n\n{WRITTEN}\n{table(('package', ''), rows)}"
    return {"api/index.md": index, **{f"api/{name}.md": page(name) for name in PACKAGES}}


def page(package: str) -> str:
    """The page of a package."""
    found = import_module(f"slipstream.{package}")
    head = f"# slipstream.{package}\n\n{first_line(found)}\n"
    names = sorted(module.name for module in iter_modules(found.__path__) if not module.name.startswith("_"))
    return "\n".join([head, *(_section(f"slipstream.{package}.{name}") for name in names)])


def _section(name: str) -> str:
    module = import_module(name)
    rows = _public(inspect.getsource(module))
    listed = table(("name", ""), rows) + "\n" if rows else ""
    return f"## {name}\n\n{first_line(module)}\n\n{listed}<!-- api: {name} -->\n"


def _public(source: str) -> list[tuple[str, str]]:
    """Classes and functions with a docstring, and its first line."""
    kinds = (ast.ClassDef, ast.FunctionDef)
    found = [node for node in ast.parse(source).body if isinstance(node, kinds) and not node.name.startswith("_")]
    lines = [
        (f"`{node.name}`", (ast.get_docstring(node) or "").partition("\n\n")[0].replace("\n", " ")) for node in found
    ]
    return [(name, line) for name, line in lines if line]
