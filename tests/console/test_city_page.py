"""The API of the live city agrees with the run and with the answers of the engine."""

from __future__ import annotations

import base64
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from console.recorded import DELAY_MS, Recording
from slipstream._console.live.notices import read_batch_answers
from slipstream._feeds.run import Run
from slipstream._linear_road.answers import BALANCE, LIMITS
from slipstream._linear_road.job.toll_journal import read_journal
from slipstream._runtime.watching import status


def look(page: TestClient, second: int) -> dict[str, Any]:
    answer = page.post("/api/city/look", json={"follow": False, "second": second})
    assert answer.json()["shown"] == second
    return answer.json()  # type: ignore[no-any-return]


def events(page: TestClient, most: int) -> dict[str, Any]:
    """The first events of the stream, the last of each name."""
    text = page.get("/api/city/stream", params={"events": most}).text
    found = [dict(line.split(": ", 1) for line in event.splitlines()) for event in text.strip().split("\n\n")]
    return {event["event"]: json.loads(event["data"]) for event in found}


def tuples(run: Run) -> list[dict[str, int]]:
    minutes = [run.minute(stored, minute) for stored in range(run.stored) for minute in run.minutes]
    return pa.concat_tables(minutes).to_pylist()  # type: ignore[no-any-return]


def test_what_can_be_started_and_opened_is_what_is_there(page: TestClient, run: Run) -> None:
    choices = page.get("/api/city/choices").json()
    assert [entry["name"] for entry in choices["runs"]] == ["city"]
    assert choices["runs"][0] == {
        "name": "city",
        "expressways": len(run.manifest.expressways),
        "seconds": run.manifest.seconds,
        "tuples": sum(run.manifest.counts.values()),
        "accidents": len(run.manifest.accidents),
    }
    assert choices["results"] == ["tolled"]


@pytest.mark.parametrize("second", [0, 29, 59, 60, 251, 419])
def test_the_map_shows_every_car_once_where_it_last_reported(page: TestClient, run: Run, second: int) -> None:
    look(page, second)
    table = pa.ipc.open_stream(page.get("/api/city/segments").content).read_all().to_pylist()
    expected: dict[tuple[int, int, int], list[int]] = {}
    for row in tuples(run):
        if row["type"] == 0 and second - 30 < row["time"] <= second:
            expected.setdefault((row["xway"], row["dir"], row["seg"]), []).append(row["spd"])
    for row in table:
        speeds = expected.pop((row["xway"], row["dir"], row["seg"]), [])
        assert row["cars"] == len(speeds)
        assert row["speed"] == (round(float(np.mean(speeds))) if speeds else -1)
    assert not expected


def test_the_stream_brings_state_map_and_batches(page: TestClient, run: Run, workspace: Path) -> None:
    found = events(page, 3)
    state, grid, beats = found["state"], found["grid"], found["beats"]
    assert (state["status"], state["shown"], state["committed"]) == ("finished", 419, 419)
    assert state["cars"] == int(np.frombuffer(base64.b64decode(grid["cars"]), "<u2").sum())
    assert len(base64.b64decode(grid["speed"])) == 200 * len(run.manifest.expressways)
    assert sum(beat["tuples"] for beat in beats) == sum(run.manifest.counts.values())
    assert sum(beat["answers"] for beat in beats) == sum(
        count for batch in read_journal(workspace / "tolled") for _, _, count, _ in batch.answers
    )


def test_accidents_appear_where_the_run_had_them(page: TestClient, run: Run) -> None:
    """Those that a driver was told of: an accident that nobody drives towards shows when somebody does."""
    happened = [{"xway": a.xway, "dir": a.dir, "seg": a.pos // 5280} for a in run.manifest.accidents]
    shown = look(page, 419)["accidents"]
    assert shown
    assert all(accident in happened for accident in shown)
    assert not look(page, 30)["accidents"]


def test_balances_are_those_the_engine_answered(page: TestClient, workspace: Path) -> None:
    asked = [
        (int(vid), int(time_), int(balance))
        for batch in read_journal(workspace / "tolled")
        for kinds in [read_batch_answers(workspace / "tolled", batch.batch, (BALANCE,))]
        for vid, time_, balance in zip(kinds["vid"], kinds["a"], kinds["b"], strict=True)
    ]
    paying = [one for one in asked if one[2] > 0]
    assert paying
    for vid, second, balance in [*paying[-25:], *asked[:5]]:
        look(page, second)
        vehicle = page.get(f"/api/city/vehicles/{vid}").json()
        assert (vehicle["balance"], vehicle["on_the_road"]) == (balance, True)


def test_a_vehicle_that_was_never_seen_is_said_so(page: TestClient) -> None:
    answer = page.get("/api/city/vehicles/2000000000")
    assert answer.status_code == 404
    assert "has not reported" in answer.json()["message"]


def test_a_segments_minutes_agree_with_the_tolls_of_the_next(page: TestClient, run: Run) -> None:
    look(page, 419)
    accident = run.manifest.accidents[0]
    seg = accident.pos // 5280
    minutes = page.get(f"/api/city/expressways/{accident.xway}/{accident.dir}/{seg}").json()
    assert [minute["minute"] for minute in minutes] == list(range(1, 8))
    cars: dict[int, set[int]] = {}
    for row in tuples(run):
        if (row["type"], row["xway"], row["dir"], row["seg"]) == (0, accident.xway, accident.dir, seg):
            cars.setdefault(row["time"] // 60 + 1, set()).add(row["vid"])
    assert [minute["cars"] for minute in minutes] == [len(cars.get(number, ())) for number in range(1, 8)]
    assert any(minute["accident"] for minute in minutes)


def test_response_times_and_lag_are_those_of_the_journal(page: TestClient) -> None:
    health = page.get("/api/city").json()["health"]
    assert health["lag"] == pytest.approx(DELAY_MS / 1000, abs=0.7)
    assert [kind["limit"] for kind in health["kinds"]] == list(LIMITS)
    # batches of 20 seconds: the oldest answer waits for all of them
    assert 19 <= health["kinds"][0]["recent"]["most"] <= 22
    assert health["stable"]
    assert health["capacity"] == pytest.approx(20 - health["commit"], abs=0.1)


def test_replay_plays_on_and_stops_at_the_newest_second(page: TestClient) -> None:
    page.post("/api/city/look", json={"follow": False, "second": 380, "playing": True, "speed": 200})
    deadline = time.monotonic() + 20
    while (state := page.get("/api/city").json())["view"]["playing"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert state["shown"] == 419


def test_a_folder_that_grows_is_followed_within_two_seconds(page: TestClient, run: Run, workspace: Path) -> None:
    recording = Recording(run, workspace / "growing").commit(10)
    page.post("/api/city/open", json={"result": "growing"})
    assert page.get("/api/city").json()["shown"] == 9
    recording.commit(10)
    deadline = time.monotonic() + 2
    while page.get("/api/city").json()["shown"] != 19:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_only_one_engine_and_none_without_a_start(page: TestClient) -> None:
    for what in ("pause", "stop"):
        answer = page.post(f"/api/city/{what}")
        assert answer.status_code == 409
        assert answer.json()["hint"] == "Start a run first; stop jobs of other processes on the Jobs page."


def test_metrics_and_health_for_those_who_watch(page: TestClient) -> None:
    assert page.get("/healthz").json()["status"] == "ok"
    text = page.get("/metrics").text
    assert "slipstream_committed_second 419.0" in text
    assert 'slipstream_response_limit_seconds{kind="travel_time"} 30.0' in text


def test_the_page_outlives_what_it_cannot_read(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    city = page.app.state.city  # type: ignore[attr-defined]
    with monkeypatch.context() as broken:
        broken.setattr(city.subject.journal, "refresh", lambda: 1 / 0)
        while not city.state.error:
            time.sleep(0.05)
    assert "cannot read tolled" in city.state.error
    while city.state.error:
        time.sleep(0.05)


def test_an_engine_of_another_process_is_shown_at_work(
    page: TestClient, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = workspace / "tolled" / status.FILE
    before = file.read_bytes() if file.exists() else None

    def shown(state: str, pid: int) -> Any:
        file.write_text(json.dumps({"state": state, "why": "", "pid": pid}))
        return page.post("/api/city/look", json={"follow": True}).json()["status"]

    try:
        assert shown(status.STARTING, os.getpid()) == "starting"
        assert shown(status.RUNNING, os.getpid()) == "running"
        refused = page.post("/api/city/resume", json={"speed": 1})
        assert "Another process is running" in refused.text
        assert shown(status.RUNNING, 2**22 + 1) == "finished", "it is gone"
    finally:
        file.unlink() if before is None else file.write_bytes(before)
