"""The fault injection harness detects broken commits, and reports nothing for a correct one."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections import Counter
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chaos import toy
from commands import Slipstream
from slipstream._chaos import campaign as campaigns
from slipstream._chaos import faults
from slipstream._chaos.campaign import ADVISED, NOT_REACHED, SAME, Campaign, Record, list_faults, plan
from slipstream._chaos.campaign_table import describe_bad, format_markdown
from slipstream._chaos.output_comparison import Committed, find_difference, verify_comparator
from slipstream._chaos.process import JobProcess
from slipstream._chaos.subject import Subject
from slipstream._errors import BadArgument, CheckFailed
from slipstream._feeds.tuple_text import import_text
from slipstream._io.outputs import Batch
from slipstream._linear_road.job.delivery import Delivery
from slipstream._linear_road.job.toll_journal import Detail
from slipstream._tools.processes.failpoints import COMPACTION_POINTS, JOB_POINTS, VARIABLE, failpoint

COMMIT_POINTS = [point for point in JOB_POINTS["toll"] if point.startswith(("outputs.", "text."))]
TOLL = Subject("toll", ("toll", "run"))


def put_out(out: Path, kind: type[Delivery]) -> Committed:
    toy.run(toy.delivery(kind, out))
    return Committed.read(out)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "BATCHES", 5)
    monkeypatch.setattr(toy, "PACE_S", 0)


def interrupted(out: Path, point: str, kind: type[Delivery], monkeypatch: pytest.MonkeyPatch) -> Committed:
    """An engine that fails at a point, and is started again."""
    monkeypatch.setenv(VARIABLE, f"{point}:{out.parent / 'reached'}:EIO")
    with pytest.raises(OSError, match="Input/output error"):
        put_out(out, kind)
    return put_out(out, kind)


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("point", COMMIT_POINTS)
def test_a_commit_stands_a_failure_at(point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = put_out(tmp_path / "undisturbed", Delivery)
    found = interrupted(tmp_path / "out", point, Delivery, monkeypatch)
    assert find_difference(expected, found, whole=True) == ""


@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("broken", [toy.Doubling, toy.Losing])
def test_a_broken_commit_is_caught(broken: type[Delivery], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = put_out(tmp_path / "undisturbed", broken)
    verify_comparator(expected)
    found = interrupted(tmp_path / "out", "outputs.before-journal", broken, monkeypatch)
    assert find_difference(expected, found, whole=True)


@pytest.mark.usefixtures("brief")
def test_every_way_to_be_wrong_is_told(tmp_path: Path) -> None:
    right = put_out(tmp_path / "out", Delivery)
    verify_comparator(right)
    lines, rows = right.texts["output.csv"], right.tables["notifications"]
    first = Counter([next(iter(rows))])

    def told(*, whole: bool, **changed: Any) -> str:
        return find_difference(right, replace(right, **changed), whole=whole)

    def text(*lines: str) -> dict[str, list[str]]:
        return {**right.texts, "output.csv": [*lines]}

    def table(rows: Counter[str]) -> dict[str, Any]:
        return {"tables": {**right.tables, "notifications": rows}}

    assert "line 1" in told(texts=text("9,9", *lines[1:]), whole=False)
    assert "14 lines, 15 expected" in told(texts=text(*lines[:-1]), whole=True)
    assert "'nothing' expected" in told(texts=text(*lines, "0,1"), whole=False)
    assert "1 rows too many" in told(**table(rows + first), whole=False)
    assert "1 of 10 rows missing" in told(**table(rows - first), whole=True)
    assert "9 rows, the journal has 10" in told(**table(rows - first), whole=False)
    assert "rejects.csv" in told(texts={**right.texts, "rejects.csv": ["x"]}, whole=False)
    assert "another: 1 rows too many" in told(tables={**right.tables, "another": first}, whole=False)
    assert "cuboid car: 1 rows too many" in told(state={"cuboid car": first}, whole=True)
    fitting = {**right.journal, "notifications": 9}
    assert "after 5 tuples" in told(**table(rows - first), journal=fitting, whole=False)
    with pytest.raises(CheckFailed, match="has no output"):
        verify_comparator(Committed())


def test_emit_does_not_count(tmp_path: Path) -> None:
    for name, emit in (("one", 5), ("two", 9)):
        toy.delivery(Delivery, tmp_path / name)
        text = f"0,7,1,{emit},30,2\n3,1,{emit},8,90\n"
        (tmp_path / name / "output.csv").write_text(text)
        (tmp_path / name / "rejects.csv").touch()
        line = Batch(0, emit, detail=asdict(Detail(text_bytes=len(text))))
        (tmp_path / name / "batches.jsonl").write_text(json.dumps(asdict(line)) + "\n")
    one, two = (Committed.read(tmp_path / name) for name in ("one", "two"))
    assert one.texts == two.texts == {"output.csv": ["0,7,1,30,2", "3,1,8,90"]}


def test_what_lies_beyond_the_journal_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy, "BATCHES", 2)
    monkeypatch.setattr(toy, "PACE_S", 0)
    right = put_out(tmp_path / "out", Delivery)
    monkeypatch.setattr(toy, "BATCHES", 3)
    monkeypatch.setenv(VARIABLE, f"outputs.before-journal:{tmp_path / 'reached'}:EIO")
    with pytest.raises(OSError, match="Input/output error"):
        toy.run(toy.delivery(Delivery, tmp_path / "out"))
    assert Committed.read(tmp_path / "out") == right


def test_a_job_is_any_command_that_runs_one() -> None:
    assert Subject.of(["runs/small"]).kind == "toll"
    network = Subject.of(["network", "run", "net.yaml", "--input", "a=b.csv", "--train", "4", "--compact-every", "9"])
    assert network.kind == "network"
    assert network.command[-2:] == ("--compact-every", "9")
    with pytest.raises(BadArgument, match="not a command that runs a job"):
        Subject.of(["network", "describe", "net.yaml"])
    with pytest.raises(BadArgument, match="--out is an option of chaos"):
        Subject.of(["archive", "runs/small", "--out", "here"])


def test_only_a_single_source_is_read_in_the_same_order_every_time() -> None:
    assert Subject.of(["runs/small"]).is_repeatable
    assert Subject.of(["network", "run", "net.yaml", "--input", "a=b.csv"]).is_repeatable
    assert not Subject.of(["network", "run", "net.yaml", "--input", "a=b.csv", "--input", "c=d.csv"]).is_repeatable
    assert not Subject.of(["archive", "kafka:localhost:9092/positions", "--follow"]).is_repeatable


def test_a_network_that_has_begun_is_resumed_without_its_inputs(tmp_path: Path) -> None:
    network = Subject.of(["network", "run", "net.yaml", "--input", "a=b.csv", "--input=c=d.csv", "--train", "4"])
    assert "a=b.csv" in network.command_line(["slipstream"], tmp_path)
    (tmp_path / "job.json").touch()
    again = network.command_line(["slipstream"], tmp_path)
    assert not {"--input", "a=b.csv", "--input=c=d.csv"} & {*again}
    assert again[:6] == ["slipstream", "network", "run", "net.yaml", "--train", "4"]


@pytest.mark.parametrize("kind", JOB_POINTS)
def test_every_kind_of_job_is_struck_at_all_its_failpoints(kind: str) -> None:
    made = list_faults(Subject(kind, (kind,)))
    site = faults.Site(Path(), Path(), random.Random(0))
    kinds = {make(site).kind for make in made["failpoints"]}
    assert {f"kill everything at {point}" for point in (*JOB_POINTS[kind], *COMPACTION_POINTS)} <= kinds
    assert ("output.csv cut" in {make(site).kind for make in made["damage"]}) == (kind == "toll")


def test_a_failpoint_waits_until_it_is_armed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"here:{tmp_path / 'armed' / 'reached'}:ENOSPC")
    failpoint("here")
    (tmp_path / "armed").mkdir()
    failpoint("elsewhere")
    with pytest.raises(OSError, match="No space left on device"):
        failpoint("here")
    failpoint("here")


def test_a_plan_has_every_kind_and_comes_of_its_seed() -> None:
    makes = list_faults(TOLL)
    made = [plan(random.Random(7), makes, 200) for _ in range(2)]
    assert made[0] == made[1]
    assert len(made[0]) == 200
    site = faults.Site(Path(), Path(), random.Random(0))
    kinds = {make(site).kind for make in made[0]}
    assert {f"kill everything at {point}" for point in TOLL.points} <= kinds
    assert {"SIGTERM", "SIGINT", "kill JVM", "kill driver", "kill a Python worker", "state file cut"} <= kinds
    assert len(plan(random.Random(1), {"kill": makes["kill"]}, 5)) == 5


def test_advice_is_told_from_a_traceback_and_from_silence(tmp_path: Path) -> None:
    scripts = {
        "import sys; sys.stderr.write('slipstream: The disk is full.\\nMake room.\\n'); sys.exit(4)": True,
        "import sys; sys.stderr.write('slipstream: stopped.\\n'); sys.exit(130)": True,
        "import sys; sys.stderr.write('slipstream: no.\\n'); sys.exit(4)": False,
        "raise KeyError('x')": False,
        "import sys; sys.exit(1)": False,
    }
    for script, advised in scripts.items():
        engine = JobProcess([sys.executable, "-c", script], tmp_path, tmp_path / "log", {})
        assert engine.wait_for_end(60)
        assert engine.has_advised == advised, script


def test_damage_is_done_and_undone(tmp_path: Path) -> None:
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    for name in ("0", "1"):
        (offsets / name).write_text('{"second": 45}')
        os.utime(offsets / name, (int(name), int(name)))
    site = faults.Site(tmp_path, tmp_path, random.Random(3))
    for how in ("cut", "changed"):
        fault = faults.Damage(site, "offset file", how)
        assert fault.harm()
        assert (offsets / "0").read_text() == '{"second": 45}'
        assert (offsets / "1").read_text() != '{"second": 45}'
        fault.heal()
        assert (offsets / "1").read_text() == '{"second": 45}'
    assert not faults.Damage(site, "commit file", "cut").harm()


def test_damage_that_no_engine_has_met_lasts_until_the_file_is_written_again(tmp_path: Path) -> None:
    state = tmp_path / "checkpoint" / "state" / "15.changelog"
    state.parent.mkdir(parents=True)
    state.write_bytes(b"version 15")
    fault = faults.Damage(faults.Site(tmp_path, tmp_path, random.Random(3)), "state file", "changed")
    assert not fault.lasts
    assert fault.harm()
    assert fault.lasts
    state.write_bytes(b"version 15 again")
    assert not fault.lasts


#: what a toy without Spark can take
FAST = {
    "failpoints": [partial(faults.KillAt, point=point) for point in COMMIT_POINTS],
    "kill": [faults.Kill],
    "signal": [partial(faults.Signal, number=number) for number in (signal.SIGTERM, signal.SIGINT)],
    "disk": [faults.FullDisk],
    "damage": [partial(faults.Damage, what=what) for what in ("journal", "output.csv")],
}


def campaign(tmp_path: Path, which: str, kinds: tuple[str, ...], wanted: int, **makes: Any) -> list[Record]:
    program = (sys.executable, str(Path(toy.__file__)), which)
    folder = tmp_path / "chaos"
    return Campaign(TOLL, folder, wanted, 5, kinds, makes={**FAST, **makes}, program=program, jitter_s=0.1).run()


@pytest.mark.long
def test_a_sound_engine_passes_a_campaign(tmp_path: Path) -> None:
    records = campaign(tmp_path, "good", tuple(FAST), 6)
    assert len(records) >= 6
    assert describe_bad(records) == []
    assert {record.outcome for record in records} == {SAME, ADVISED}
    assert "| **all** |" in format_markdown(records, 5)
    # interrupted after its first half, it goes on with the second
    notes = tmp_path / "chaos" / campaigns.NOTES
    notes.write_bytes(b"".join(notes.read_bytes().splitlines(keepends=True)[:4]))
    assert campaigns.read_seed(tmp_path / "chaos") == 5
    again = campaign(tmp_path, "good", tuple(FAST), 6)
    assert again[:3] == records[:3]
    assert Counter(record.kind for record in again) == Counter(record.kind for record in records)
    with pytest.raises(BadArgument, match="another campaign"):
        campaign(tmp_path, "good", ("kill",), 6)


@pytest.mark.parametrize("which", ["doubling", "losing"])
def test_a_campaign_catches_a_broken_commit(which: str, tmp_path: Path) -> None:
    points = [partial(faults.KillAt, point="outputs.before-journal")]
    records = campaign(tmp_path, which, ("failpoints",), 1, failpoints=points)
    assert any("wrong" in complaint for complaint in describe_bad(records))


@pytest.mark.long
def test_a_failpoint_that_a_job_does_not_come_to_is_told(tmp_path: Path) -> None:
    points = [partial(faults.KillAt, point="nowhere"), partial(faults.KillAt, point="outputs.before-journal")]
    records = campaign(tmp_path, "good", ("failpoints",), 2, failpoints=points)
    outcomes = {record.kind: record.outcome for record in records}
    assert outcomes == {
        "kill everything at nowhere": NOT_REACHED,
        "kill everything at outputs.before-journal": SAME,
    }
    assert "| kill everything at nowhere | 1 | 0 | 0 | 1 | 0 |" in format_markdown(records, 5)


def test_a_campaign_catches_an_engine_that_ends_without_a_word(tmp_path: Path) -> None:
    assert any("no advice" in complaint for complaint in describe_bad(campaign(tmp_path, "silent", ("signal",), 1)))


def test_a_campaign_catches_an_engine_that_does_not_start_again(tmp_path: Path) -> None:
    complaints = describe_bad(campaign(tmp_path, "stubborn", ("kill",), 2))
    assert any("stopped without a fault" in complaint for complaint in complaints)


def test_a_campaign_that_goes_on_does_not_fill_the_disk_again(tmp_path: Path) -> None:
    """Whether a file system was there to be filled is not known before a chain begins."""
    going_on = Campaign(TOLL, tmp_path / "chaos", 3, 5, ("disk",))
    going_on.records += [Record("disk full", 1, ADVISED)] * 2
    assert len(going_on._plan_remaining()) == 1


def test_a_kind_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadArgument, match="--only floods: no such kind of fault"):
        Campaign(TOLL, tmp_path, 1, 1, ("floods",))


def test_an_interrupted_campaign_says_what_it_found_and_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(campaign: Campaign) -> list[Record]:
        campaign.records += [Record("SIGTERM", 1, ADVISED), Record("kill driver", 1, "wrong: 3 lines")]
        raise KeyboardInterrupt

    (tmp_path / "feed.dat").write_text("0,0,1,50,0,0,0,10,52800,0,0,0,0,0,0\n")
    import_text(tmp_path / "feed.dat", tmp_path / "run")
    monkeypatch.setattr(Campaign, "run", interrupted)
    done = Slipstream(capsys)("chaos", tmp_path / "run", "--faults", 9, "--out", tmp_path / "chaos")
    assert done.code == 130
    assert "2 of 9 faults so far, 1 bad" in " ".join(done.err.split())
    assert "| kill driver | 1 |" in (tmp_path / "chaos" / "report.md").read_text()
