"""Load shedding: what goes first, where it is dropped, and that a restart drops the same."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oracles.network_loads import Load, overload
from slipstream._errors import BadArgument, BadInput
from slipstream._network import Builder, Network, Order, yaml_files
from slipstream._network.algebra import Filter
from slipstream._network.quality.analysis import analyse
from slipstream._network.quality.monitor import Measured, Monitor
from slipstream._network.quality.qos import Graph, Quality
from slipstream._network.quality.shedding import (
    Controller,
    DropPlace,
    delivered_shares,
    drop_unused,
    own_branches,
    places,
    plan,
    plan_evenly,
    stamp,
)
from slipstream._network.quality.statistics import Figures, Statistics
from slipstream._network.running.recordings import write_trains
from slipstream._network.running.run_folder import Execution
from slipstream._network.schemas import Checked, check

EXAMPLES = Path(__file__).parents[2] / "examples" / "networks"
STRICT = Quality(drop=Graph(((0, 0), (0.9, 0.1), (1, 1))))
TOLERANT = Quality(drop=Graph(((0, 0), (0.3, 0.95), (1, 1))))


def network() -> Network:
    net = Builder("two")
    cars = net.source("cars", time="integer", speed="integer")
    shared = cars.map({"time": "time", "speed": "speed"}, name="shared")
    shared.aggregate({"n": "count(*)"}, Order("time"), size=60, name="counts").to("important", STRICT)
    shared.bsort(Order("speed", 3), name="sort").aggregate(
        {"v": "avg(speed)"}, Order("time"), size=60, name="means"
    ).to("casual", TOLERANT)
    return net.build()


@pytest.fixture(scope="module")
def checked(spark) -> Checked:
    return check(network(), spark)


COSTS = Statistics(
    {
        "shared": Figures(1e-5, (1.0,)),
        "counts": Figures(1e-3, (0.1,)),
        "sort": Figures(1e-3, (1.0,)),
        "means": Figures(1e-3, (0.1,)),
    }
)


def test_rates_and_costs_give_the_cores_needed(checked: Checked) -> None:
    found = analyse(checked, COSTS, {"cars": 100.0}, cores=1)
    assert found.min_cap == pytest.approx(100 * (1e-5 + 1e-3 + 1e-3 + 1e-3))
    assert found.holds
    assert found.factor == pytest.approx(1 / found.min_cap)
    assert found.outputs == pytest.approx({"important": 10, "casual": 10})
    assert not analyse(checked, COSTS, {"cars": 100.0}, cores=1, headroom=0.2).holds
    with pytest.raises(BadArgument, match="no rate for the source cars"):
        analyse(checked, COSTS, {}, cores=1)


def test_a_drop_goes_as_far_upstream_as_its_branch_is_its_own() -> None:
    assert [str(place) for place in own_branches(network(), "casual")] == ["shared -> sort"]
    assert [str(place) for place in own_branches(network(), "important")] == ["shared -> counts"]
    assert [str(place) for place in places(network())] == ["shared -> counts", "shared -> sort", "cars -> shared"]


def test_a_drop_before_a_box_of_several_inputs_stands_on_all_of_them() -> None:
    net = Builder("n")
    one, two = (net.source(name, time="integer") for name in ("one", "two"))
    names = net.table("names", time="integer")
    late = one.filter("time > 3", name="late")
    late.union(two, name="both").join(names, "left.time = right.time", name="named").to("out")
    assert [str(place) for place in own_branches(net.build(), "out")] == ["one -> late", "two -> both (2)"]


def test_nothing_is_dropped_when_the_load_fits(checked: Checked) -> None:
    assert not any(plan(checked, COSTS, {"cars": 100.0}, cores=1).shares.values())


def test_the_tolerant_output_pays_first(checked: Checked) -> None:
    shed = plan(checked, COSTS, {"cars": 600.0}, cores=1)
    assert shed.analysis.holds
    assert shed.delivered["important"] == 1
    assert shed.delivered["casual"] < 0.5


@given(st.floats(100, 3000))
@example(1008.0)
@settings(max_examples=30)
def test_shedding_by_utility_fits_and_is_no_worse_than_shedding_evenly(checked: Checked, rate: float) -> None:
    shed = plan(checked, COSTS, {"cars": rate}, cores=1)
    even = plan_evenly(checked, COSTS, {"cars": rate}, cores=1)
    assert shed.analysis.holds
    assert shed.utility >= even.utility


@pytest.mark.parametrize("overload", [1.02, 1.1, 1.2])
def test_the_example_sheds_where_segments_can_spare_tuples(overload: float) -> None:
    """The graph of their loss is flatter than that of stopped cars; a heavy overload concerns both."""
    example_ = check(yaml_files.load(EXAMPLES / "slow_segments.yaml"), None)
    just_fits = plan(example_, Statistics(), {"cars": 1000.0}, cores=1.0).analysis.min_cap
    shed = plan(example_, Statistics(), {"cars": 1000.0 * overload}, cores=just_fits)
    assert {str(place) for place, share in shed.shares.items() if share} == {"slow -> by_segment"}
    assert shed.delivered["standing"] == 1


def test_the_lot_falls_the_same_again_and_in_the_right_share() -> None:
    train = pa.table({"_seq": np.arange(20_000), "speed": np.arange(20_000) % 100})
    wanted = places(network())
    shares = {str(wanted[1]): 0.3}
    once, again = (stamp(train, wanted, shares, {})["_shed"].to_numpy() for _ in range(2))
    assert (once == again).all()
    assert ((once >> 1) & 1).mean() == pytest.approx(0.3, abs=0.02)
    assert not (once & 0b101).any()


def test_by_value_the_least_worthy_go() -> None:
    train = pa.table({"_seq": np.arange(1000), "speed": np.arange(1000) % 100})
    wanted = places(network())
    values = {str(wanted[0]): ("speed", Graph(((0, 0), (100, 1))))}
    gone = stamp(train, wanted, {str(wanted[0]): 0.25}, values)["_shed"].to_numpy() == 1
    assert set(train["speed"].to_numpy()[gone]) == set(range(25))


def test_what_is_dropped_on_every_way_does_not_enter(checked: Checked) -> None:
    train = pa.table({"_seq": np.arange(10_000), "speed": np.arange(10_000) % 100})
    wanted = places(network())
    half = stamp(train, wanted, {"cars -> shared": 0.5}, {})
    assert drop_unused(half, network(), "cars", wanted).num_rows == pytest.approx(5000, abs=200)
    further = stamp(train, wanted, {"shared -> sort": 0.5}, {})
    assert drop_unused(further, network(), "cars", wanted).num_rows == 10_000
    carrying = Statistics(carrying=1e-3)
    dropped = {("shared", 0, False): 0.5}
    assert analyse(checked, carrying, {"cars": 100.0}, cores=9, dropped=dropped).loads[0].rate == 50


def test_drops_along_a_way_add_up(checked: Checked) -> None:
    wanted = places(network())
    assert delivered_shares(checked, wanted, {}) == {"important": 1, "casual": 1}
    shares = {"cars -> shared": 0.5, "shared -> sort": 0.5}
    assert delivered_shares(checked, wanted, shares) == pytest.approx({"important": 0.5, "casual": 0.25})


def test_a_restarted_network_drops_the_same_and_shedding_ends(spark, tmp_path: Path) -> None:
    recording = tmp_path / "cars.csv"
    recording.write_text("time,speed\n" + "".join(f"{i},{i % 90}\n" for i in range(400)))
    net = Builder("n")
    cars = net.source("cars", time="integer", speed="integer")
    cars.map({"time": "time"}, name="all").to("full")
    # whatever the delay, so that a slow machine does not matter
    slow = Quality(Graph(((0, 1),)), value=Graph(((0, 0), (180, 1))), value_column="speed")
    own = cars.map({"time": "time", "speed": "speed * 2"}, name="own")
    own.filter("speed >= 0", name="pass").to("part", slow)
    run = Execution.prepare(tmp_path / "run", net.build(), {"cars": recording}, train=100)
    with pytest.raises(BadArgument, match="cannot drop"):
        run.shares = {"cars -> nobody": 0.5}
    run.shares = {"cars -> own": 0.5}
    for _ in range(2):
        run.release(step=True)
    run.run(spark)
    before = [row["time"] for row in run.inspect("part", last=400)]
    line = run.monitor.entries()[1]["outputs"]["part"]
    assert line["delivered"] == pytest.approx(0.5)
    assert line["utilities"]["drop"] == pytest.approx(0.5)
    assert 0 < line["utility"] < 0.5, "by drop and by value"

    # the machine stops before the second batch is committed: it is repeated
    (tmp_path / "run" / "checkpoint" / "commits" / "1").unlink()
    (tmp_path / "run" / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    run.shares = {}
    run.release()
    Execution.open(tmp_path / "run").run(spark)
    part = [row["time"] for row in run.inspect("part", last=400)]
    assert [row["time"] for row in run.inspect("full", last=400)] == list(range(400))
    lost = sum(line["dropped"]["cars -> own"] for line in run.shed())
    assert 60 < lost < 140
    assert part[:-200] == before, "the same tuples again"
    assert len(part) == 400 - lost
    assert part[-200:] == list(range(200, 400)), "nothing is dropped once the load is fine"


def test_the_controller_begins_with_what_measured_costs_call_for(checked: Checked) -> None:
    assert Controller(checked, COSTS, {"cars": 100.0}, cores=1).begin() == {}
    known = Controller(checked, COSTS, {"cars": 600.0}, cores=1).begin()
    assert known == {str(place): round(share, 4) for place, share in _plan(checked, 600.0).items() if share}
    assert Controller(checked, Statistics(), {"cars": 1e9}, cores=1).begin() == {}, "costs that are guessed"


def _plan(checked: Checked, rate: float) -> dict[DropPlace, float]:
    return plan(checked, COSTS, {"cars": rate}, cores=1).shares


@dataclass
class Machine:
    """A machine that is simulated: each batch takes what arrived during the one before, at the true costs."""

    load: Load
    costs: Statistics
    rate: float
    cores: float = 2.0
    fixed: float = 0.3  # seconds of a batch, whatever is in it

    def __post_init__(self) -> None:
        self.checked = check(self.load.network, None)
        self.places = places(self.load.network)

    def run(self, controller: Controller | None, seconds: float) -> Iterator[dict[str, Any]]:
        """The monitor's line of each batch, until everything that arrived in some seconds is processed."""
        shares = controller.begin() if controller else {}
        begin, end, now, number = 0.0, 0.5, 0.0, 0
        while begin < seconds:
            now = max(end, now) + self.fixed + self.work(shares) * (end - begin) / self.cores
            entry = {"batch": number, "at": round(now * 1e6), **self._line(shares, begin, end, now)}
            yield entry
            if controller:
                shares = controller.adjust([entry]) or {}
            begin, end, number = end, min(now, seconds), number + 1

    def _line(self, shares: Mapping[str, float], begin: float, end: float, now: float) -> dict[str, Any]:
        """Tuples that arrived from one second to another, delivered now."""
        arrivals = Measured.measure((np.linspace(begin, end, 100) * 1e6).astype(np.int64), None)
        some = replace(arrivals, tuples=round((end - begin) * 1000))
        outputs, taken = self.load.network.outputs, {self.load.source: round(self.rate * (end - begin))}
        delivered = delivered_shares(self.checked, self.places, shares)
        measured = {output.name: some for output in outputs}
        return Monitor(Path(), outputs).line(measured, delivered, taken, round(now * 1000))

    def controller(self, costs: Statistics, level: float = 0.8) -> Controller:
        rates = {self.load.source: self.rate}
        return Controller(self.checked, costs, rates, self.cores, level, counts_dropped=True)

    def work(self, shares: Mapping[str, float]) -> float:
        """The core seconds of what arrives in a second."""
        dropped = {(p.taker, p.side, p.is_output): shares.get(str(p), 0.0) for p in self.places}
        rates = {self.load.source: self.rate}
        return analyse(self.checked, self.costs, rates, cores=math.inf, dropped=dropped).min_cap


def true_costs(checked: Checked) -> Statistics:
    """The two outputs that must hear of everything are cheap; the four others cost nearly everything."""
    figures = {}
    for node in checked.nodes:
        dear = node.inputs[0].origin == "cars" and not isinstance(node.box, Filter)
        figures[node.name] = Figures(1.6e-6, (1.0,)) if dear else Figures(5e-8, (0.03,))
    return Statistics(figures, reading=4e-7)


def worth(lines: list[dict[str, Any]]) -> float:
    """The utility of all outputs over a run, weighted by tuples."""
    outputs = [line["outputs"] for line in lines]
    weights = [next(iter(output.values()))["tuples"] for output in outputs]
    sums = [sum(one["utility"] for one in output.values()) for output in outputs]
    return float(np.average(sums, weights=weights))


@pytest.fixture(scope="module")
def machine() -> Machine:
    """A machine at its capacity."""
    found = Machine(overload(), true_costs(check(overload().network, None)), 1.0)
    return replace(found, rate=found.cores / found.work({}))


@pytest.mark.parametrize("times", [1.5, 4.0])
@pytest.mark.parametrize("known", ["costs", "half of the costs", "nothing"])
def test_automatic_shedding_is_worth_more_than_none(machine: Machine, times: float, known: str) -> None:
    costs = {"costs": machine.costs, "half of the costs": scaled(machine.costs, 0.5), "nothing": Statistics()}
    busy = replace(machine, rate=times * machine.rate)
    shed, none = (list(busy.run(controller, 40)) for controller in (busy.controller(costs[known]), None))
    assert worth(shed) > worth(none) + 0.2
    # once it knows the machine, lateness does not return; by wrong costs it may drop more than it must
    late = [line["outputs"] for line in shed[len(shed) // 2 :]]
    assert all(output["worst"] < 20 for outputs in late for output in outputs.values())
    if known != "nothing":
        assert all(outputs[name]["delivered"] == 1 for outputs in late for name in ("standing", "racing"))


@pytest.mark.parametrize("costs", [Statistics(), None])
def test_a_machine_that_keeps_up_drops_nothing(machine: Machine, costs: Statistics | None) -> None:
    calm = replace(machine, rate=0.8 * machine.rate)
    lines = list(calm.run(calm.controller(costs or machine.costs, level=1.0), 40))
    assert all(output["delivered"] == 1 for line in lines for output in line["outputs"].values())


def scaled(costs: Statistics, factor: float) -> Statistics:
    figures = {name: replace(one, cost=one.cost * factor) for name, one in costs.figures.items()}
    return replace(costs, figures=figures, reading=costs.reading * factor)


def second(number: int) -> dict[str, Any]:
    """A batch a second, of all tuples of that second."""
    return {"at": number * 1_000_000, "taken": {"cars": 300}}


def test_the_controller_sheds_while_outputs_are_late_and_stops_when_they_are_not(checked: Checked) -> None:
    controller = Controller(checked, COSTS, {"cars": 300.0}, cores=1, counts_dropped=True)
    controller.begin()
    entry = {"batch": 0, **second(0), "outputs": {"important": {"good": 0.1}, "casual": {"good": 1.0}}}
    first = controller.adjust([entry])
    assert first
    assert controller.adjust([entry]) is None, "nothing new"
    worse = controller.adjust([{**entry, "batch": 1, **second(1)}])
    assert sum(worse.values()) > sum(first.values())
    fine = {"outputs": {"important": {"good": 1.0}, "casual": {"good": 1.0}}}
    shares = [controller.adjust([{**fine, "batch": batch, **second(batch)}]) for batch in range(2, 12)]
    assert shares[-1] == {}
    assert all(sum(a.values()) >= sum(b.values()) for a, b in zip([worse, *shares], shares, strict=False))


def test_trains_wait_while_earlier_ones_have_not_been_processed(tmp_path: Path) -> None:
    run = Execution.lay_out(tmp_path / "run", network())
    write_trains(run.folder / "in" / "cars", pa.table({"time": range(30), "speed": range(30)}), 10, 0, None)

    def query(train: int) -> Any:
        return SimpleNamespace(lastProgress={"sources": [{"endOffset": json.dumps({"openings": 1, "train": train})}]})

    assert [run.is_behind(query(train)) for train in range(4)] == [True, True, True, False]
    assert not run.is_behind(SimpleNamespace(lastProgress=None)), "nothing has been processed"


def test_a_graph_that_is_none_is_refused() -> None:
    with pytest.raises(BadInput, match="not a graph of utility"):
        Graph(((1, 0), (0, 1)))
