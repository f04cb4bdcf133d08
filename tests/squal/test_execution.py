"""A network at work in a folder: steps, pauses, restarts, history and ad hoc queries."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from oracles.squal import interpret
from slipstream.cli import network as cli
from slipstream.errors import BadArgument, BadInput
from slipstream.squal import Builder, Network, files
from slipstream.squal.execution import Execution, attach

NETWORKS = Path(__file__).parents[2] / "examples" / "networks"
BORDER, SOLDIERS = NETWORKS / "border.yaml", NETWORKS / "soldiers.csv"


def reports() -> list[tuple[str, int, dict[str, int]]]:
    lines = SOLDIERS.read_text().split()
    names = lines[0].split(",")
    return [("soldiers", 0, dict(zip(names, map(int, line.split(",")), strict=True))) for line in lines[1:]]


def far_out() -> Network:
    net = Builder("far_out")
    net.source("crossings", sid="integer", time="integer", pos="integer").filter("pos > 35").to("far")
    return net.build()


def rows(spark, execution: Execution, output: str) -> list[dict[str, int]]:
    return [row.asDict() for row in execution.results(spark, output).collect()]


def test_steps_pauses_restarts_and_ad_hoc_queries(spark, tmp_path: Path) -> None:
    network = files.load(BORDER)
    wanted = [event.values for event in interpret(network, reports())["alerts"]]
    far = [row for _, _, row in reports() if row["pos"] > 35]

    run = Execution.prepare(tmp_path / "run", network, {"soldiers": SOLDIERS}, train=6)
    run.control = "1"
    assert run.obey()
    assert run.control == "pause"
    assert len(run.waiting()) == 2
    run.run(spark)
    assert run.obey()
    assert len(run.waiting()) == 2, "paused: nothing arrives"
    early = attach(spark, run, "crossings", far_out(), tmp_path / "early")
    early.run(spark)
    assert rows(spark, early, "far") == [row for _, _, row in reports()[:6] if row["pos"] > 35]

    again = Execution.open(tmp_path / "run")
    again.control = "run"
    assert not again.obey()
    again.run(spark)
    assert rows(spark, again, "alerts") == wanted
    assert sum(entry["outputs"].get("alerts", {}).get("tuples", 0) for entry in again.monitor()) == len(wanted)

    late = attach(spark, run, "crossings", far_out(), tmp_path / "late")
    for query in (early, late):
        query.run(spark)
        assert rows(spark, query, "far") == far, "history, then live: no gap, no double"


def test_a_connection_point_forgets_what_it_need_not_keep(tmp_path: Path) -> None:
    import pyarrow as pa

    from slipstream.squal.trains import write_train

    net = Builder("n")
    net.source("s", a="integer").keep("kept", tuples=15).to("out")
    execution = Execution(tmp_path, net.build())
    for number in range(4):
        write_train(tmp_path / "points" / "kept", number, pa.table({"_ts": [0] * 10, "a": [1] * 10}))
    execution._forget("kept")
    assert sorted(p.name[6:14] for p in (tmp_path / "points" / "kept").iterdir()) == ["00000002", "00000003"]


def test_mistakes_are_refused_before_anything_is_made(spark, tmp_path: Path) -> None:
    network = files.load(BORDER)
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
    with pytest.raises(BadArgument, match="no network runs here"):
        Execution.open(tmp_path)


def test_a_failing_expression_stops_the_network_in_its_own_words(spark, tmp_path: Path) -> None:
    net = Builder("broken")
    net.source("soldiers", sid="integer", time="integer", pos="integer").map(
        {"x": "cast(time / (sid - 1) as bigint)"}
    ).to("out")
    run = Execution.prepare(tmp_path / "run", net.build(), {"soldiers": SOLDIERS})
    run.release()
    with pytest.raises(BadInput, match=r"network broken stopped: .*DIVIDE_BY_ZERO"):
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
    assert '"stages": 1' in described.stdout
    broken = tmp_path / "broken.yaml"
    broken.write_text(BORDER.read_text().replace("pos >= 30", "poss >= 30"))
    refused = invoke("check", broken)
    assert isinstance(refused.exception, BadInput)
    assert "column 'poss'" in refused.exception.message


def test_the_command_line_runs_steers_and_inspects(spark, invoke, tmp_path: Path) -> None:
    out = tmp_path / "run"
    ran = invoke("run", BORDER, "--input", f"soldiers={SOLDIERS}", "--out", out, "--tap", "over", "--json")
    assert ran.exit_code == 0, ran.output
    assert '{"alerts": 2}' in ran.stdout
    shown = invoke("inspect", out, "tap_over", "--last", 2, "--json")
    assert shown.stdout.strip().endswith('[{"sid": 1, "time": 4, "pos": 50}, {"sid": 2, "time": 4, "pos": 50}]')
    query = tmp_path / "far_out.yaml"
    query.write_text(files.dumps(far_out()))
    asked = invoke("attach", out, "crossings", query, "--out", tmp_path / "asked", "--json")
    assert '{"far": 6}' in asked.stdout, asked.output
    assert "alerts" in invoke("monitor", out).stdout
    dropped = invoke("shed", out, "--drop", "soldiers -> over=0.5", "--json")
    assert "50%, so far 0" in dropped.stdout, dropped.output
    assert "0%" in invoke("shed", out, "--stop", "--json").stdout
    for command, control in (("pause", "pause"), ("step", "1"), ("resume", "run")):
        assert invoke(command, out).exit_code == 0
        assert Execution.open(out).control == control
    assert isinstance(invoke("inspect", out, "nothing").exception, BadArgument)
    assert isinstance(invoke("run", BORDER, "--out", out, "--input", "soldiers").exception, BadArgument)
