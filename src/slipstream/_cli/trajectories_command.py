"""``slipstream trajectories``: build trips from any table of positions, describe, draw and export them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream._cli.common.checks import check_new, check_there, check_writable
from slipstream._cli.common.command_style import Family
from slipstream._cli.common.options import Conf, Json, Master, MaxRejects, check_rejects, show, start_spark
from slipstream._cli.common.overwriting import HINT, Overwrite, replacing
from slipstream._cli.common.printed_tables import count_nouns
from slipstream._errors import BadArgument
from slipstream._spark.session import LOCAL
from slipstream._tools.files.staging import check_makeable
from slipstream._tools.progress import say

app = Family(
    name="trajectories",
    help="Trips from your own positions: build, describe, map and export them.",
    epilog="Start with: slipstream trajectories build positions.csv --columns id=vin,time=ts --out trips",
    no_args_is_help=True,
)

Data = Annotated[Path, typer.Argument(metavar="DATA", help="A folder written by `trajectories build`.")]
_NO_DATA = "`slipstream trajectories build INPUT --out DATA` writes one."
#: what --columns may name
_COLUMNS = ("id", "time", "lon", "lat", "x", "y")


def add_to(root: typer.Typer) -> None:
    """Put the commands on the command line."""
    root.add_typer(app)


@app.command()
def build(
    input_: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT",
            help="A file or folder of CSV, Parquet, GPX, KML, GeoLife (.plt), GTFS-realtime (.pb), GeoJSON or MF-JSON "
            "(.mfjson), or a Delta table.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write.")],
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns",
            metavar="COLUMN=FIELD,...",
            help="Which columns of the input are the id, the time and the place: id=vin,time=ts,lon=x,lat=y. With "
            "--crs, x= and y= name coordinates in that system.",
        ),
    ] = None,
    gap: Annotated[
        str, typer.Option(metavar="TIME", help="A longer gap between positions ends a trip: 90s, 5m or '5 minutes'.")
    ] = "5 minutes",
    max_speed: Annotated[
        str,
        typer.Option(
            metavar="SPEED",
            help="Reject positions that would require a higher speed, such as '200 km/h'.",
            show_default=False,
        ),
    ] = "",
    crs: Annotated[
        str,
        typer.Option(
            "--crs", metavar="CRS", help="The reference system of the coordinates. [default: EPSG:4326, degrees]"
        ),
    ] = "",
    to_crs: Annotated[
        str,
        typer.Option(
            "--to-crs",
            metavar="CRS",
            help="The reference system of the trips, in metres. [default: the UTM zone of most positions]",
        ),
    ] = "",
    keep: Annotated[
        str,
        typer.Option(
            metavar="COLUMN,...",
            help="More columns to keep; a trip has the values of its first position.",
            show_default=False,
        ),
    ] = "",
    values: Annotated[
        str,
        typer.Option(
            metavar="COLUMN[=TYPE],...",
            help="Columns that change during a trip: each becomes a value over time, a tfloat, tint, tbool or ttext. "
            "The columns of CSV are text unless a type is given: fuel=tfloat.",
            show_default=False,
        ),
    ] = "",
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="The format of the input: csv, parquet, delta, gpx, kml, geolife, gtfs, geojson or mfjson; by default "
            "its name decides.",
            show_default=False,
        ),
    ] = "",
    time_unit: Annotated[
        str,
        typer.Option(
            metavar="UNIT", help="The unit of times that are numbers: s, ms, us or ns since 1970.", show_default=False
        ),
    ] = "",
    time_format: Annotated[
        str,
        typer.Option(
            metavar="PATTERN",
            help="The pattern of times that are text, such as 'dd/MM/yyyy HH:mm:ss'. [default: ISO 8601]",
            show_default=False,
        ),
    ] = "",
    time_zone: Annotated[str, typer.Option(metavar="ZONE", help="The time zone of times that name none.")] = "UTC",
    as_of: Annotated[
        str, typer.Option(metavar="VERSION", help="The version of a Delta table: a number or an instant.")
    ] = "",
    metres: Annotated[bool, typer.Option("--metres", help="Read x and y that look like degrees as metres.")] = False,
    max_rejects: MaxRejects = 1.0,
    overwrite: Overwrite = False,
    master: Master = LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Build trips from positions: sort them, remove duplicates and jumps, and split them at gaps.

    OUT/trips has one row per trip: id, number, and the moving point Trip. OUT/rejects has every position that is in no
    trip, with the reason. Both are Parquet. Every row of the input is in one of them.

    Examples:

    `slipstream trajectories build gps.csv --columns id=vin,time=ts --out trips` # longitudes and latitudes

    `slipstream trajectories build gps.csv --values fuel=tfloat,door --out trips` # fuel and doors travel with the trip

    `slipstream trajectories build rides --out trips --gap 10m` # a folder of GPX files

    `slipstream trajectories build ais.csv --columns id=MMSI,time=BaseDateTime,lon=LON,lat=LAT --out ships` # AIS
    """
    check_there(input_, hint="Give a file of positions or a folder of them.")
    if not overwrite:
        check_new(out, hint=HINT)
    from slipstream._moving.space.systems import System, require_metric
    from slipstream._trajectories.cutting.trip_rules import TripRules
    from slipstream._trajectories.reading.mapping import make_mapping
    from slipstream._trajectories.reading.position_files import Input

    named = _parse_columns(columns or [])
    mapping = make_mapping(
        **named,
        crs=crs or None,
        keep=_split(keep),
        values={name: kind for name, _, kind in (part.partition("=") for part in _split(values))},
        unit=time_unit,
        form=time_format,
        zone=time_zone,
    )
    rules = TripRules.parse(gap, max_speed or None)
    target = require_metric(System.parse(to_crs), "--to-crs") if to_crs else None
    source = Input.find(input_, format_, as_of or None)
    mapping = mapping.find(source.columns, str(input_))

    from slipstream._trajectories import data
    from slipstream._trajectories.cutting.building import build as build_trips
    from slipstream._trajectories.reading.position_files import read_frame

    spark = start_spark("trajectories build", master, conf)
    started = time.perf_counter()
    built = build_trips(read_frame(spark, source), mapping, rules, to=target, units="m" if metres else None)
    options = {"input": str(input_), "gap": gap, "max_speed": max_speed, "columns": named, "keep": list(mapping.keep)}
    options |= {"values": dict(mapping.values)} if mapping.values else {}
    with replacing(out, overwrite, data.MANIFEST):
        made = data.write(built, out, options)
    show(_summarise(made) | {"seconds": round(time.perf_counter() - started, 1)}, as_json=as_json, title=str(out))
    check_rejects(made.counts.rejected, made.counts.rows, max_rejects, out / data.REJECTS)


def _split(names: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in names.split(",") if name.strip())


def _parse_columns(pairs: list[str]) -> dict[str, str]:
    """Read --columns: id=vin,time=ts; what is not named has its own name, and the place is found."""
    found = {"id": "id", "time": "time", "lon": "", "lat": "", "x": "", "y": ""}
    for pair in (part.strip() for one in pairs for part in one.split(",")):
        name, separator, column = pair.partition("=")
        if not separator or name not in _COLUMNS or not column:
            raise BadArgument(
                f"--columns {pair}: not a column.",
                hint=f"Write COLUMN=FIELD, with one of {', '.join(_COLUMNS)}, as in id=vin,time=ts.",
                code="malformed-value",
                found=pair,
                expected=[*_COLUMNS],
            )
        found[name] = column
    return found


def _summarise(made: Any) -> dict[str, Any]:
    from slipstream._api.trips.trip_origins import count_facts

    system = made.system
    return count_facts(made.counts) | {"crs": made.crs or "metres", "system": system.title if system else ""}


@app.command()
def describe(data: Data, as_json: Json = False) -> None:
    """Describe trips: how many, when and where, how long and how fast. Needs no Spark.

    Example: `slipstream trajectories describe trips`
    """
    check_there(data, hint=_NO_DATA)
    from slipstream._trajectories.data import Data as Folder
    from slipstream._trajectories.describing import describe as describe_trips

    opened = Folder.open(data)
    show(_summarise(opened) | describe_trips(opened), as_json=as_json, title=str(data))


@app.command()
def draw(
    data: Data,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="A map (.html) or a picture (.png, .svg, .pdf).")
    ] = Path("map.html"),
    trips: Annotated[int, typer.Option("--trips", min=1, metavar="N", help="How many trips to draw.")] = 5_000,
    as_json: Json = False,
) -> None:
    """Draw trips on a map with a time slider and colours for speed, or as a picture. Needs no Spark.

    The map is one HTML file that works offline.

    Examples:

    `slipstream trajectories draw trips --out map.html`

    `slipstream trajectories draw trips --out map.png --trips 500`
    """
    check_there(data, hint=_NO_DATA)
    check_writable(out, "--out")
    from slipstream._trajectories import trip_maps
    from slipstream._trajectories.data import Data as Folder

    trip_maps.check_format(out)
    opened = Folder.open(data)
    found = trip_maps.draw(opened.read_some(trips), opened.crs, data.name, out)
    facts = {"out": str(out), "trips": found.trips, "of": opened.counts.trips, "every_nth_position": found.step}
    if as_json:
        show(facts, as_json=True)
    else:
        what = "Map" if out.suffix.lower() == trip_maps.HTML else "Picture"
        say(f"{what}: {out} ({count_nouns(found.trips, 'trip')})")


@app.command()
def export(
    data: Data,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The file to write; for GPX, the folder.")],
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="The format to write: geoparquet, geometry, temporalparquet, mfjson, geojson, gpx, kml or wkt; by "
            "default the file's name decides.",
            show_default=False,
        ),
    ] = "",
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Export trips to other formats. Needs no Spark.

    geoparquet and geometry have the path of each trip; the other formats also have its times. temporalparquet follows
    MobilityDB's convention: MEOS values that MobilityDB, MobilityDuck and PyMEOS read. kepler.gl plays geojson.

    Examples:

    `slipstream trajectories export trips --format temporalparquet --out trips.parquet`

    `slipstream trajectories export trips --out trips.kml`
    """
    check_there(data, hint=_NO_DATA)
    if out.exists() and not overwrite:
        raise BadArgument(f"--out {out}: exists.", hint=HINT, code="exists")
    check_makeable(out)
    from slipstream._trajectories.data import Data as Folder
    from slipstream._trajectories.exchange import interchange

    chosen = interchange.choose_format(out, format_)
    opened = Folder.open(data)
    with replacing(out, overwrite, "*.gpx"):
        interchange.export(opened.read_batches(), opened.crs, out, chosen)
    show({"out": str(out), "format": chosen, "trips": opened.counts.trips}, as_json=as_json)
