"""All formats that trips are written in, by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from slipstream._errors import BadArgument
from slipstream._trajectories.exchange import tables, texts
from slipstream._trajectories.exchange.tables import Batches

#: format -> how it is written
WRITERS: dict[str, Callable[[Batches, str, Path], None]] = {
    "geoparquet": tables.write_geoparquet,
    "geometry": tables.write_geometry,
    "temporalparquet": tables.write_temporal,
    "mfjson": texts.write_mfjson,
    "geojson": texts.write_geojson,
    "gpx": texts.write_gpx,
    "kml": texts.write_kml,
    "wkt": texts.write_wkt,
}
#: the format that a file's name stands for
_SUFFIXES = {".mfjson": "mfjson", ".geojson": "geojson", ".kml": "kml", ".csv": "wkt", ".wkt": "wkt"}


def choose_format(out: Path, format: str) -> str:
    """Return the format to write, by its name or that of the file.

    >>> choose_format(Path("trips.kml"), ""), choose_format(Path("trips.parquet"), "geoparquet")
    ('kml', 'geoparquet')
    """
    found = format or _SUFFIXES.get(out.suffix.lower(), "")
    if found not in WRITERS:
        raise BadArgument(
            f"format {format!r} is unknown." if format else f"{out}: cannot tell the format from the name.",
            hint=f"Give one of {', '.join(WRITERS)}.",
            code="unknown-value",
            found=format,
            expected=[*WRITERS],
        )
    return found


def export(batches: Batches, crs: str, out: Path, format: str = "") -> str:
    """Write trips in a format of others; return the format."""
    found = choose_format(out, format)
    WRITERS[found](texts.nonempty(batches), crs, out)
    return found
