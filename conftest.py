"""What examples in docstrings need: a folder for files, the folder of a job, and trips for functions of columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import slipstream as ss
from slipstream._spark import session

#: what examples call positions.csv: two cars
POSITIONS = """id,time,speed,x,y
1,0,50.0,0.0,0.0
2,0,15.0,0.0,5.0
1,30,55.0,700.0,0.0
2,30,10.0,150.0,5.0
1,60,50.0,1400.0,0.0
"""
#: what examples call trips: a van, another on the same way a minute later, and one that stands at the depot
VANS = """id,Trip
van-1,"[POINT(0 0)@2026-05-04 08:00, POINT(600 0)@2026-05-04 08:02, POINT(600 400)@2026-05-04 08:04]"
van-2,"[POINT(0 0)@2026-05-04 08:01, POINT(600 0)@2026-05-04 08:03, POINT(600 400)@2026-05-04 08:05]"
van-3,"[POINT(0 30)@2026-05-04 08:00, POINT(0 30)@2026-05-04 08:10]"
"""

#: examples with trips outside of :mod:`slipstream.functions`
WITH_TRIPS = (
    "slipstream._moving.sql_functions.register",
    "slipstream._moving.mixing.check_systems",
    *(f"slipstream._api.trips.joins.{name}" for name in ("near", "meetings", "convoys", "passes")),
)


@pytest.fixture(autouse=True)
def _folder_for_examples(request: pytest.FixtureRequest) -> None:
    """Examples write into a folder of their own, or find there what others have written."""
    if not isinstance(request.node, pytest.DoctestItem):
        return
    text = "".join(example.source for example in request.node.dtest.examples)
    if request.node.name.startswith("slipstream.functions.") or request.node.name in WITH_TRIPS:
        request.node.dtest.globs["trips"] = request.getfixturevalue("trips")
    folder = request.getfixturevalue("job_folder" if "positions.csv" in text or 'open("out")' in text else "tmp_path")
    request.getfixturevalue("monkeypatch").chdir(folder)


@pytest.fixture(scope="session")
def job_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with positions.csv, and in ``out`` the job that the example of Results runs."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "positions.csv").write_text(POSITIONS)
    session.build("tests", master="local[2]")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        cars = ss.read("positions.csv")
        kept = cars.keep("CREATE CUBOID car (id BIGINT KEY, speed AST(6))")
        job = ss.Job("out").write(cars.filter("speed < 20"), name="slow").archive(cars)
        job.write(kept.query("SELECT id, max(speed) AS most FROM car"), name="most").run()
    return folder


@pytest.fixture(scope="session")
def trips(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Trips as a DataFrame, for the examples of :mod:`slipstream.functions`."""
    file = tmp_path_factory.mktemp("trips") / "vans.csv"
    file.write_text(VANS)
    return ss.Trips.read(file, trip="Trip").to_spark(session.build("tests", master="local[2]"))
