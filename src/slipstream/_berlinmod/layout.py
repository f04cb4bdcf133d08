"""Which files and folders make a data set, ours and others': what can be missed at once, without a slow import."""

from __future__ import annotations

from pathlib import Path

from slipstream._errors import BadArgument, BadInput

FORMATS = ("published", "mobilitydb")
#: the files that each format needs; any one of the names each
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
HOLDS_FILES = "Give the folder that holds the files of the format."
SAMPLES = ("QueryPoints", "QueryRegions", "QueryInstants", "QueryPeriods", "QueryLicences")
TABLES = ("dataScar", "dataMcar", "dataMtrip", *SAMPLES)


def file_in(folder: Path, *names: str) -> Path | None:
    """The first of the files that is in a folder, gzipped or not."""
    paths = (folder / f"{name}{ending}" for name in names for ending in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


def check_files(folder: Path, kind: str) -> None:
    """Refuse an unknown format, and a folder that lacks files of it: all of them are named."""
    if kind not in FORMATS:
        raise BadArgument(f"--format {kind}: not {' or '.join(FORMATS)}.")
    if not folder.is_dir():
        raise BadArgument(f"{folder}: no such folder.", hint="Give the folder that holds the CSV files.")
    if missing := [" or ".join(names) for names in NEEDED[kind] if file_in(folder, *names) is None]:
        raise BadInput(
            f"{folder}: no {', '.join(missing)}.", hint="Give the folder that holds the files of the format."
        )


def check_data_set(path: Path, tables: tuple[str, ...] = TABLES) -> None:
    """Refuse a folder that is no data set of ours, or lacks some of ``tables``: all of them are named."""
    if not path.is_dir():
        raise BadArgument(f"{path}: no such data set.", hint="`slipstream berlinmod generate --out DATA` makes one.")
    if not (path / "manifest.json").is_file():
        raise BadInput(
            f"{path}: not a BerlinMOD data set (no manifest.json).",
            hint="`slipstream berlinmod generate` and `load` make data sets.",
        )
    if missing := [name for name in tables if not (path / name).is_dir()]:
        raise BadInput(f"{path}: no {', '.join(missing)}.", hint="The data set is damaged; make it again.")
