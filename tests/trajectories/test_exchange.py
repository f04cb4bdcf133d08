"""Formats of others: what they read back, and round trips through our own readers."""

from __future__ import annotations

import json
from pathlib import Path

import geopandas
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slipstream as ss
from moving.oracle import moving
from slipstream._errors import BadArgument, BadInput
from slipstream._moving.moving_point import instant, to_arrow
from slipstream._moving.types import TFLOAT
from slipstream._trajectories.exchange.binary import decode_meos, encode_meos
from slipstream._trajectories.exchange.interchange import WRITERS
from slipstream._trajectories.reading.position_files import gpx_rows, kml_rows

pymeos = pytest.importorskip("pymeos")

UTM = "EPSG:32633"
VAN = moving([[(0, 391391.0, 5817855.0), (60, 392069.5, 5817840.25)], [(900, 392069.5, 5817840.25)]])
BUS = moving([[(1.5, 390000.0, 5817000.0), (90, 390000.0, 5818000.0), (120, 390100.0, 5818000.0)]])


@pytest.fixture(scope="module", autouse=True)
def _initialize() -> None:
    pymeos.pymeos_initialize(timezone="UTC")


@pytest.fixture
def trips() -> ss.Trips:
    return ss.Trips.from_points({"van & co": VAN, "bus": BUS}, crs=UTM)


def same(found: ss.MovingPoint, expected: ss.MovingPoint, within: float = 0.0) -> bool:
    apart = max(np.abs(found.x - expected.x).max(), np.abs(found.y - expected.y).max())
    return found.t.tolist() == expected.t.tolist() and apart <= within


SEQUENCES = st.lists(
    st.lists(st.tuples(st.integers(1, 50), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=4),
    min_size=1,
    max_size=3,
)


@given(SEQUENCES, st.sampled_from([0, 32633]))
def test_meos_reads_what_we_write_and_we_read_what_meos_writes(parts, srid):
    at, sequences = 0, []
    for part in parts:
        sequences.append([((at := at + step), x, y) for step, x, y in part])
    m = moving(sequences)
    blob = encode_meos(m, srid)
    kind = pymeos.TGeomPointSeq if len(parts) == 1 else pymeos.TGeomPointSeqSet
    theirs = kind.from_wkb(blob)
    assert theirs.srid() == srid
    assert theirs.length() == pytest.approx(m.length)
    ours, known = decode_meos(blob)
    assert same(ours, m)
    assert (known, ours.starts.tolist()) == (srid, m.starts.tolist())
    # MEOS leaves out instants in the middle of a straight line
    back, _ = decode_meos(bytes.fromhex(theirs.as_hexwkb()))
    assert (back.t[[0, -1]] == m.t[[0, -1]]).all()
    for one, other in zip(back.sequences, m.sequences, strict=True):
        for found, expected in ((back.x, m.x), (back.y, m.y)):
            assert np.interp(m.t[other], back.t[one], found[one]) == pytest.approx(expected[other], abs=1e-3)


def test_temporalparquet_is_read_by_pymeos_and_by_us(trips, tmp_path: Path):
    out = tmp_path / "trips.parquet"
    trips.export(out, "temporalparquet")
    table = pq.read_table(out)
    footer = json.loads(table.schema.metadata[b"temporal"])
    assert footer["columns"][footer["primary_temporal_column"]]["encoding"] == "MEOS-WKB"
    assert table["xmin"].to_pylist() == [391391.0, 390000.0]
    assert [t.timestamp() for t in table["tmax"].to_pylist()] == [900.0, 120.0]
    theirs = pymeos.TGeomPointSeqSet.from_wkb(table["Trip"][0].as_py())
    assert (theirs.srid(), theirs.num_sequences()) == (32633, 2)
    back = ss.Trips.read(out)
    assert back.crs == UTM
    points = back.to_points()
    assert same(points["van & co"], VAN)
    assert same(points["bus"], BUS)


def test_other_values_of_meos_are_refused(tmp_path: Path):
    for text in (
        "Interp=Step;[POINT(1 1)@2000-01-01, POINT(2 2)@2000-01-02]",
        "[POINT(1 1)@2000-01-01, POINT(2 2)@2000-01-02)",
    ):
        with pytest.raises(BadInput, match="MEOS-WKB"):
            decode_meos(bytes.fromhex(pymeos.TGeomPointSeq(text).as_hexwkb()))
    for blob in (b"", b"\x01", encode_meos(VAN)[:40], bytes.fromhex(pymeos.TFloatInst("1@2000-01-01").as_hexwkb())):
        with pytest.raises(BadInput, match="MEOS-WKB"):
            decode_meos(blob)


def test_geoparquet_is_read_by_geopandas(trips, tmp_path: Path):
    out = tmp_path / "trips.parquet"
    trips.export(out, "geoparquet")
    frame = geopandas.read_parquet(out)
    assert frame.crs.to_epsg() == 32633
    assert frame.geometry.geom_type.tolist() == ["MultiLineString", "LineString"]
    assert frame.geometry.length.round(6).tolist() == [round(VAN.length, 6), round(BUS.length, 6)]
    assert frame["tmin"].iloc[1].timestamp() == 1.5


def test_paths_are_parquet_s_own_geometry(trips, tmp_path: Path):
    out = tmp_path / "trips.parquet"
    trips.export(out, "geometry")
    with pq.ParquetFile(out) as file:
        column = next(c for c in (file.schema.column(n) for n in range(9)) if c.name == "geometry")
    assert "Geometry" in str(column.logical_type)
    assert "32633" in str(column.logical_type)


@pytest.mark.parametrize("name", ["trips.mfjson", "trips.csv"])
def test_texts_are_read_back(trips, tmp_path: Path, name: str):
    trips.export(tmp_path / name)
    degrees = name.endswith("mfjson")
    options = {"plane": ss.Plane.utm(33)} if degrees else {"trip": "Trip"}
    points = ss.Trips.read(tmp_path / name, **options).to_points()
    assert same(points["van & co"], VAN, 0.02 if degrees else 0.0)
    assert same(points["bus"], BUS, 0.02 if degrees else 0.0)


def test_values_over_time_are_properties_of_moving_features(trips, tmp_path: Path):
    fuel = [
        {"t": [instant(t) for t in trip.t[:2]], "value": [9.0, 8.5], "starts": [0], "interpolation": "linear"}
        for trip in (VAN, BUS)
    ]
    rows = pa.table({"id": ["van & co", "bus"], "Trip": to_arrow([VAN, BUS]), "fuel": pa.array(fuel, TFLOAT.arrow)})
    for name in ("mfjson", "geojson", "kml", "wkt"):
        WRITERS[name](rows.to_batches(), UTM, tmp_path / name)
    van, bus = json.loads((tmp_path / "mfjson").read_text())["features"]
    assert van["temporalProperties"] == [
        {
            "datetimes": ["1970-01-01T00:00:00Z", "1970-01-01T00:01:00Z"],
            "fuel": {"type": "Measure", "values": [9.0, 8.5], "interpolation": "Linear"},
        }
    ]
    assert bus["temporalProperties"][0]["datetimes"][0] == "1970-01-01T00:00:01.500000Z"
    assert "fuel" not in bus["properties"]
    assert "fuel" not in (tmp_path / "geojson").read_text() + (tmp_path / "wkt").read_text()


def test_gpx_and_kml_are_positions_again(trips, tmp_path: Path):
    trips.export(tmp_path / "gpx", "gpx")
    trips.export(tmp_path / "trips.kml")
    file = tmp_path / "gpx" / "bus.gpx"
    gpx = [row[:4] for row in gpx_rows(f"file:{file}", file.read_bytes())]
    kml = kml_rows("trips.kml", (tmp_path / "trips.kml").read_bytes())
    assert {row[0] for row in kml} == {"van & co", "bus"}
    assert [tuple(map(str, row[:4])) for row in kml if row[0] == "bus"] == [tuple(map(str, row)) for row in gpx]
    x, y = ss.Plane.utm(33).project([float(row[2]) for row in gpx], [float(row[3]) for row in gpx])
    assert np.abs(x - BUS.x).max() < 0.02
    assert np.abs(y - BUS.y).max() < 0.02
    assert gpx[0][1] == "1970-01-01T00:00:01.500000Z"


def test_geojson_has_times_as_kepler_expects_them(trips, tmp_path: Path):
    trips.export(tmp_path / "trips.geojson")
    body = json.loads((tmp_path / "trips.geojson").read_text())
    lines = {feature["properties"]["id"]: feature["geometry"]["coordinates"] for feature in body["features"]}
    assert [len(place) for place in lines["bus"]] == [4, 4, 4]
    assert [place[3] for place in lines["bus"]] == [1.5, 90.0, 120.0]
    assert lines["bus"][0][0] == pytest.approx(13.3799, abs=1e-3)


def test_what_has_no_system_is_in_no_format_of_degrees(tmp_path: Path):
    plain = ss.Trips.from_points({"van": VAN})
    for format in WRITERS:
        if format in ("geoparquet", "geometry", "temporalparquet", "wkt"):
            plain.export(tmp_path / f"{format}.out", format)
            continue
        with pytest.raises(BadArgument, match="reference system of the trips is not known"):
            plain.export(tmp_path / f"{format}.out", format)
        assert not (tmp_path / f"{format}.out").exists()


def test_formats_are_named_or_guessed(trips, tmp_path: Path):
    with pytest.raises(BadArgument, match="cannot tell the format"):
        trips.export(tmp_path / "trips.parquet")
    with pytest.raises(BadArgument, match="'shp' is unknown"):
        trips.export(tmp_path / "trips.parquet", "shp")


def test_movingpandas_and_geopandas_know_the_system(trips):
    frame = trips.to_geopandas()
    assert frame.crs.to_epsg() == 32633
    assert ss.Trips.from_geopandas(frame).crs == UTM


def test_damaged_temporalparquet_is_refused(tmp_path: Path):
    table = pa.table({"Trip": pa.array([b"x"], pa.binary())}).replace_schema_metadata({"temporal": '{"columns": 1}'})
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(BadInput, match="not TemporalParquet"):
        ss.Trips.read(tmp_path / "a.parquet")


# --- data of other libraries


def test_pymeos_both_ways(trips):
    theirs = trips.to_pymeos()
    assert isinstance(theirs["van & co"], pymeos.TGeomPointSeqSet)
    assert isinstance(theirs["bus"], pymeos.TGeomPointSeq)
    assert {one.srid() for one in theirs.values()} == {32633}
    assert theirs["bus"].length() == pytest.approx(BUS.length)
    back = ss.Trips.from_pymeos(theirs)
    assert back.crs == UTM
    assert same(back.to_points()["van & co"], VAN)
    instant_ = pymeos.TGeomPointInst("SRID=32633;POINT(1 2)@2026-01-01")
    assert ss.Trips.from_pymeos({7: instant_}).to_points()["7"].x.tolist() == [1.0]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (
            ["SRID=4326;[POINT(13 52)@2000-01-01, POINT(14 52)@2000-01-02]"],
            "SRID EPSG:4326: its coordinates are not metres",
        ),
        (
            ["SRID=32633;POINT(1 2)@2000-01-01", "SRID=32632;POINT(1 2)@2000-01-01"],
            "several reference systems: 32632, 32633",
        ),
    ],
)
def test_degrees_and_mixed_systems_are_refused_wherever_they_come_from(texts, message, tmp_path: Path):
    points = {str(n): _meos(text) for n, text in enumerate(texts)}
    with pytest.raises((BadArgument, BadInput), match=message):
        ss.Trips.from_pymeos(points)
    pq.write_table(
        pa.table({"id": list(points), "Trip": [one.as_wkb() for one in points.values()]}).replace_schema_metadata(
            FOOTER
        ),
        tmp_path / "theirs.parquet",
    )
    with pytest.raises((BadArgument, BadInput), match=message):
        ss.Trips.read(tmp_path / "theirs.parquet")


def _meos(text: str):
    return pymeos.TGeomPointSeq(text) if "[" in text else pymeos.TGeomPointInst(text)


FOOTER = {
    "temporal": json.dumps(
        {
            "primary_temporal_column": "Trip",
            "columns": {"Trip": {"encoding": "MEOS-WKB", "encoding_version": "1.0", "base_type": "tgeompoint"}},
        }
    )
}


def test_what_is_no_temporal_point_is_refused():
    with pytest.raises(BadArgument, match="van: a str is not a temporal point of PyMEOS"):
        ss.Trips.from_pymeos({"van": "[POINT(1 1)@2000-01-01]"})


def test_text_keeps_its_reference_system(trips, tmp_path: Path):
    trips.export(tmp_path / "trips.csv")
    assert ss.Trips.read(tmp_path / "trips.csv", trip="Trip").crs == UTM
    (tmp_path / "one.wkt").write_text(
        "SRID=32633;POINT(400000 5800000)@2026-05-04\nSRID=32632;POINT(400000 5800000)@2026-05-04"
    )
    with pytest.raises(BadInput, match="several reference systems: 32632, 32633"):
        ss.Trips.read(tmp_path / "one.wkt")


def test_a_geodataframe_is_a_table_of_positions(spark, trips):
    frame = trips.to_geopandas().reset_index().rename(columns={"t": "time"})
    again = ss.trajectories(frame, gap="5 minutes")
    assert (again.crs, again.counts["trips"], again.counts["rejected"]) == (UTM, 3, 0)
    degrees = ss.trajectories(frame.to_crs(4326).set_index("time"), gap="5 minutes")
    assert (degrees.crs, degrees.counts["vertices"]) == (UTM, 6)
    assert same(degrees.to_points()["bus"], BUS, 1e-6)
    empty = frame.assign(geometry=[None, *frame.geometry[1:]]).set_geometry("geometry", crs=UTM)
    assert ss.trajectories(empty).counts["rejects: no place"] == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.set_geometry(frame.buffer(1)), "a geometry is a Polygon, not a Point"),
        (lambda frame: frame.set_crs(None, allow_override=True), "has no reference system"),
    ],
)
def test_other_geodataframes_are_refused(trips, change, message):
    frame = trips.to_geopandas().reset_index().rename(columns={"t": "time"})
    with pytest.raises(BadArgument, match=message):
        ss.trajectories(change(frame))
