"""What fuzzing found: inputs that ended in a traceback, a crash, a hang, wrong data, or an error without advice."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuzz import lines
from fuzz.campaign import ACCEPTED, REFUSED, REJECTED, Reader, outcome_of
from fuzz.test_fuzz import all_readers
from linear_road.delivering import deliver, delivery
from slipstream._errors import BadArgument, BadInput
from slipstream._feeds.parse import parse_trains
from slipstream._feeds.tuple_text import import_text
from slipstream._io.outputs import JOURNAL, check_journal
from slipstream._io.outputs.text_files import append
from slipstream._linear_road.answer_text import check_texts
from slipstream._linear_road.job.toll_journal import Detail, read_journal
from slipstream._network.quality.qos import Graph

DEEP = b"[" * 2000
LONG = b"9" * 5000
LAUGHS = b'<!DOCTYPE a [<!ENTITY x "xxxx">]>'

FOUND: list[tuple[str, bytes, str]] = [
    ("Linear Road JSON", b'{"type": 2, "time": 1, "vid": 5, "qid": 1, "vid": 7}', REJECTED),
    ("import of text", b"0,0," + LONG + b",32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1\n", REFUSED),
    ("import of text", b"2,1,5,-1,-1,-1,-1,-1,-1," + b"0" * 5000 + b"7,-1,-1,-1,-1,-1\n", ACCEPTED),
    ("network", b"network: " + LONG, REFUSED),
    ("network", b"network: " + DEEP, REFUSED),
    ("network", b"network: 2024-02-30", REFUSED),
    ("SQL in boxes", b"(" * 5000, REFUSED),
    ("SQL in boxes", b"", REFUSED),
    ("delta of a snapshot", b'{"bytes": 3888888888888888888888888888888888, "gone": 1}\n' + bytes(8), REFUSED),
    ("SQL in boxes", b"map(speed", REFUSED),
    ("SQL in boxes", b"abs(a -> a)", REFUSED),
    ("SQL in boxes", b"abs(a as)", REFUSED),
    ("SQL in boxes", b"abs(1e-999999999F)", REFUSED),
    ("SQL in boxes", " + ".join(["a"] * 500).encode(), REFUSED),
    ("Streamonas-SQL queries", b"SELECT " + b" + ".join([b"pos"] * 500) + b" FROM car", REFUSED),
    ("Streamonas-SQL queries", b"SELECT vid FROM car WHERE pos IN (" + b", ".join([b"1"] * 9000) + b")", REFUSED),
    ("Streamonas-SQL declarations", b"CREATE CUBOID c (a INT KEY, `b` + reflect('a')` INT)", REFUSED),
    ("Streamonas-SQL declarations", b"CREATE QUERY `../../x` AS SELECT vid FROM car", REFUSED),
    ("SQL in boxes", b"left.pos = right.null and left.time > 3", REFUSED),
    ("Streamonas-SQL queries", b"SELECT delta(speed, vid) FROM car", REFUSED),
    (
        "streets as GeoJSON",
        b'{"type": "FeatureCollection", "features": [{"type": "Feature", "properties": {"vmax": 50}, "geometry": '
        b'{"type": "LineString", "coordinates": [[0, 0], [100, Infinity]]}}]}',
        REFUSED,
    ),
    ("Streamonas-SQL declarations", b"CREATE PATTERN w AS (9, inf)", REFUSED),
    ("Streamonas-SQL declarations", b"CREATE CUBOID c (a INT KEY, b INT, b INT)", REFUSED),
    ("Streamonas-SQL declarations", b"CREATE CUBOID c (a INT KEY, b AST(" + LONG + b"))", REFUSED),
    ("Streamonas-SQL declarations", b"SELECT 'no end", REFUSED),
    ("Streamonas-SQL queries", b"", REFUSED),
    ("Streamonas-SQL queries", b"SELECT min(evg(speed)), sum(pos), map(tick[-1] < 20", REFUSED),
    ("Streamonas-SQL queries", b"SELECT min(sum(speed)) FROM car", REFUSED),
    ("Streamonas-SQL queries", b"SELECT vid FROM car LIMIT -1", REFUSED),
    ("BerlinMOD points.csv", b"pointid,geom\n1,0109000000000000000000F03F0000000000000040\n", REFUSED),
    (
        "array of a history",
        b"\x93NUMPY\x01\x00v\x00s'descr': '<u2', 'fortran_order': False, 'shape': (108, 69), }" + b" " * 55 + b"\n",
        REFUSED,
    ),
    ("Streamonas-SQL queries", b"SELECT vid FROM car LIMIT 1.5", REFUSED),
    ("Streamonas-SQL queries", b"SELECT vid FROM car WHERE pos < 1e", REFUSED),
    (
        "streets of OpenStreetMap",
        b'<osm version="0.6"><node id="1" lat="52.5" lon="13.4"/><node id="2" lat="52.51" lon="13.4"/>'
        b'<node id="3" lat="52.51" lon="13.42"/><way id="7"><nd ref="1"/><nd ref="2"/><nd ref="3"/><nd ref="1"/>'
        b'<tag k="highway" v="residential"/></way></osm>',
        REFUSED,
    ),
    ("Streamonas-SQL queries", b"SELECT vid FROM car WHERE pos < " + LONG, ACCEPTED),
    ("Streamonas-SQL queries", b"SELECT speed[-" + LONG + b"] FROM car", REFUSED),
    ("Streamonas-SQL queries", b"SELECT vid FROM car WHERE " + b"(" * 5000, REFUSED),
    (
        "Streamonas-SQL queries",
        b"SELECT vid, delta(speed, 1e309), delta(speed, 9223372036854775807) FROM car",
        ACCEPTED,
    ),
    (
        "SUMO floating-car data",
        b'<fcd-export><timestep time="0"><vehicle id="a" lane="up_'
        + LONG
        + b'" pos="1" speed="1"/></timestep></fcd-export>',
        REFUSED,
    ),
    ("recording as CSV", b"sid,time,pos,\xe0name,armed\n0,0,1.5,x,true\n", REFUSED),
    ("tracks as CSV", b"id,t,x,y\n\xff", REFUSED),
    ("tracks as GPX", LAUGHS + b"<gpx>&x;</gpx>", REFUSED),
    ("track as MF-JSON", DEEP, REFUSED),
    (
        "track as MF-JSON",
        b'{"type": "MovingPoint", "coordinates": [[0, ' + b"9" * 400 + b']], "datetimes": ["2007-05-28T08:00:00Z"]}',
        REFUSED,
    ),
    ("points of MobilityDB", b"00000F03F000000000", REJECTED),
    ("streets as CSV", b"Id,Vmax,X1,Y1,X2,Y2\n1,50,0,0,inf,0\n", REFUSED),
    ("streets as CSV", b"Id,Vmax,X1,Y1,X2,Y2\n1\r50,0,0,100,0\n", REFUSED),
    ("streets as CSV", b"Id,Vmax,X1,Y1,X2,Y2\n1,1e-320,0,0,100,0\n", REFUSED),
    ("streets as GeoJSON", b'{"features": [' + LONG + b"]}", REFUSED),
    ("streets as GeoJSON", b'{"features": [], "crs": {"properties": {"name": []}}}', REFUSED),
    ("streets as GeoJSON", b'{"features": [{"properties": [1], "geometry": {"type": "LineString"}}]}', REFUSED),
    ("streets as GeoJSON", DEEP, REFUSED),
    ("streets of OpenStreetMap", b'<osm version="0.6"><node id="1" lat="52.5" lon="256"/></osm>', REFUSED),
    ("streets of OpenStreetMap", b'<osm version="0.6"><way id="x"/></osm>', REFUSED),
    ("regions of SECONDO", b"(a b c d ((1 0.5 (((0 0) (1))))))", REFUSED),
    ("regions of SECONDO", b"(a b c d ((1 -1 ((((0 0) (1 1)))))))", REFUSED),
    ("BerlinMOD datamcar.csv", b"Moid,Licence,Type,Model\n", REFUSED),
    ("BerlinMOD datamcar.csv", b"Moid,Licence,Type,Model\n4294967296,B,car,VW\n", REFUSED),
    ("BerlinMOD querypoints.csv", b"Id,Pos_x,Pos_y\n1,inf,0\n", REFUSED),
    ("BerlinMOD queryinstants.csv", b"Id,Instant\n1,2007-05\n", REFUSED),
    ("BerlinMOD queryregions.csv", b"Id,Vertex_x\n1,0\n", REFUSED),
    ("BerlinMOD querylicences.csv", b"Id,Licence\n1\rB\n", REFUSED),
    ("BerlinMOD points.csv", b"pointid,geom\n1,POINT(1 1e309)\n", REFUSED),
    ("BerlinMOD points.csv", b"pointid,geom\n1,POINT EMPTY\n", REFUSED),
    ("points of MobilityDB", b"POINT(1 1e309)", REJECTED),
    ("run manifest", b'{"format": "slipstream-run", "version": 1, "seconds":' + DEEP, REFUSED),
    ("BerlinMOD manifest", DEEP, REFUSED),
    ("engine's clock", b'{"speed": [1.0], "origin_ms": 5}', REFUSED),
    ("engine's clock", b'{"speed": 1e308, "origin_ms": 5}', REFUSED),
    ("catalogue of a snapshot", b"[]", REFUSED),
    ("image of a snapshot", b"", REFUSED),
    ("intake of the state store", b"12345", REFUSED),
    (
        "POST /network/check",
        b'{"document": {"network": "x", "version": 1, "sources": [1], "boxes": {}, "outputs": {}}}',
        "ok",
    ),
]


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Reader]]:
    with all_readers(tmp_path_factory.mktemp("found")) as made:
        yield {reader.name: reader for reader in made}


@pytest.mark.parametrize(("name", "data", "outcome"), FOUND, ids=[f"{n} {k}" for k, (n, _, _) in enumerate(FOUND)])
def test_what_fuzzing_found_is_refused_with_advice(
    readers: dict[str, Reader], name: str, data: bytes, outcome: str
) -> None:
    expected = {ACCEPTED, REFUSED} if outcome == "ok" else {outcome}
    assert outcome_of(readers[name], data) in expected


def changed(readers: dict[str, Reader], name: str, **values: Any) -> bytes:
    """The valid document of a reader with other values."""
    return json.dumps(json.loads(readers[name].corpus[0]) | values).encode()


@pytest.mark.parametrize(
    "values",
    [
        {"vid_stride": "108"},
        {"vid_stride": [1]},
        {"multiply": 0},
        {"seconds": 1},
        {"expressways": []},
        {"vehicles": float("nan")},
    ],
)
def test_a_manifest_that_says_what_cannot_be_is_refused(readers: dict[str, Reader], values: dict[str, Any]) -> None:
    assert outcome_of(readers["run manifest"], changed(readers, "run manifest", **values)) == REFUSED


def test_a_manifest_cannot_name_an_expressway_twice_or_another_file(readers: dict[str, Reader]) -> None:
    first, second = json.loads(readers["run manifest"].corpus[0])["expressways"]
    for expressways in ([first, first], [{**first, "file": second["file"]}], [{**first, "first_second": 7}]):
        data = changed(readers, "run manifest", expressways=expressways)
        assert outcome_of(readers["run manifest"], data) == REFUSED


def test_a_utility_at_no_number_is_refused() -> None:
    with pytest.raises(BadInput, match="not a graph of utility"):
        Graph(((0, 1), (float("nan"), 1), (30, 0)))


@pytest.mark.parametrize("values", [{"partitions": -1}, {"fragments": []}, {"shards": [0.5]}, {"lateness": None}])
def test_a_damaged_layout_is_refused(readers: dict[str, Reader], values: dict[str, Any]) -> None:
    body = json.loads(readers["engine's layout"].corpus[0])
    part = "layout" if next(iter(values)) in body["layout"] else "settings"
    data = changed(readers, "engine's layout", **{part: {**body[part], **values}})
    assert outcome_of(readers["engine's layout"], data) == REFUSED


def test_an_index_with_an_endless_name_is_refused(readers: dict[str, Reader]) -> None:
    index = json.loads(readers["index of a history"].corpus[0])
    index["checks"] = {"tolls" * 1000: next(iter(index["checks"].values()))}
    assert outcome_of(readers["index of a history"], json.dumps(index).encode()) == REFUSED


def test_a_journal_with_a_batch_twice_is_refused(readers: dict[str, Reader]) -> None:
    line = readers["engine's journal"].corpus[0].splitlines(keepends=True)[0]
    assert outcome_of(readers["engine's journal"], line + line) == REFUSED
    assert outcome_of(readers["engine's journal"], line.replace(b'"rejects": 0', b'"rejects": "0"')) == REFUSED


def test_an_image_whose_index_leads_nowhere_is_refused(readers: dict[str, Reader]) -> None:
    image = readers["image of a snapshot"].corpus[0]
    everywhere = np.full(4, 7, np.int32).tobytes()
    assert outcome_of(readers["image of a snapshot"], image[:-16] + everywhere) == REFUSED


def test_a_run_whose_numbers_do_not_fit_twice_cannot_be_multiplied(tmp_path: Path) -> None:
    (tmp_path / "feed.dat").write_text(f"2,1,{2**31 - 1},-1,-1,-1,-1,-1,-1,1,-1,-1,-1,-1,-1\n")
    run = import_text(tmp_path / "feed.dat", tmp_path / "run")
    with pytest.raises(BadArgument, match="vehicles would exceed 32 bits"):
        run.multiplied(2)


def test_a_footer_that_was_changed_is_refused_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "feed.dat").write_bytes(lines._text(lines.ROWS))
    run = import_text(tmp_path / "feed.dat", tmp_path / "run")
    file = run.path / run.manifest.expressways[0].file
    whole = bytearray(file.read_bytes())
    whole[-60] ^= 1
    file.write_bytes(whole)
    with pytest.raises(BadInput, match="missing or truncated"):
        type(run).open(run.path)


def test_many_small_trains_take_time_in_proportion_to_their_number() -> None:
    chunk = struct.pack("<4siii", b"LRT1", 1, 0, 0) * 20_000
    reader = Reader("trains", "bytes", [chunk], lambda data: ACCEPTED if not parse_trains(data).rejects else REJECTED)
    assert outcome_of(reader, chunk) == ACCEPTED


def test_the_journal_goes_on_after_a_line_that_a_crash_cut_short(tmp_path: Path) -> None:
    deliver(delivery(tmp_path), 0)
    with (tmp_path / JOURNAL).open("ab") as file:
        file.write(b'{"batch": 1, "comm')
    deliver(delivery(tmp_path), 1)
    assert [batch.batch for batch in read_journal(tmp_path)] == [0, 1]


def test_a_journal_that_lost_batches_is_refused(tmp_path: Path) -> None:
    """What an engine would cut off its text files then was committed."""
    commits = tmp_path / "checkpoint" / "commits"
    commits.mkdir(parents=True)
    for batch in range(4):
        deliver(delivery(tmp_path), batch)
        (commits / str(batch)).touch()
    check_journal(tmp_path)
    whole = (tmp_path / JOURNAL).read_bytes()
    (tmp_path / JOURNAL).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInput, match="4 were committed"):
        check_journal(tmp_path)
    with pytest.raises(BadInput, match="but batch 4 follows"):
        deliver(delivery(tmp_path), 4)
    (tmp_path / JOURNAL).write_bytes(b"".join(whole.splitlines(keepends=True)[1:]))
    with pytest.raises(BadInput, match="line 1 is batch 1"):
        check_journal(tmp_path)


def test_a_text_file_shorter_than_what_was_committed_is_not_filled_up(tmp_path: Path) -> None:
    (tmp_path / "output.csv").write_bytes(b"0,1\n")
    with pytest.raises(BadInput, match="4 bytes, but 9 were committed"):
        append(tmp_path / "output.csv", 9, [b"x"])


def test_a_text_file_cut_short_after_the_end_of_a_run_is_refused(tmp_path: Path) -> None:
    """Nothing is appended any more, so only a look at the start tells."""
    (tmp_path / "output.csv").write_bytes(b"0,1\n")
    with pytest.raises(BadInput, match="4 bytes, but 9 were committed"):
        check_texts(tmp_path, Detail(newest=1, text_bytes=9))
