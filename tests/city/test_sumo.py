"""SUMO's floating-car data becomes a run that agrees with a plain reading of the file."""

from __future__ import annotations

import gzip
import io
import math
import re
import tracemalloc
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream._city.sumo import ImportCounts, import_sumo, read_map, read_sightings
from slipstream._errors import BadInput
from slipstream._feeds.run import Run
from slipstream._feeds.tuple_text import export_text

DOC = (Path(__file__).parents[2] / "docs" / "how-to" / "sumo.md").read_text()
MAP = """
[edges.e]
expressway = 1
direction = 0
offset = 5000
[edges.w]
expressway = 0
direction = 1
offset = 20000
lanes = [2]
"""


def example(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", DOC, re.DOTALL)
    assert found
    return found.group(1)


def imported(folder: Path, fcd: str | bytes, map_text: str = MAP, name: str = "fcd.xml") -> Run:
    (folder / "map.toml").write_text(map_text)
    (folder / name).write_bytes(fcd if isinstance(fcd, bytes) else fcd.encode())
    return import_sumo(folder / name, folder / "map.toml", folder / "run")


def text_of(run: Run) -> str:
    out = io.BytesIO()
    export_text(run, out)
    return out.getvalue().decode()


def fcd(steps: list[tuple[float, list[tuple[str, str, float, float]]]]) -> str:
    body = "".join(
        f'<timestep time="{time:.2f}">'
        + "".join(f'<vehicle id="{v}" lane="{lane}" pos="{pos}" speed="{spd}"/>' for v, lane, pos, spd in vehicles)
        + "</timestep>"
        for time, vehicles in steps
    )
    return f'<?xml version="1.0"?><fcd-export>{body}</fcd-export>'


def test_the_example_in_the_documentation_comes_out_as_it_says(tmp_path: Path) -> None:
    run = imported(tmp_path, example("xml"), example("toml"))
    assert text_of(run) == example("text")
    assert run.manifest.vehicles == run.manifest.vid_stride == 3
    assert run.manifest.parameters == {"map": "map.toml", "sightings": 7, "unmapped": 1, "capped": 1}
    run.verify()


def test_gzipped_data_reads_the_same(tmp_path: Path) -> None:
    run = imported(tmp_path, gzip.compress(example("xml").encode()), example("toml"), "fcd.xml.gz")
    assert text_of(run) == example("text")


def plainly(text: str) -> list[tuple[int, ...]]:
    """The same conversion as slowly and simply as possible."""
    vids: dict[str, int] = {}
    due: dict[str, int] = {}
    result = []
    steps = list(ElementTree.fromstring(text))
    for step in steps:
        second = int(float(step.attrib["time"])) - int(float(steps[0].attrib["time"]))
        for v in step:
            edge, index = v.attrib["lane"].rsplit("_", 1)
            name, feet = v.attrib["id"], float(v.attrib["pos"]) / 0.3048
            if edge not in ("e", "w") or second < due.get(name, 0):
                continue
            due[name] = second + 30
            pos = math.floor(5000 + feet) if edge == "e" else math.floor(20000 - feet)
            spd = min(100, round(float(v.attrib["speed"]) * 2.2369362920544025))
            place = (1, int(index) + 1, 0) if edge == "e" else (0, 2, 1)
            vid = vids.setdefault(name, len(vids))
            result.append((0, second, vid, spd, *place, pos // 5280, pos, -1, -1, -1, -1, -1, -1))
    return result


lanes = st.sampled_from(["e_0", "e_1", "e_2", "w_0", "street_0"])
vehicle = st.tuples(st.sampled_from("abcdef"), lanes, st.integers(0, 60_000), st.integers(0, 500))


@given(
    st.integers(0, 9),
    st.sampled_from([0.5, 1.0, 5.0, 10.0]),
    st.lists(st.lists(vehicle, max_size=4, unique_by=lambda v: v[0]), min_size=1, max_size=20),
)
def test_any_data_comes_out_as_a_plain_reading_says(
    tmp_path_factory: pytest.TempPathFactory, start: int, period: float, steps: list[list[Any]]
) -> None:
    timed = [
        (start + period * n, [(v, lane, pos / 10, spd / 10) for v, lane, pos, spd in seen])
        for n, seen in enumerate(steps)
    ]
    text = fcd(timed)
    wanted = plainly(text)
    folder = tmp_path_factory.mktemp("sumo")
    if not wanted:
        with pytest.raises(BadInput, match="no vehicle on an edge"):
            imported(folder, text)
        return
    lines = text_of(imported(folder, text)).splitlines()
    assert sorted(lines) == sorted(",".join(map(str, row)) for row in wanted)
    assert [int(line.split(",")[1]) for line in lines] == [row[1] for row in wanted]


def test_memory_holds_a_step_and_not_the_file(tmp_path: Path) -> None:
    crowd = [(f"v{n}", "street_0", 1.0, 1.0) for n in range(200)]
    file = tmp_path / "long.xml"
    file.write_text(fcd([(float(t), crowd) for t in range(300)]))
    tracemalloc.start()
    try:
        assert list(read_sightings(file, {}, ImportCounts())) == []
        assert tracemalloc.get_traced_memory()[1] < file.stat().st_size
    finally:
        tracemalloc.stop()


ONE = fcd([(0, [("a", "e_0", 1.0, 1.0)])])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (ONE[:-20], "invalid XML .*line 1"),
        ("", "empty"),
        ("<routes/>", "starts with <routes>"),
        ('<!DOCTYPE x [<!ENTITY a "aa">]><fcd-export>&a;</fcd-export>', "invalid XML"),
        (ONE.replace('pos="1.0"', ""), "second 0, vehicle 'a': pos is None"),
        (ONE.replace('speed="1.0"', 'speed="fast"'), "speed is 'fast'"),
        (ONE.replace('pos="1.0"', 'pos="nan"'), "pos is 'nan'"),
        (ONE.replace("0.00", "-5"), "time is '-5'"),
        (ONE.replace("e_0", "e_3"), "lane 'e_3', but the map has 3 lanes for its edge"),
        (ONE.replace("e_0", "e_x"), "lane 'e_x'"),
        (ONE.replace('pos="1.0"', 'pos="160000"'), "off the road"),
        (ONE.replace("e_0", "street_0"), "no vehicle on an edge of .*such as: street"),
        (fcd([(0, []), (7, [])]), "time step 7 after 0"),
        (fcd([(5, []), (4, [])]), "time step 4 after 5"),
    ],
)
def test_data_that_cannot_be_used_is_refused_and_leaves_nothing(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        imported(tmp_path, text)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fcd.xml", "map.toml"]


def test_cut_gzip_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        imported(tmp_path, gzip.compress(ONE.encode() * 50)[:-30], name="fcd.xml.gz")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[edges.a]\nx = = 1", "cannot be read .*line 2"),
        ("", r"expected one table \[edges.NAME\]"),
        ("[roads.a]\nx = 1", "expected one table"),
        ("[edges]\na = 5", "edge a"),
        ("[edges.a]\nexpressway = 0\ndirection = 0", "edge a: missing 1 required .* 'offset'"),
        ("[edges.a]\nexpressway = 0\ndirection = 2\noffset = 0", "edge a: direction = 2"),
        ("[edges.a]\nexpressway = 0\ndirection = 0\noffset = -1", "edge a: offset = -1"),
        ('[edges.a]\nexpressway = "A1"\ndirection = 0\noffset = 0', "edge a: expressway = 'A1'"),
        ("[edges.a]\nexpressway = 0\ndirection = 0\noffset = 0\nlanes = [7]", "edge a: lanes"),
        ("[edges.a]\nexpressway = 0\ndirection = 0\noffset = 0\nspeed = 7", "edge a: .*'speed'"),
        ('[edges.a]\nexpressway = 0\ndirection = 0\noffset = 0\nramp = "on"', "edge a: ramp = 'on'"),
    ],
)
def test_a_bad_map_is_told_by_edge_and_key(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "map.toml").write_text(text)
    with pytest.raises(BadInput, match=complaint) as refusal:
        read_map(tmp_path / "map.toml")
    assert "docs/how-to/sumo.md" in refusal.value.hint
    with pytest.raises(BadInput, match="No such file"):
        read_map(tmp_path / "other.toml")
