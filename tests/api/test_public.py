"""What is public: importable quickly, typed, documented, and nothing else in the reference."""

from __future__ import annotations

import doctest
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import slipstream as ss
from slipstream import functions, testing, udf
from slipstream._moving import sql_functions as moving
from slipstream._moving import types

ROOT = Path(__file__).parents[2]
#: on pages that follow from the code, and need no test that they use its names
GENERATED = "Written by `make docs` from the code."
PAGES = [path for path in (ROOT / "docs").rglob("*.md") if GENERATED not in path.read_text(encoding="utf-8")]


def test_the_public_names_are_about_forty_and_all_there() -> None:
    assert len(ss.__all__) == len(set(ss.__all__))
    assert 25 <= len(ss.__all__) <= 45
    for name in ss.__all__:
        assert getattr(ss, name) is not None
    assert set(ss.__all__) <= set(dir(ss))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ss.nothing  # noqa: B018


def test_every_public_name_has_a_level_of_stability() -> None:
    table = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")
    named = {name.removeprefix("slipstream.") for name in re.findall(r"`([\w.]+)`", table)}
    assert set(ss.__all__) - named == set()


def test_importing_the_package_imports_nothing_else() -> None:
    code = (
        "import sys; before = set(sys.modules); import slipstream as ss; "
        "assert set(sys.modules) - before <= {'slipstream', '__future__'}, set(sys.modules) - before; "
        "ss.SlipstreamError; assert not {'pyspark', 'pyarrow', 'numpy', 'pandas', 'numba'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


#: modules, and values that are no more than what they hold
PLAIN = ("functions", "testing", "udf", "REPORT", "FAILPOINTS")
PUBLIC = [
    f"{module.__name__}.{name}"
    for module in (ss, functions, testing, udf)
    for name in module.__all__
    if name not in PLAIN
]


def _public(name: str) -> Any:
    module, _, label = name.rpartition(".")
    return getattr(sys.modules[module], label)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example_that_runs(name: str) -> None:
    """Examples are run with the tests: pytest collects those of every module in src."""
    found = _public(name)
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(found) or "")
    assert examples
    assert not any(example.options.get(doctest.SKIP) for example in examples)
    # where pytest looks for it
    assert found.__module__.startswith("slipstream.")


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_method_has_a_description(name: str) -> None:
    found = _public(name)
    members = vars(found).items() if inspect.isclass(found) else ()
    for label, member in members:
        if not label.startswith("_") and (callable(member) or isinstance(member, property | classmethod)):
            assert inspect.getdoc(member), f"{name}.{label}"


#: what works on DataFrames, or on columns in Python alone
NOT_IN_SQL = {"check_systems", "density", "extent_all", "flows", "region_of", "register", "tcount"}


def test_functions_has_every_operator_with_its_parameters() -> None:
    # an operator that exists once per type is one function, with the type as an argument
    by_type = {f"{name}_{kind.name}" for name in moving.names() for kind in types.OVER_TIME} & set(moving.names())
    assert set(functions.__all__) == {*moving.names()} - by_type | NOT_IN_SQL
    arity = {one.name: one.arity for one in moving.FUNCTIONS} | {name: n for name, (_, _, n) in moving.ON_ARROW.items()}
    for name in arity.keys() - by_type:
        found = inspect.signature(getattr(functions, name)).parameters.values()
        assert sum(one.kind is not one.KEYWORD_ONLY for one in found) == arity[name], name
        assert getattr(functions, name).__doc__


def test_a_public_module_is_found_by_its_name_alone() -> None:
    code = "import slipstream as ss; ss.functions.travelled; ss.udf.scalar; ss.testing.MemoryHost"
    subprocess.run([sys.executable, "-c", code], check=True)


def _shown_to_users() -> list[Path]:
    """Examples, notebooks, and the pages of the documentation that are written by hand."""
    examples = [path for path in (ROOT / "examples").rglob("*") if path.suffix in (".py", ".ipynb", ".yaml", ".sql")]
    return sorted([*examples, ROOT / "README.md", *(page for page in PAGES if page.parent.name != "api")])


@pytest.mark.parametrize("path", _shown_to_users(), ids=lambda path: path.name)
def test_what_users_read_has_public_names_only(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    assert not re.findall(r"slipstream\._[a-z]\w*|from slipstream import _\w+", text)


def test_a_stranger_s_program_has_types() -> None:
    examples = [path for kind in ("python", "networks", "cuboids") for path in (ROOT / "examples" / kind).glob("*.py")]
    files = [ROOT / "tests" / "api" / "stranger.py", *sorted(examples)]
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", ROOT / "pyproject.toml", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
