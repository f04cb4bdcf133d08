"""A network at work in a folder: steps, pauses, restarts, history, views and ad hoc queries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from oracles.network import interpret
from oracles.network_engines import by_output, merged, run_available
from slipstream._cli import app
from slipstream._cli import network as cli
from slipstream._errors import BadArgument, BadInput
from slipstream._network import Builder, Network, yaml_files
from slipstream._network.algebra import Arc
from slipstream._network.running.adhoc import attach, detach
from slipstream._network.running.run_folder import OPENINGS, Execution

NETWORKS = Path(__file__).parents[2] / "examples" / "networks"
BORDER, SOLDIERS = NETWORKS / "border.yaml", NETWORKS / "soldiers.csv"
SOLDIER = {"sid": "integer", "time": "integer", "pos": "integer"}


def reports() -> list[tuple[str, int, dict[str, int]]]:
    lines = SOLDIERS.read_text().split()
    names = lines[0].split(",")
    return [("soldiers", 0, dict(zip(names, map(int, line.split(",")), strict=True))) for line in lines[1:]]


def crossings() -> Network:
    """Who is over the border, kept sorted by soldier; a view of where; an output of who is far."""
    net = Builder("crossings")
    over = net.source("soldiers", **SOLDIER).filter("pos >= 30", name="over").keep("crossings", key="sid")
    over.map({"time": "time", "beyond": "pos - 30"}, name="beyond").view("depths", tuples=2)
    over.filter("pos > 37", name="deep").to("alerts")
    return net.build()


def far_out() -> Network:
    net = Builder("far_out")
    net.source("crossings", **SOLDIER).filter("pos > 35").to("far")
    return net.build()


class Attaching(Execution):
    """Lets a new ad hoc query hang on after every batch, and the second one go after the third."""

    queries: list[Execution]

    def _deliver(self, committed: Any, sending: Any, batch: Any, number: int) -> None:
        super()._deliver(committed, sending, batch, number)

        if number < OPENINGS:
            return
        folder = self.folder.parent / f"query_{len(self.queries)}"
        self.queries.append(attach(batch.sparkSession, self, "crossings", far_out(), folder))
        if number == OPENINGS + 2:
            detach(self.queries[1])


def test_steps_pauses_restarts_views_and_ad_hoc_queries(spark, tmp_path: Path) -> None:
    network = crossings()
    wanted = {name: [e.values for e in events] for name, events in interpret(network, reports()).items()}

    run = Execution.prepare(tmp_path / "run", network, {"soldiers": SOLDIERS}, train=5)
    run.step()
    assert run.admit_due()
    assert run.control == "pause"
    assert run.queues() == {"soldiers": len(reports()) - 5}
    run.run(spark)
    assert run.admit_due()
    assert run.queues() == {"soldiers": len(reports()) - 5}, "paused: nothing arrives"

    again = Attaching.open(tmp_path / "run")
    again.queries = [attach(spark, again, "crossings", far_out(), tmp_path / "query_0")]
    again.taps = [Arc("over", 1)]
    again.resume()
    assert not again.admit_due()
    again.run(spark)
    assert again.inspect("alerts") == wanted["alerts"]
    assert again.inspect("alerts", last=1) == wanted["alerts"][-1:]
    assert again.inspect("tap_over_1")[-1]["pos"] < 30
    assert again.monitor.totals()["alerts"]["tuples"] == len(wanted["alerts"])
    over = [row for _, _, row in reports() if row["pos"] >= 30]
    assert again.inspect("crossings") == over
    assert [row.asDict() for row in again.results(spark, "crossings").collect()] == over
    assert again.inspect("depths") == wanted["depths"][-2:]
    with pytest.raises(BadArgument, match="no such connection point"):
        attach(spark, again, "alerts", far_out(), tmp_path / "no")
    with pytest.raises(BadInput, match="its source must be the connection point depths"):
        attach(spark, again, "depths", far_out(), tmp_path / "no")

    # the queries hung on before every batch there was; all of them run as one
    together = merged({f"q{i}": far_out() for i in range(len(again.queries))})
    for i, query in enumerate(again.queries):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"q{i}_crossings").symlink_to(query.folder / "in" / "crossings")
    got = by_output(together, run_available(spark, together, tmp_path / "in", tmp_path / "checkpoint"))
    for i, query in enumerate(again.queries):
        last = 15 if i == 1 else len(reports())
        far = [row for _, _, row in reports()[:last] if row["pos"] > 35]
        assert [{k: v for k, v in row.items() if k != "_ts"} for row in got[f"q{i}_far"]] == far, query.folder
    assert len(again.queries) == 4


def test_mistakes_are_refused_before_anything_is_made(spark, tmp_path: Path) -> None:
    network = yaml_files.load(BORDER)
    with pytest.raises(BadArgument, match="no input for the source soldiers"):
        Execution.prepare(tmp_path / "a", network, {})
    with pytest.raises(BadArgument, match="no such file"):
        Execution.prepare(tmp_path / "b", network, {"soldiers": tmp_path / "none.csv"})
    bad = tmp_path / "bad.csv"
    bad.write_text("sid,time,pos\n1,x,3\n")
    with pytest.raises(BadInput, match=r"bad.csv"):
        Execution.prepare(tmp_path / "c", network, {"soldiers": bad})
    bad.write_text("sid,time\n1,2\n")
    with pytest.raises(BadInput, match="no column 'pos'"):
        Execution.prepare(tmp_path / "d", network, {"soldiers": bad})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.csv"]
    with pytest.raises(BadArgument, match="not the folder of a network"):
        Execution.open(tmp_path)
    laid = Execution.lay_out(tmp_path / "e", network)
    with pytest.raises(BadArgument, match="no arc 'under' to tap"):
        laid.taps = [Arc("under")]
    with pytest.raises(BadArgument, match="not attached"):
        detach(laid)


def test_a_failing_expression_stops_the_network_in_its_own_words(spark, tmp_path: Path) -> None:
    net = Builder("broken")
    net.source("soldiers", **SOLDIER).map({"x": "cast(time / (sid - 1) as bigint)"}).to("out")
    run = Execution.prepare(tmp_path / "run", net.build(), {"soldiers": SOLDIERS})
    run.release()
    with pytest.raises(BadInput, match=r"network broken stopped: .*division by zero where sid = 1, time ="):
        run.run(spark)


@pytest.fixture
def invoke():
    return lambda *args: CliRunner().invoke(cli.app, [str(arg) for arg in args], catch_exceptions=True)


def test_the_command_line_draws_checks_and_describes(spark, invoke, tmp_path: Path) -> None:
    assert invoke("draw", BORDER, "--out", tmp_path / "border.svg").exit_code == 0
    assert (tmp_path / "border.svg").read_text().startswith("<svg")
    checked = invoke("check", BORDER, "--json")
    assert checked.exit_code == 0, checked.output
    assert '"crowd": {"time": "integer", "n": "integer"}' in checked.stdout
    described = invoke("describe", BORDER, "--json")
    assert json.loads(described.stdout)["stages"] == [
        {"stage": 1, "boxes": ["over", "crowd", "enough"], "keys": [], "partitions": 1}
    ]
    broken = tmp_path / "broken.yaml"
    broken.write_text(BORDER.read_text().replace("pos >= 30", "poss >= 30"))
    refused = invoke("check", broken)
    assert isinstance(refused.exception, BadInput)
    assert "column 'poss'" in refused.exception.message


OWN = """
from slipstream._network import ScalarFunction, register

LIMIT = 30

def beyond(pos):
    return pos >= LIMIT

register(ScalarFunction("beyond", beyond, "boolean"))
"""


def test_the_command_line_runs_steers_and_inspects(spark, invoke, tmp_path: Path) -> None:
    out, own = tmp_path / "run", tmp_path / "own.py"
    own.write_text(OWN)
    file = tmp_path / "border.yaml"
    file.write_text(BORDER.read_text().replace("pos >= 30", "beyond(pos)"))
    started = ("run", file, "--input", f"soldiers={SOLDIERS}", "--functions", own)
    ran = invoke(*started, "--out", out, "--tap", "over", "--json")
    assert ran.exit_code == 0, ran.output
    assert '{"alerts": 2}' in ran.stdout
    shown = invoke("inspect", out, "tap_over", "--last", 2, "--json")
    assert shown.stdout.strip().endswith('[{"sid": 1, "time": 4, "pos": 50}, {"sid": 2, "time": 4, "pos": 50}]')
    query, asked = tmp_path / "far_out.yaml", tmp_path / "asked"
    query.write_text(yaml_files.dumps(far_out()))
    answer = invoke("attach", out, "crossings", query, "--out", asked, "--json")
    assert '{"far": 6}' in answer.stdout, answer.output
    assert Execution.open(out).history("crossings").attached() == [(asked / "in" / "crossings").resolve()]
    assert invoke("detach", asked).exit_code == 0
    assert Execution.open(out).history("crossings").attached() == []
    assert "alerts" in invoke("monitor", out).stdout
    dropped = invoke("shed", out, "--drop", "soldiers -> over=0.5", "--json")
    assert "50%, so far 0" in dropped.stdout, dropped.output
    assert "0%" in invoke("shed", out, "--stop", "--json").stdout
    assert invoke("tap", out, "crowd").exit_code == 0
    assert list(Execution.open(out).taps) == ["tap_crowd"]
    steering = {"pause": "pause", "step": "1", "stop": "stop", "resume": "run"}
    for command, control in steering.items():
        assert CliRunner().invoke(app, ["job", command, str(out)]).exit_code == 0
        assert Execution.open(out).control == control
    assert isinstance(invoke("inspect", out, "nothing").exception, BadArgument)
    assert isinstance(invoke("run", file, "--out", out, "--input", "soldiers").exception, BadArgument)
