"""Streaming BerlinMOD: every cell answers as the specification says, however the stream is cut and restarted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berlinmod.cells_in_memory import answers, run
from oracles.streaming_berlinmod import COLUMNS, Event, Oracle
from slipstream._bench.berlinmod.batch_evaluation import Evaluation, have_same_rows
from slipstream._bench.berlinmod.cells import FORMS, QUERIES, Cell, list_cells
from slipstream._bench.berlinmod.position_events import LATENESS, Events
from slipstream._bench.berlinmod.query_parameters import Parameters
from slipstream._network.boxes.movement.in_order import find_late

CELLS = [*list_cells(), *list_cells(forms=("snapshot",), complete=True)]
#: two seconds, so that windows, ticks and ties are hit often
WINDOW, TICK = 2_000, 1_000


def make_events(seed: int, *, count: int = 120, vehicles: int = 5, span: int = 20_000) -> Events:
    """Vehicles that wander over a few kilometres; many times on the border of a window, and ties."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, span // 500, count) * 500
    t = np.sort(np.where(random.random(count) < 0.7, coarse, random.integers(0, span, count))) + 1_180_000_000_000
    vehicle = random.integers(0, vehicles, count) * 3 + 1
    order = np.lexsort((vehicle, t))
    lon, lat = (np.round(at + random.normal(0, 0.06, count), 7) for at in (13.4, 52.5))
    return Events(vehicle[order], t[order], lon, lat)


def make_parameters(events: Events) -> Parameters:
    return replace(Parameters.derive(events), window=WINDOW, tick=TICK)


def oracle_rows(events: Events, given: Parameters, cell: Cell) -> pd.DataFrame:
    columns = (values.tolist() for values in (events.vehicle, events.t, events.lon, events.lat))
    plain = [Event(*row) for row in zip(*columns, strict=True)]
    names = COLUMNS[cell.name]
    return pd.DataFrame(Oracle(plain, given, cell.complete).answer(cell.query, cell.form), columns=list(names))


def assert_same(found: pa.Table, wanted: pd.DataFrame) -> None:
    if wanted.empty:
        assert found.num_rows == 0
    else:
        assert tuple(found.column_names) == tuple(wanted.columns)
        assert have_same_rows(found.to_pandas(), wanted)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name + "-complete" * cell.complete)
def test_a_cell_answers_as_the_oracle_does(cell):
    for seed in range(4):
        events = make_events(seed, vehicles=1 + 2 * (seed % 3))
        parameters = make_parameters(events)
        assert_same(answers(cell, parameters, events.table()), oracle_rows(events, parameters, cell))


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("query", QUERIES)
def test_the_batch_evaluation_agrees_with_the_oracle(query, complete):
    for seed in range(3):
        events = make_events(seed)
        parameters = make_parameters(events)
        found = Evaluation(events, parameters, complete).answer(query)
        wanted = oracle_rows(events, parameters, Cell(query, "snapshot", complete))
        assert have_same_rows(found, wanted)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(CELLS), st.integers(0, 10_000), st.sets(st.integers(1, 79), max_size=8), st.data())
def test_answers_do_not_depend_on_batches_and_restarts(cell, seed, cuts, data):
    events = make_events(seed, count=80)
    parameters = make_parameters(events)
    restarts = data.draw(st.sets(st.sampled_from(sorted(cuts)))) if cuts else set()
    crashes = data.draw(st.sets(st.sampled_from(sorted(cuts)))) if cuts else set()
    found = answers(cell, parameters, events.table(), cuts=sorted(cuts), restarts=restarts, crashes=crashes)
    wanted = answers(cell, parameters, events.table())
    assert found.equals(wanted)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(CELLS), st.integers(0, 10_000), st.sets(st.integers(1, 79), max_size=4))
def test_late_events_are_put_in_order_or_rejected(cell, seed, cuts):
    events = make_events(seed, count=80)
    parameters = make_parameters(events)
    random = np.random.default_rng(seed)
    shuffled = events.table().take(np.argsort(events.t + random.integers(-1500, 1500, len(events)), kind="stable"))
    late = find_late(shuffled["t"].to_numpy(), LATENESS)[0]
    found = run(cell.network(parameters), shuffled, cuts=sorted(cuts))
    used = shuffled.filter(pa.array(~late))
    assert found["late"].num_rows + used.num_rows == shuffled.num_rows
    wanted = used.sort_by([("t", "ascending"), ("vehicle_id", "ascending")])
    assert have_same_rows(found["answers"].to_pandas(), answers(cell, parameters, wanted).to_pandas())


@pytest.mark.parametrize("query", [1, 4, 6, 7])
def test_the_last_continuous_value_is_that_of_the_last_snapshot(query):
    events = make_events(7)
    parameters = make_parameters(events)
    live, told = (answers(Cell(query, form), parameters, events.table()).to_pandas() for form in FORMS[::2])
    told = told.sort_values("T")
    keys = ["vehicle", "poi"] if query == 7 else ["vehicle", "t_entry"] if query == 4 else ["vehicle"]
    told = told.drop_duplicates(keys, keep="last").drop(columns="T")
    if query == 6:
        live = live.sort_values("t", kind="stable").drop_duplicates("vehicle", keep="last")
    names = {"t_entry": "t", "t_first": "t"}
    told = told.rename(columns=names)
    assert len(told)
    assert have_same_rows(live[list(told.columns)], told)


def test_a_single_vehicle_has_no_distance_to_another():
    events = make_events(1, vehicles=1)
    for form in FORMS:
        assert not answers(Cell(9, form), make_parameters(events), events.table()).num_rows


def test_a_vehicle_that_stays_inside_enters_again_in_every_window():
    t = np.arange(0, 10_000, 500)
    events = Events(np.full(t.size, 7), t, np.full(t.size, 13.4), np.full(t.size, 52.5))
    parameters = replace(make_parameters(events), area=(13.4, 52.5, 13.5, 52.6))  # on the border
    assert answers(Cell(4, "continuous"), parameters, events.table()).num_rows == 1
    assert answers(Cell(4, "windowed"), parameters, events.table())["t"].to_pylist() == [0, 2000, 4000, 6000, 8000]
