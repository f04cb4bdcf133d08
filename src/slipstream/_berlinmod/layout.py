"""The files and folders of data sets, ours and others'. No slow imports: commands check these first."""

from __future__ import annotations

from pathlib import Path

from slipstream._errors import BadArgument, BadInput

FORMATS = ("published", "mobilitydb")
#: the files that each format requires; any one of the alternative names
NEEDED: dict[str, tuple[tuple[str, ...], ...]] = {
    "published": (
        *(("datamcar.csv",), ("trips.csv",), ("querypoints.csv",), ("queryregions.csv",)),
        *(("queryinstants.csv",), ("queryperiods.csv",), ("querylicences.csv",)),
    ),
    "mobilitydb": (
        *(("vehicles.csv",), ("licences.csv",), ("points.csv",), ("regions.csv",), ("instants.csv",), ("periods.csv",)),
        ("tripsinput.csv", "trips.csv"),
    ),
}
HOLDS_FILES = "Use the folder that contains the files of the format."
SAMPLES = ("QueryPoints", "QueryRegions", "QueryInstants", "QueryPeriods", "QueryLicences")
TABLES = ("dataScar", "dataMcar", "dataMtrip", *SAMPLES)


def find_file(folder: Path, *names: str) -> Path | None:
    """Return the first of the files that exists in a folder, gzipped or not."""
    paths = (folder / f"{name}{ending}" for name in names for ending in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


def check_files(folder: Path, kind: str) -> None:
    """Reject an unknown format, or a folder without all of its files; names all missing files."""
    if kind not in FORMATS:
        raise BadArgument(
            f"--format {kind}: no such format.",
            hint=f"Use {' or '.join(FORMATS)}.",
            code="unknown-value",
            expected=[*FORMATS],
            found=kind,
        )
    if not folder.is_dir():
        raise BadArgument(
            f"{folder}: no such folder.", hint="Use the folder that contains the CSV files.", code="no-such-file"
        )
    if missing := [" or ".join(names) for names in NEEDED[kind] if find_file(folder, *names) is None]:
        raise BadInput(f"{folder}: no {', '.join(missing)}.", hint=HOLDS_FILES, code="no-such-file")


def check_data_set(path: Path, tables: tuple[str, ...] = TABLES) -> None:
    """Reject a folder that is not a data set, or without all of ``tables``; names all missing tables."""
    if not path.is_dir():
        raise BadArgument(
            f"{path}: no such data set.",
            hint="Create one with `slipstream berlinmod generate --out DATA`.",
            code="no-such-file",
        )
    if not (path / "manifest.json").is_file():
        raise BadInput(
            f"{path}: not a BerlinMOD data set (no manifest.json).",
            hint="Create one with `slipstream berlinmod generate` or `load`.",
            code="wrong-file-type",
        )
    if missing := [name for name in tables if not (path / name).is_dir()]:
        raise BadInput(
            f"{path}: no {', '.join(missing)}.", hint="The data set is damaged; create it again.", code="damaged-file"
        )
