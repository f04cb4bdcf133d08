"""--functions FILE: the file is run as a module; a mistake in it is named with its line."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from slipstream._cli.common.user_functions import load_functions
from slipstream._errors import BadArgument


def test_what_the_file_defines_travels_whole(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    file = tmp_path / "own_functions.py"
    file.write_text("def double(x):\n    return 2 * x\n")
    load_functions(file)
    carried = cloudpickle.dumps(sys.modules["own_functions"].double)
    del sys.modules["own_functions"]
    assert pickle.loads(carried)(4) == 8


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("x = 1\nx = (\n", 2, "SyntaxError: '(' was never closed."),
        ("x = 1\n\nraise ValueError('no')\n", 3, "ValueError: no."),
        ("import nothing_of_the_kind\n", 1, "ModuleNotFoundError: No module named 'nothing_of_the_kind'."),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    file = tmp_path / "wrong_functions.py"
    file.write_text(text)
    with pytest.raises(BadArgument) as refused:
        load_functions(file)
    assert refused.value.message == f"{file}, line {line}: {message}"
    assert (refused.value.place.file, refused.value.place.line) == (str(file), line)
    assert "wrong_functions" not in sys.modules


def test_a_file_that_is_missing_or_not_python_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match="no such file"):
        load_functions(tmp_path / "none.py")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(BadArgument, match="not a Python file"):
        load_functions(tmp_path / "notes.txt")
