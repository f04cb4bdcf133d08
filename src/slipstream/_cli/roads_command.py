"""``slipstream roads``: import street networks, and match trips to them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from slipstream._cli.common.checks import check_new, check_there
from slipstream._cli.common.command_style import Family
from slipstream._cli.common.options import Conf, Json, Master, MaxRejects, check_rejects, show, start_spark
from slipstream._cli.common.overwriting import HINT, Overwrite, replacing
from slipstream._spark.session import LOCAL
from slipstream._tools.progress import say

app = Family(
    name="roads",
    help="Street networks: import them, and match trips to their roads.",
    epilog="Start with: slipstream roads import city.osm.pbf --out roads",
    no_args_is_help=True,
)

#: the files of a folder of roads, and of matched trips
_ROADS, _MATCHED = "roads.json", "match.json"


def add_to(root: typer.Typer) -> None:
    """Put the commands on the command line."""
    root.add_typer(app)


@app.command("import")
def import_(
    file: Annotated[
        Path, typer.Argument(help="OpenStreetMap, SUMO, GeoJSON, CSV, or BerlinMOD's streets or data set.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder to write.")],
    metres: Annotated[
        bool, typer.Option("--metres", help="Read coordinates that look like degrees as metres.")
    ] = False,
    centre: Annotated[
        str,
        typer.Option(
            "--centre", metavar="LON,LAT", help="Where the middle of BerlinMOD's city is, as in `drive --as gps`."
        ),
    ] = "",
    keep_pieces: Annotated[
        bool, typer.Option("--keep-pieces", help="Keep pieces that are not connected to the rest of the network.")
    ] = False,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Import a street network as a routable graph: one-way streets, speed limits, bridges, turn restrictions.

    The extension of FILE decides how it is read: .osm.pbf, .osm, .net.xml, .geojson, .csv or .data; a folder is a
    BerlinMOD data set. OUT is a folder of GeoParquet files. The report lists what was dropped or repaired.

    Example: `slipstream roads import city.osm.pbf --out roads`
    """
    check_there(file, hint="Give a file of streets, such as an extract of OpenStreetMap.")
    if not overwrite:
        check_new(out, hint=HINT)
    from slipstream._bench.driving.gps_receivers import place_city
    from slipstream._roads import road_tables
    from slipstream._roads.importing import street_files
    from slipstream._tools.files.staging import staged_folder

    street_files.check_kind(file)
    plane = place_city(centre) if centre else None
    network, repairs = street_files.import_network(file, metres=metres, keep_pieces=keep_pieces, plane=plane)
    with replacing(out, overwrite, _ROADS), staged_folder(out) as stage:
        road_tables.save_roads(network, stage, str(file), repairs)
    size = {"nodes": network.nodes, "edges": network.edges, "km": round(float(network.length.sum()) / 1000, 3)}
    more = {"one_way": int((network.reverse < 0).sum()), "srid": network.srid}
    show({**size, **more, **asdict(repairs)}, as_json=as_json, title=str(out))


@app.command()
def match(
    trips: Annotated[Path, typer.Argument(help="Trips: a file or folder of CSV, GPX, WKT or MF-JSON, or an archive.")],
    roads: Annotated[Path, typer.Option("--roads", metavar="DIR", help="The folder that `roads import` wrote.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write.")],
    noise: Annotated[
        float, typer.Option("--noise", metavar="METRES", help="The standard deviation of positions, in metres.")
    ] = 10.0,
    lag: Annotated[
        str | None,
        typer.Option(
            "--lag", metavar="DURATION", help="Decide each position this long after it, as a stream does: 30s."
        ),
    ] = None,
    max_rejects: MaxRejects = 1.0,
    overwrite: Overwrite = False,
    master: Master = LOCAL,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Match trips to roads: OUT/points has the road of every position, OUT/trips the movements along the roads.

    Positions are metres in the plane of the roads; longitudes and latitudes are projected to it. Positions off the
    road and jumps are marked and counted as rejected.

    Example: `slipstream roads match vans.csv --roads roads --out matched`
    """
    check_there(trips, hint="Give trips, or a file of positions.")
    from slipstream._roads.matching.model import Model
    from slipstream._tools import durations

    model = Model(noise=noise, lag=None if lag is None else float(durations.seconds(lag, "--lag")))
    if not (roads / _ROADS).is_file():
        from slipstream._roads.road_tables import check_roads

        check_roads(roads)
    if not overwrite:
        check_new(out, hint=HINT)
    from slipstream._roads.matching.matching_jobs import match_files, read_trips

    frame_of = read_trips(trips, roads)
    spark = start_spark("roads match", master, conf)
    with replacing(out, overwrite, _MATCHED):
        counts = match_files(spark, frame_of(spark), roads, model, out)
    result: dict[str, Any] = {**counts, "roads": str(roads)}
    (out / _MATCHED).write_text(json.dumps(result), encoding="utf-8")
    if counts["stretches"] > counts["trips"]:
        say(f"New stretches where no route led on: {counts['stretches'] - counts['trips']:,}.")
    show(result, as_json=as_json, title=f"Matched into {out}")
    lost = counts["off"] + counts["jump"]
    check_rejects(lost, lost + counts["on"], max_rejects, out / "points")
