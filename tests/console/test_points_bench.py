"""Ways to draw moving points in a browser: which one the map uses was decided by these figures."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from console.browsing import any_chromium

SCRIPT = (Path(__file__).parent / "drawn_points.js").read_text(encoding="utf-8")
#: pixels of the map, and pixels of the screen per pixel
SCREENS = {
    "1440 x 900": (1440, 900, 1),
    "1440 x 900, twice as sharp": (1440, 900, 2),
    "390 x 844, sharp": (390, 844, 2),
}
POINTS = [10_000, 100_000, 300_000]


@pytest.mark.bench
def test_ways_to_draw_moving_points() -> None:
    with any_chromium() as browser:
        for name, (width, height, ratio) in SCREENS.items():
            page = browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=ratio)
            page.set_content("<!doctype html><style>*{margin:0}canvas{width:100vw;height:100vh;display:block}</style>")
            page.evaluate(SCRIPT)
            graphics = page.evaluate("graphics()")
            print(f"\n{name}; {platform.machine()}, {graphics}")
            for points in POINTS:
                for way in ("arcs", "rectangles", "pixels", "webgl"):
                    found = page.evaluate(f"measure('{way}', {points}, 3000)")
                    print(f"  {points:>7,} {way:<11}{found['frames']:6.1f} frames/s, {found['ms']:6.1f} ms of script")
            page.close()
