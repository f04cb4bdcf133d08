"""What is public: importable quickly, typed, documented, and nothing else in the reference."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import slipstream as ss
from slipstream import functions, testing
from slipstream._moving import functions as moving

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")


def test_the_public_names_are_about_thirty_and_all_there() -> None:
    assert sorted(ss.__all__, key=str.lower) == sorted(set(ss.__all__), key=str.lower)
    assert 25 <= len(ss.__all__) <= 35
    for name in ss.__all__:
        assert getattr(ss, name) is not None
    assert set(ss.__all__) <= set(dir(ss))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ss.nothing  # noqa: B018


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, slipstream as ss; heavy = {'pyspark', 'pyarrow', 'numpy', 'pandas', 'numba'} & set(sys.modules); "
        "assert not heavy, heavy; ss.SlipstreamError; assert 'pyspark' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", [name for name in ss.__all__ if name not in ("functions", "testing", "REPORT")])
def test_every_public_name_has_an_example(name: str) -> None:
    found = getattr(ss, name)
    text = inspect.getdoc(found) or ""
    assert text
    members = inspect.getmembers(found, inspect.isfunction) if inspect.isclass(found) else []
    own = [member for label, member in members if not label.startswith("_") and label in vars(found)]
    for member in own:
        assert inspect.getdoc(member), f"{name}.{member.__name__}"
    examples = [text, *(inspect.getdoc(member) or "" for member in own)]
    has_example = any(doctest.DocTestParser().get_examples(one) for one in examples)
    # what needs a job that has run has its example in the tutorial, whose blocks run
    assert has_example or f"`{name}`" in TUTORIAL or f"ss.{name}" in TUTORIAL


def test_functions_has_every_operator_with_its_parameters() -> None:
    assert set(functions.__all__) == {*moving.names(), "register"}
    arity = {one.name: one.arity for one in moving.FUNCTIONS} | {name: n for name, (_, _, n) in moving.ON_ARROW.items()}
    for name, count in arity.items():
        assert len(inspect.signature(getattr(functions, name)).parameters) == count, name
        assert getattr(functions, name).__doc__


def test_testing_lists_what_it_offers() -> None:
    assert all(getattr(testing, name).__doc__ for name in testing.__all__ if name != "FAILPOINTS")


def test_a_stranger_s_program_has_types() -> None:
    files = [ROOT / "tests" / "api" / "stranger.py", *sorted((ROOT / "examples" / "python").glob("*.py"))]
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", ROOT / "pyproject.toml", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
