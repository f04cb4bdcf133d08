"""``slipstream examples``: the networks, schemas and notebooks that the documentation uses."""

from __future__ import annotations

import shutil
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from slipstream._cli.common.options import Json, show
from slipstream._cli.common.overwriting import HINT, replacing
from slipstream._errors import Unavailable
from slipstream._tools.files.staging import staged_folder


def examples(
    out: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write them.")] = Path("examples"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder if it exists.")] = False,
    as_json: Json = False,
) -> None:
    """Write the examples: networks with their data, cuboid schemas, notebooks.

    Examples:

    `slipstream examples` # writes the folder examples

    `slipstream network draw examples/networks/border.yaml --out border.svg` # draws one of them
    """
    source = find_examples()
    with replacing(out, overwrite, "networks"), staged_folder(out, label="", hint=HINT) as stage:
        shutil.copytree(source, stage, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    show({"out": str(out), "folders": sorted(path.name for path in out.iterdir())}, as_json=as_json, title="Examples")


def find_examples() -> Path:
    """Return the folder of the examples: in the installed package, or beside the sources in a clone."""
    package = Path(str(files("slipstream")))
    for place in (package / "examples", package.parents[1] / "examples"):
        if (place / "networks").is_dir():
            return place
    raise Unavailable(
        "This installation has no examples.",
        hint="Install Slipstream from a wheel or a clone.",
        code="missing-software",
    )


def add_to(app: typer.Typer) -> None:
    """Put the command on the command line."""
    app.command()(examples)
