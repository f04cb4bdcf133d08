"""Places and movements of others: tracks (CSV, GPX, MF-JSON, WKT), streets (CSV, GeoJSON, OpenStreetMap, SECONDO), the
CSV files of BerlinMOD, and SUMO's floating-car data."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from fuzz.campaign import ACCEPTED, REJECTED, Reader
from slipstream._berlinmod.exchange import load
from slipstream._berlinmod.streets import read_network, secondo_regions
from slipstream._city.sumo import import_sumo, read_map
from slipstream._feeds.parse import judge
from slipstream._feeds.tuples import FIELDS
from slipstream._moving.exchange.tracks import read_csv, read_gpx
from slipstream._moving.exchange.trip_texts import from_mfjson, from_wkt, to_mfjson, to_wkt
from slipstream._moving.moving_point import MovingPoint
from slipstream._moving.space.plane import Plane

DAY = datetime(2007, 5, 28, 8, tzinfo=UTC)
TRIP = MovingPoint.of(
    [
        [(DAY + timedelta(seconds=n), 10.0 * n, 5.5 * n) for n in range(3)],
        [(DAY + timedelta(hours=1, seconds=n), 3.0, -n * 2.25) for n in range(2)],
    ]
)
GPX = b"""<?xml version="1.0"?>
<gpx xmlns="http://www.topografix.com/GPX/1/1" version="1.1" creator="x"><trk><trkseg>
<trkpt lat="52.5" lon="13.4"><time>2007-05-28T08:00:00Z</time></trkpt>
<trkpt lat="52.501" lon="13.402"><time>2007-05-28T08:00:30Z</time></trkpt></trkseg><trkseg>
<trkpt lat="52.6" lon="13.5"><time>2007-05-28T09:00:00Z</time></trkpt></trkseg></trk></gpx>"""
TRACKS = b"id,t,x,y\na,2007-05-28 08:00:00,0,1.5\na,2007-05-28 08:00:30,3,4\nb,2007-05-28T08:00:00+00:00,9,9\n"
STREETS = b"Id,Vmax,X1,Y1,X2,Y2\n1,50,0,0,100,0\n1,50,100,0,200,0\n2,30,100,0,100,80\n3,70,0,0,0,90\n"
SECONDO = b"""(OBJECT streets () (rel (tuple ((Vmax real) (GeoData line)))) (
 (50.0 ((0 0 100 0) (100 0 200 5))) (30 ((100 0 100 80)))))"""
REGIONS = b"""(OBJECT homes () (rel (tuple ((Priority int) (Weight real) (GeoData region)))) (
 (1 0.7 ((((0 0) (50 0) (50 50) (0 50))))) (2 0.3 ((((0 0) (900 0) (900 900) (0 900)))))))"""
GEOJSON = json.dumps(
    {
        "type": "FeatureCollection",
        "crs": {"type": "name", "properties": {"name": "metres"}},
        "features": [
            {
                "type": "Feature",
                "properties": {"vmax": 50},
                "geometry": {"type": "LineString", "coordinates": [[0, 0], [100, 0], [100, 50 * n]]},
            }
            for n in (1, 2)
        ],
    }
).encode()
OSM = b"""<?xml version="1.0"?><osm version="0.6"><node id="1" lat="52.5" lon="13.4"/>
<node id="2" lat="52.51" lon="13.4"/>
<node id="3" lat="52.51" lon="13.42"/><way id="7"><nd ref="1"/><nd ref="2"/><nd ref="3"/><tag k="highway" v="primary"/>
</way><way id="8"><nd ref="3"/><nd ref="1"/><tag k="highway" v="residential"/></way></osm>"""
PUBLISHED = {
    "datamcar.csv": b"Moid,Licence,Type,Model\n1,B-XX 1,passenger,VW\n2,B-YY 2,truck,MAN\n",
    "querypoints.csv": b"Id,Pos_x,Pos_y\n1,10.5,20\n2,-3,4\n",
    "queryinstants.csv": b"Id,Instant\n1,2007-05-28 08:39:42.881\n2,2007-05-28-08:39:42\n",
    "queryperiods.csv": b"Id,Begin,End\n1,2007-05-28 08:00:00,2007-05-28 09:00:00\n",
    "querylicences.csv": b"Id,Licence\n1,B-XX 1\n",
    "queryregions.csv": b"Id,Vertex_x,Vertex_y\n1,0,0\n1,10,0\n1,10,10\n1,0,10\n",
}
MOBILITYDB = {
    "points.csv": b"pointid,geom\n1,POINT(1 2)\n2,0101000000000000000000F03F0000000000000040\n",
    "instants.csv": b"instantid,instant\n1,2007-05-28 08:39:42+00\n",
    "periods.csv": b'periodid,period\n1,"[2007-05-28 08:00:00+00, 2007-05-28 09:00:00+00]"\n',
    "licences.csv": b"licenceid,licence\n1,B-XX 1\n",
    "regions.csv": b'regionid,geom\n1,"POLYGON((0 0,10 0,10 10,0 10,0 0),(1 1,2 1,2 2,1 1))"\n',
    "roadsegments.csv": b'maxspeedfwd,segmentgeo\n50,"SRID=3857;LINESTRING(0 0,9 0,9 8)"\n30,"LINESTRING(9 0,20 0)"\n',
}
FCD = b"""<?xml version="1.0"?><fcd-export>
<timestep time="0.00"><vehicle id="a" lane="west_0" pos="5.1" speed="13.89"/>
<vehicle id="b" lane="up_0" pos="3" speed="0"/></timestep>
<timestep time="30.00"><vehicle id="a" lane="west_1" pos="300.5" speed="20.00"/></timestep>
<timestep time="60.00"><vehicle id="a" lane="x_1" pos="10" speed="20.00"/></timestep></fcd-export>"""
MAP = b"""[edges.west]
expressway = 0
direction = 0
offset = 1000
lanes = [1, 2]
[edges.up]
expressway = 1
direction = 1
offset = 5280.5
ramp = "entry"
"""


def check_track(m: MovingPoint) -> None:
    """Instants go forward, places are numbers, and both formats say the same."""
    assert np.isfinite(m.x).all()
    assert np.isfinite(m.y).all()
    for s in m.sequences:
        assert (np.diff(m.t[s]) > 0).all(), "time goes back within a sequence"
    for again in (from_wkt(to_wkt(m), units="m"), from_mfjson(to_mfjson(m), units="m")):
        assert again.t.tolist() == m.t.tolist()
        assert again.x.tolist() == m.x.tolist()


class Files:
    """Files of one kind, one after the other under one name."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch

    def _written(self, name: str, data: bytes) -> Path:
        place = self._scratch / name
        place.write_bytes(data)
        return place

    def tracks(self, data: bytes) -> str:
        """Tracks as CSV."""
        for m in read_csv(self._written("tracks.csv", data)).values():
            check_track(m)
        return ACCEPTED

    def gpx(self, data: bytes) -> str:
        """Tracks as GPX."""
        m = read_gpx(self._written("track.gpx", data), Plane.utm(33))
        assert (np.abs(m.y) <= 10_100_000).all(), "beyond a pole"
        check_track(m)
        return ACCEPTED

    def streets(self, name: str) -> Callable[[bytes], str]:
        """A street network."""

        def read(data: bytes) -> str:
            network = read_network(self._written(name, data))
            assert network.nodes >= 2
            for array in (network.x, network.y, network.vmax, network.cost, network.shape_x, network.shape_y):
                assert np.isfinite(array).all(), "a street to nowhere"
            assert (network.cost > 0).all()
            return ACCEPTED

        return read

    def regions(self, data: bytes) -> str:
        """Weighted regions of SECONDO."""
        for weight, rings in secondo_regions(self._written("regions.data", data)):
            assert np.isfinite(weight)
            assert weight >= 0
            assert all(np.isfinite(place).all() for ring in rings for place in ring)
        return ACCEPTED

    def berlinmod(self, whole: dict[str, bytes], name: str) -> Callable[[bytes], str]:
        """One damaged file among the CSV files of a data set."""
        folder = self._scratch / ("published" if "datamcar.csv" in whole else "mobilitydb")
        folder.mkdir(exist_ok=True)
        for other, contents in whole.items():
            (folder / other).write_bytes(contents)

        def read(data: bytes) -> str:
            rejects: list[tuple[str, str]] = []
            (folder / name).write_bytes(data)
            try:
                if "datamcar.csv" in whole:
                    rows = load._rows(folder, "datamcar.csv", "Moid", "Licence", "Type", "Model")
                    load._cars(rows, "moid", "type")
                    samples = load._published_samples(folder, rejects)
                else:
                    samples = load._mobilitydb_samples(folder, rejects)
                    for street in load._road_segments(folder):
                        assert np.isfinite(street.segments).all()
            finally:
                (folder / name).write_bytes(whole[name])
            for place in samples["QueryPoints"].column("Pos").to_pylist():
                assert np.isfinite([place["x"], place["y"]]).all(), "a point nowhere"
            assert all(reason for _, reason in rejects)
            return REJECTED if rejects else ACCEPTED

        return read

    def sumo(self, data: bytes) -> str:
        """Floating-car data with a good map; every tuple that comes of it is a good one."""
        return self._import(self._written("fcd.xml", data), self._written("map.toml", MAP))

    def sumo_map(self, data: bytes) -> str:
        """A damaged map."""
        read_map(self._written("map.toml", data))
        return self._import(self._written("fcd.xml", FCD), self._scratch / "map.toml")

    def _import(self, source: Path, map_file: Path) -> str:
        out = self._scratch / "sumo"
        shutil.rmtree(out, ignore_errors=True)
        run = import_sumo(source, map_file, out)
        for stored in range(run.stored):
            for minute in run.minutes:
                table = run.minute(stored, minute)
                assert not judge({name: table.column(name).to_numpy() for name in FIELDS}).any(), "a bad tuple"
        return ACCEPTED


def read_wkt(data: bytes) -> str:
    """A moving point as MobilityDB writes it."""
    check_track(from_wkt(data.decode("utf-8", "replace")))
    return ACCEPTED


def read_mfjson(data: bytes) -> str:
    """A moving point as Moving Features JSON."""
    check_track(from_mfjson(data.decode("utf-8", "replace")))
    return ACCEPTED


def read_place(data: bytes) -> str:
    """A point in a CSV file of MobilityDB: a place, or the reason why not in the place of one."""
    x, y, _ = load._parse_point(data.decode("utf-8", "replace"))
    if y:
        assert isinstance(float(x) + float(y), float)
        return ACCEPTED
    return REJECTED


def readers(scratch: Path) -> list[Reader]:
    """The readers of places and movements."""
    read = Files(scratch)
    wkt = to_wkt(TRIP).encode()
    points = [b"POINT(1 2)", b"SRID=3857;POINT(1.5 -2)", b"0101000000000000000000F03F0000000000000040"]
    berlinmod = [
        Reader(f"BerlinMOD {name}", "text", [contents], read.berlinmod(whole, name), 0.4)
        for whole in (PUBLISHED, MOBILITYDB)
        for name, contents in whole.items()
    ]
    return [
        Reader("tracks as CSV", "text", [TRACKS], read.tracks, 2),
        Reader("tracks as GPX", "xml", [GPX], read.gpx, 2),
        Reader("track as MF-JSON", "json", [to_mfjson(TRIP).encode()], read_mfjson, 3),
        Reader("track as WKT", "text", [wkt, b"SRID=25833;POINT(1 2)@2007-05-28 08:00:00+00"], read_wkt, 3),
        Reader("streets as CSV", "text", [STREETS], read.streets("streets.csv")),
        Reader("streets as GeoJSON", "json", [GEOJSON], read.streets("streets.geojson")),
        Reader("streets of OpenStreetMap", "xml", [OSM], read.streets("streets.osm")),
        Reader("streets of SECONDO", "text", [SECONDO], read.streets("streets.data")),
        Reader("regions of SECONDO", "text", [REGIONS], read.regions),
        *berlinmod,
        Reader("points of MobilityDB", "text", points, read_place),
        Reader("SUMO floating-car data", "xml", [FCD], read.sumo, 0.7),
        Reader("SUMO map", "text", [MAP], read.sumo_map, 0.7),
    ]
