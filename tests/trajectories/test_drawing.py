"""Maps and pictures: self-contained, complete, and alive in a real browser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import slipstream as ss
from console.browsing import any_chromium
from moving.oracle import moving
from slipstream._errors import BadArgument, BadInput
from slipstream._trajectories import trip_maps
from trajectories.test_exchange import BUS, VAN

NAMES = {"</script><b>van": VAN, "bus": BUS}


@pytest.fixture
def trips() -> ss.Trips:
    return ss.Trips.from_points(NAMES, crs="EPSG:32633")


def test_a_map_is_one_file_that_loads_nothing(trips, tmp_path: Path):
    trips.draw(tmp_path / "map.html")
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert page.count("</script>") == 1
    for loading in ("http:", "https:", "src=", "<link", "@import", "url("):
        assert loading not in page


def test_a_notebook_shows_the_same_map(trips):
    shown = trips.explore()._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    assert 'sandbox="allow-scripts"' in shown


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_pictures_are_drawn_without_spark(trips, tmp_path: Path, suffix: str):
    trips.draw(tmp_path / f"map{suffix}")
    assert (tmp_path / f"map{suffix}").stat().st_size > 5000


def test_where_there_are_too_many_positions_every_nth_is_drawn():
    seconds = np.arange(1001)
    long = moving([[(int(s), 400_000.0 + 10 * s, 5_800_000.0) for s in seconds]])
    table = ss.Trips.from_points({"a": long})._of.some(1)
    found = trip_maps.prepare(table, "", most=100)
    assert found.step == 11
    assert found.tracks[0].t[[0, -1]].tolist() == [0, 1_000_000]
    assert found.tracks[0].speed.round(9).tolist() == [36.0] * (len(found.tracks[0].t) - 1)


def test_mistakes_are_named(trips, tmp_path: Path):
    with pytest.raises(BadArgument, match="not a map or a picture"):
        trips.draw(tmp_path / "map.jpeg")
    with pytest.raises(BadInput, match="no trips to draw"):
        ss.Trips.from_points({}).explore()


def test_the_map_plays_in_a_browser(trips, tmp_path: Path):
    trips.draw(tmp_path / "map.html")
    mistakes: list[str] = []
    with any_chromium() as browser:
        page = browser.new_page(viewport={"width": 900, "height": 600})
        page.on("pageerror", lambda error: mistakes.append(str(error)))
        page.goto((tmp_path / "map.html").as_uri())
        assert page.locator("#clock").inner_text() == "1970-01-01 00:15:00 UTC"
        page.locator("#slider").fill("0")
        assert page.locator("#clock").inner_text() == "1970-01-01 00:00:00 UTC"
        before = page.locator("#map").screenshot()
        page.locator("#play").click()
        page.wait_for_function("now > 0")
        page.locator("#play").click()
        assert page.locator("#map").screenshot() != before
        page.evaluate("now = 60000; draw(); describe(sx(data.tracks[0].u[1]), sy(data.tracks[0].w[1]))")
        assert page.locator("#tip").inner_text().splitlines()[0] == "</script><b>van"
        page.locator("#map").press("+")
        page.locator("#fit").click()
    assert not mistakes
