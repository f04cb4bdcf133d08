"""``slipstream import`` and ``slipstream export``: runs from and to the files of other programs."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slipstream._cli.common.checks import check_new, check_there, check_writable
from slipstream._cli.common.options import Json, MaxRejects, check_rejects, show
from slipstream._cli.common.overwriting import HINT, Overwrite, replacing
from slipstream._errors import BadArgument, Unavailable, classify

if TYPE_CHECKING:
    from slipstream._feeds.run import Run


class SourceFormat(StrEnum):
    """What can be imported."""

    LINEAR_ROAD = "linear-road"
    SUMO = "sumo"


class Target(StrEnum):
    """What can be exported."""

    LINEAR_ROAD = "linear-road"


def import_(
    file: Annotated[Path, typer.Argument(help="The file to import; it may be compressed (.gz).", show_default=False)],
    out: Annotated[Path, typer.Option("--out", help="The folder of the new run.", show_default=False)],
    kind: Annotated[SourceFormat, typer.Option("--format", help="The format of the file.")] = SourceFormat.LINEAR_ROAD,
    map_file: Annotated[
        Path | None,
        typer.Option("--map", metavar="FILE", help="Maps the edges of SUMO to expressways (docs/how-to/sumo.md)."),
    ] = None,
    overwrite: Overwrite = False,
    most: MaxRejects = 1.0,
    as_json: Json = False,
) -> None:
    """Import a file as a run.

    **linear-road**: the published text, 15 integers per line, at most 60 s out of order; `slipstream export` writes the
    same bytes back. A line that cannot be read stops the import.

    **sumo**: floating-car data of a SUMO simulation (`sumo --fcd-output`), laid on expressways by a map. Vehicles on
    edges that the map does not have are left out; `--max-rejects` limits their share.

    Examples:

    `slipstream import datafile20seconds.dat --out runs/real`

    `slipstream import fcd.xml.gz --format sumo --map map.toml --out runs/sumo`
    """
    if (kind is SourceFormat.SUMO) != (map_file is not None):
        raise BadArgument(
            "--map and --format sumo require each other.",
            hint="docs/how-to/sumo.md shows a map.",
            code="conflicting-options",
        )
    check_there(file, map_file, what="file", hint="Give a file to import.")
    if not overwrite:
        check_new(out, hint=HINT)
    with replacing(out, overwrite, "manifest.json"):
        run = _import_file(file, out, map_file)
    show(_summarise(run), as_json=as_json, title="Imported")
    _check_unmapped(run, most)


def _check_unmapped(run: Run, most: float) -> None:
    """Of SUMO's vehicles, those on edges that the map does not have are left out."""
    counts = run.manifest.parameters
    if "unmapped" in counts:
        hint = "Add the edges they were on to the map (docs/how-to/sumo.md)."
        check_rejects(counts["unmapped"], counts["sightings"], most, run.path, hint=hint)


def _import_file(file: Path, out: Path, map_file: Path | None) -> Run:
    if map_file is not None:
        from slipstream._city.sumo import import_sumo

        return import_sumo(file, map_file, out)
    from slipstream._feeds.tuple_text import import_text

    return import_text(file, out)


def _summarise(run: Run) -> dict[str, object]:
    manifest = run.manifest
    return {
        "run": str(run.path),
        "tuples": sum(manifest.counts.values()),
        "expressways": run.stored,
        "vehicles": manifest.vehicles,
        "seconds": manifest.seconds,
    }


def export(
    run: Annotated[Path, typer.Argument(help="The run to export.", show_default=False)],
    target: Annotated[Target, typer.Option("--format", help="The format to write.")] = Target.LINEAR_ROAD,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The file to write; without it, standard output.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write a run as the published Linear Road text: 15 integers per line.

    Examples:

    `slipstream export runs/first --out first.dat`

    `slipstream export runs/first | head`
    """
    from slipstream._feeds.run import Run

    opened = Run.open(run)
    check_writable(out, "--out")
    if out is None:
        from slipstream._feeds.tuple_text import export_text

        export_text(opened, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    lines = _export_to(opened, out, overwrite)
    show({"file": str(out), "lines": lines}, as_json=as_json, title=f"Exported as {target.value}")


def _export_to(run: Run, out: Path, overwrite: bool) -> int:
    """Write to a temporary file first, so that the file appears complete or not at all."""
    from slipstream._feeds.tuple_text import export_text
    from slipstream._tools.files.staging import temporary_sibling

    if out.exists() and not overwrite:
        raise BadArgument(f"--out {out}: exists.", hint=HINT, code="exists")
    partial = temporary_sibling(out, "partial")
    try:
        with partial.open("wb") as text:
            lines = export_text(run, text)
        partial.replace(out)
    except OSError as error:
        raise Unavailable(
            f"--out {out}: {error.strerror or error}.", hint="Nothing was kept; try again.", code=classify(error)
        ) from error
    finally:
        partial.unlink(missing_ok=True)
    return lines


def add_to(app: typer.Typer) -> None:
    """Put the commands on the command line."""
    app.command("import")(import_)
    app.command()(export)
