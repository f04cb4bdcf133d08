"""``--functions FILE``: run a user's own Python file, which registers functions, boxes or rules."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from slipstream._errors import BadArgument, Place, SlipstreamError

Functions = Annotated[
    Path | None,
    typer.Option(
        "--functions", metavar="FILE", help="A Python file that registers functions of your own. It is executed."
    ),
]


def load_functions(file: Path | None) -> None:
    """Run the file as a module of its name; only a file that the command line names is ever run."""
    if file is None:
        return
    from pyspark import cloudpickle

    if not file.is_file():
        raise BadArgument(
            f"--functions {file}: no such file.", hint="Give a Python file.", code="no-such-file", found=file
        )
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise BadArgument(
            f"--functions {file}: not a Python file.", hint="Its name must end in .py.", code="wrong-file-type"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[file.stem]
        raise _explain(file, error) from error
    # workers cannot import the file, so its functions travel whole
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _explain(file: Path, error: Exception) -> SlipstreamError:
    """The line of the user's file that failed, without the frames around it."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    if isinstance(error, SlipstreamError):
        return error.within(Place(file=str(file), line=line), BadArgument)
    said = f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}"
    return BadArgument(
        f"{said}.",
        place=Place(file=str(file), line=line),
        hint="--functions runs this file: correct it and try again.",
        code="user-code",
    )
