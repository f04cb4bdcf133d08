"""The command: cells as streaming queries, mistakes, and rejects."""

from __future__ import annotations

import csv
import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from berlinmod.test_streaming import make_events, oracle_rows
from oracles.streaming_berlinmod import COLUMNS
from slipstream._bench.berlinmod import batch_evaluation, cell_runs
from slipstream._bench.berlinmod.cell_runs import Bench
from slipstream._bench.berlinmod.cells import Cell, list_cells
from slipstream._bench.berlinmod.position_events import read_events
from slipstream._bench.berlinmod.query_parameters import Parameters
from slipstream._berlinmod.dataset import Dataset
from slipstream._berlinmod.exchange import export, load
from slipstream._cli import app
from slipstream._errors import BadArgument, BadInput, CheckFailed
from slipstream._spark import session

SCHEMA = ["engine", "query", "form", "events_in", "output_rows", "throughput_eps", "snapshot_equals_batch"]


@pytest.fixture
def call(spark, monkeypatch):
    """Runs the command in the session of the tests."""
    monkeypatch.setattr(session, "build", lambda *_, **__: spark)
    monkeypatch.setattr(session, "is_running", lambda: True)
    return lambda *words: CliRunner().invoke(app, ["berlinmod", "stream", *map(str, words)], catch_exceptions=True)


@pytest.fixture
def file(tmp_path):
    """A file of events, one of them late, and one line that is none."""
    events = make_events(3, count=300)
    columns = {"vehicle_id": events.vehicle, "t_ms": events.t, "lon": events.lon, "lat": events.lat}
    text = pd.DataFrame(columns).to_csv(index=False)
    late = f"{events.vehicle[0]},{events.t[-1] - 5000},13.4,52.5\n"
    (tmp_path / "events.csv").write_text(text + late + "so what\n")
    return tmp_path / "events.csv"


def test_the_command_runs_cells_and_writes_their_rows(call, file, tmp_path):
    cells = [Cell(3, "windowed"), Cell(3, "snapshot"), Cell(5, "windowed"), Cell(5, "snapshot")]
    done = call(file, "--queries", "3,5", "--forms", "snapshot,windowed", "--rows", tmp_path / "rows", "--json")
    assert done.exit_code == 0, done.exception
    assert "302 events, 300 used, 2 rejected (line 302: late; line 303: not 4 fields)" in done.stderr
    found = json.loads(done.stdout)
    assert [[*row] for row in found] == [SCHEMA] * 4
    assert [(row["query"], row["form"]) for row in found] == [(f"Q{cell.query}", cell.form) for cell in cells]
    assert [row["snapshot_equals_batch"] for row in found] == [None, True, None, True]
    assert {(row["engine"], row["events_in"]) for row in found} == {("slipstream", 300)}
    assert all(row["throughput_eps"] > 0 for row in found)
    events = read_events(file)
    given = Parameters.derive(events)
    for cell, row in zip(cells, found, strict=True):
        rows = tmp_path / "rows" / f"{cell.name}.csv"
        with rows.open() as lines:
            assert next(csv.reader(lines)) == list(COLUMNS[cell.name])
        wanted = oracle_rows(events, given, cell)
        assert row["output_rows"] == len(wanted)
        assert batch_evaluation.have_same_rows(pd.read_csv(rows), wanted)
    assert (tmp_path / "rows" / "rejects.csv").read_text() == "line,reason\n302,late\n303,not 4 fields\n"


def test_meetings_at_every_event_get_as_many_events_as_have_the_rows(spark):
    events = make_events(5, count=400)
    bench = Bench.prepare(spark, events, Parameters.derive(events))
    most = 250
    found = bench.run(Cell(5, "continuous"), most_rows=most)
    counts = oracle_rows(events, bench.given, Cell(5, "continuous")).groupby("t").size().cumsum()
    assert most - 10 < found.output_rows <= most
    assert found.events_in < len(events)
    assert counts[counts <= found.output_rows].size


def test_a_snapshot_that_differs_from_batch_is_an_error(call, file, monkeypatch):
    monkeypatch.setattr(cell_runs.Evaluation, "agrees", lambda *_: False)
    done = call(file, "--queries", "2", "--forms", "snapshot")
    assert isinstance(done.exception, CheckFailed)
    assert "Q2 snapshot" in done.exception.message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nowhere", "nowhere: no such file"),
        ("{file} --queries 10", "--queries 10: not in 1 to 9"),
        ("{file} --queries some", "--queries some: not in 1 to 9"),
        ("{file} --forms sliding", "'sliding' is not a form"),
        ("{file} --snapshots all", "--snapshots all: no such kind"),
        ("{file} --limit-rows 0", "--limit-rows 0: below 1"),
        ("{file} --parts 0", "--parts 0: below 1"),
        ("{file} --parts 2", "events have no trips"),
        ("{file} --rows .", "--rows .: exists"),
        ("{file} --max-rejects 0.1%", "2 of 302 rejected"),
        ("empty", "empty: not a BerlinMOD data set"),
    ],
)
def test_a_mistake_is_named_before_spark_starts(file, tmp_path, monkeypatch, words, message):
    monkeypatch.setattr(session, "build", lambda *_, **__: pytest.fail("Spark was started"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    done = CliRunner().invoke(app, ["berlinmod", "stream", *words.format(file=file).split()])
    assert isinstance(done.exception, BadArgument | BadInput), done.exception
    assert message in done.exception.message


@pytest.mark.long
def test_all_cells_in_spark_answer_as_the_oracle_does(spark, tmp_path):
    events = make_events(11, count=500)
    bench = Bench.prepare(spark, events, Parameters.derive(events))
    for cell in [*list_cells(), *list_cells(forms=("snapshot",), complete=True)]:
        found = bench.run(cell, tmp_path)
        wanted = oracle_rows(events, bench.given, cell)
        assert found.output_rows == len(wanted)
        assert found.snapshot_equals_batch in (True, None)
        if len(wanted):
            assert batch_evaluation.have_same_rows(pd.read_csv(tmp_path / f"{cell.name}.csv"), wanted)


@pytest.mark.long
def test_the_data_of_secondo(spark, real_data, tmp_path):
    files = load.ForeignFiles.open(real_data / "berlinmod" / "secondo-sf0.005", "published", metres=False)
    load.load(spark, files, tmp_path / "data")
    events = read_events(tmp_path / "data")
    bench = Bench.prepare(spark, events, Parameters.derive(events))
    for cell in list_cells(forms=("snapshot",)):
        assert bench.run(cell).snapshot_equals_batch
    export.export(spark, Dataset.open(tmp_path / "data"), "mobilitydb", tmp_path / "csv")
    again = read_events(tmp_path / "csv" / "tripsinput.csv")
    assert not again.rejects
    for name in ("vehicle", "t"):
        assert np.array_equal(asdict(again)[name], asdict(events)[name])
    assert np.abs(again.lon - events.lon).max() <= 1e-7
