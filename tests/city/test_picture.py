"""``describe`` agrees with a plain count of the tuples, and its picture shows it."""

from __future__ import annotations

import csv
import dataclasses
import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.image import imread

from slipstream._city.character import Character, characterise
from slipstream._city.picture import draw, show
from slipstream._errors import BadArgument, Unavailable
from slipstream._feeds.run import Accident, Run
from slipstream._feeds.tuple_text import import_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lines(count: int) -> list[tuple[int, ...]]:
    """Vehicles on two expressways in both directions, some coming back, a request now and then."""
    rows: list[tuple[int, ...]] = []
    for n in range(count):
        vid, time = n % 40, 30 * (n // 40) + n % 30 + (45 if n > count // 2 and n % 3 == 0 else 0)
        seg = (n * 7) % 100
        rows.append((0, time, vid, n % 80, vid % 2, 1, vid // 2 % 2, seg, seg * 5280 + 9, *[-1] * 6))
        if n % 50 == 0:
            rows.append(((2, 3, 4)[n // 50 % 3], time, vid, -1, vid % 2, *[-1] * 4, n, 1, 2, 3, 4, 5))
    return sorted(rows, key=lambda row: row[1])


def crowds() -> list[tuple[int, ...]]:
    """Seven cars that stand, five in a jam, nine on a free road; one more comes to the jam half a minute later."""
    places = [(10, 2)] * 7 + [(11, 9)] * 5 + [(12, 40)] * 9
    seen = [(5285 + n, n, spd, seg) for n, (seg, spd) in enumerate(places)] + [(5315, 30, 9, 11)]
    return [(0, time, vid, spd, 0, 1, 0, seg, seg * 5280, *[-1] * 6) for time, vid, spd, seg in seen]


@pytest.fixture(scope="module")
def rows() -> list[tuple[int, ...]]:
    return lines(2000) + crowds()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, ...]]) -> Run:
    folder = tmp_path_factory.mktemp("picture")
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    (folder / "in.dat").write_text(text.getvalue())
    return import_text(folder / "in.dat", folder / "run")


@pytest.fixture(scope="module")
def character(run: Run, spark: SparkSession) -> Character:
    return characterise(run, spark, xway=1)


def figure(character: Character, name: str) -> float:
    return {figure.name: figure.value for figure in character.figures()}[name]


def test_totals_rates_and_speeds_equal_a_plain_count(character: Character, rows: list[tuple[int, ...]]) -> None:
    reports = [row for row in rows if row[0] == 0]
    assert figure(character, "tuples") == len(rows)
    assert figure(character, "position tuples") == len(reports)
    assert figure(character, "vehicles") == 40
    assert figure(character, "tuples/s, minute 2") == sum(60 <= row[1] < 120 for row in rows) / 60
    assert figure(character, "tuples/s, t = 510 s") == sum(500 <= row[1] < 520 for row in rows) / 20
    speeds = [row[3] for row in reports]
    assert figure(character, "mean speed in mph, whole run") == pytest.approx(sum(speeds) / len(speeds))
    assert character.vehicles(60, 120) == sum(60 <= row[1] < 120 for row in reports) / 2
    requests = [row for row in rows if row[0]]
    assert figure(character, "balance, % of requests") == pytest.approx(
        100 * sum(row[0] == 2 for row in requests) / len(requests)
    )


def test_the_fullest_segments_are_found(character: Character) -> None:
    found = {f.name: (f.value, f.published) for f in character.figures() if "fullest" in f.name}
    assert found == {
        "cars in the fullest segment at 7 to 13 mph, t = 5300 s": (5, 400),
        "cars in the fullest segment at any speed, t = 5300 s": (9, None),
    }


def test_trips_are_counted_as_the_benchmark_defines_them(character: Character, rows: list[tuple[int, ...]]) -> None:
    trips, latest = 0, {}
    for row in sorted((row for row in rows if row[0] == 0), key=lambda row: (row[2], row[1])):
        time, vid, place = row[1], row[2], (row[4], row[6])
        before = latest.get(vid)
        trips += before is None or time - before[0] > 30 or before[1] != place
        latest[vid] = (time, place)
    assert trips > 40
    assert character.trips == trips


def test_the_speed_map_holds_the_mean_of_each_segment_and_half_minute(
    character: Character, rows: list[tuple[int, ...]]
) -> None:
    assert character.speed_bin == 30
    wanted: dict[tuple[int, ...], list[int]] = {}
    for row in rows:
        if row[0] == 0 and row[4] == 1:
            wanted.setdefault((row[6], row[7], row[1] // 30), []).append(row[3])
    assert np.count_nonzero(~np.isnan(character.speeds)) == len(wanted)
    assert all(character.speeds[cell] == pytest.approx(np.mean(speeds)) for cell, speeds in wanted.items())


def test_a_multiplied_run_has_so_many_times_the_figures(run: Run, character: Character, spark: SparkSession) -> None:
    tripled = characterise(run.multiplied(3), spark, xway=1)
    for name in ("tuples", "vehicles", "trips", "tuples/s, minute 2"):
        assert figure(tripled, name) == 3 * figure(character, name)
    assert figure(tripled, "mean speed in mph, whole run") == figure(character, "mean speed in mph, whole run")
    assert tripled.expressways == 6


def test_the_real_excerpt_has_the_published_character(real_data: Path, tmp_path: Path, spark: SparkSession) -> None:
    source = real_data / "linear-road" / "datafile3hours_t0000-0418.dat"
    real = characterise(import_text(source, tmp_path / "run"), spark)
    for wanted in real.figures():
        if wanted.published and "% of requests" not in wanted.name:
            assert wanted.value == pytest.approx(wanted.published, rel=0.1), wanted.name
    assert {f.name for f in real.figures() if f.published} >= {"tuples/s, t = 390 s", "tuples/s, minute 1"}
    assert not any("5300" in f.name for f in real.figures())


def as_standard(character: Character) -> Character:
    """The same as a simulated run with the published demand and two accidents, one in each direction."""
    accidents = tuple(Accident(1, d, 2, 40 * 5280, (1, 2), 100, 190, end) for d, end in ((0, 900), (1, -1)))
    manifest = dataclasses.replace(
        character.run.manifest,
        parameters={"expressways": 1.5, "minutes": 89, "demand": 1.0},
        accidents=accidents,
        trips=77,
        seed=1,
    )
    return dataclasses.replace(character, run=Run(character.run.path, manifest))


def test_a_standard_run_is_measured_against_the_published_one_scaled(character: Character) -> None:
    standard = as_standard(character)
    published = {f.name: f.published for f in standard.figures()}
    assert published["tuples/s, minute 2"] == 1.5 * 42
    assert published["mean speed in mph, first 7 minutes"] == 49
    assert published["accidents"] == 4 * 1.5
    assert published["vehicles"] is None
    assert figure(standard, "accidents") == 2


def test_the_picture_has_every_panel_and_marks_accidents_and_published_figures(character: Character) -> None:
    drawn = draw(as_standard(character))
    titles = [axes.get_title(loc="left") for axes in drawn.axes]
    assert titles[:5] == [
        "Tuples per second",
        "Vehicles on the road",
        "Mean speed (mph)",
        "Eastbound mean speed, expressway 1",
        "Westbound mean speed, expressway 1",
    ]
    legends = [text.get_text() for axes in drawn.axes if (legend := axes.get_legend()) for text in legend.get_texts()]
    assert legends == [*["published run"] * 3, *["accident, until cleared"] * 2]
    spans = [axes.get_lines()[1].get_xdata() for axes in drawn.axes[3:5]]
    end = character.run.manifest.seconds / 60
    assert [list(map(float, span)) for span in spans] == [[100 / 60, 15.0], [100 / 60, end]]
    assert any(title.startswith("Requests: 40") for title in titles)


def test_a_run_of_one_direction_gets_one_map(character: Character) -> None:
    east = character.speeds.copy()
    east[1] = np.nan
    drawn = draw(dataclasses.replace(character, speeds=east))
    assert sum("mean speed, exp" in axes.get_title(loc="left") for axes in drawn.axes) == 1


def test_a_notebook_gets_a_png(run: Run, spark: SparkSession) -> None:
    png = show(run, spark)._repr_png_()
    image = imread(io.BytesIO(png))
    assert image.shape[1] > 1000
    assert image.std() > 0.05


def test_an_expressway_that_is_not_there_is_refused(run: Run, spark: SparkSession) -> None:
    with pytest.raises(BadArgument, match="--expressway 9: not stored") as refusal:
        characterise(run, spark, xway=9)
    assert refusal.value.hint == "Use one of: 0, 1."


def test_damage_that_shows_only_when_read_ends_with_a_message(run: Run, spark: SparkSession, tmp_path: Path) -> None:
    import shutil

    shutil.copytree(run.path, tmp_path / "run")
    file = tmp_path / "run" / run.manifest.expressways[0].file
    contents = bytearray(file.read_bytes())
    contents[4:400] = b"!" * 396
    file.write_bytes(contents)
    with pytest.raises(Unavailable, match="Spark task failed"):
        characterise(Run.open(tmp_path / "run"), spark)
