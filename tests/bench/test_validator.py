"""The validator compared with the oracle: correct output passes, and every single fault is reported."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from oracles.linear_road import answers
from oracles.streams import busy_stream, busy_streams
from slipstream._bench.validation.answer_comparison import PROBLEMS
from slipstream._bench.validation.editions import ANSWERS, EDITIONS
from slipstream._bench.validation.outputs import COLUMNS
from slipstream._bench.validation.validation_page import write_report
from slipstream._bench.validation.validator import Verdict, validate
from slipstream._cli import app
from slipstream._errors import BadArgument, BadInput, CheckFailed
from slipstream._feeds.run import Run
from slipstream._feeds.tuple_text import export_text, import_text
from slipstream._runtime.watching.metrics import FILE, BatchMetrics
from slipstream._tools.logs import encode_line

Output = tuple[int, ...]
STRIDE = 1000


class Past:
    """A history of random numbers for expressways 0 and 1, on disk as runs have it."""

    def __init__(self, seed: int = 7) -> None:
        random = np.random.default_rng(seed)
        shape = (2, 7, 1440, 2, 100)
        self.speeds = random.uniform(0, 70, shape).astype(np.float32)
        self.counts = random.uniform(0, 200, shape).astype(np.float32)
        self.tolls = {(vid, day): int(random.integers(1, 500)) for vid in range(0, 320, 2) for day in range(1, 70)}

    def write(self, run: Path) -> None:
        folder = run / "history"
        (folder / "arrays").mkdir(parents=True)
        (folder / "tolls").mkdir()
        for xway in range(2):
            np.save(folder / "arrays" / f"speed-{xway:05d}.npy", self.speeds[xway])
            np.save(folder / "arrays" / f"count-{xway:05d}.npy", self.counts[xway])
        rows = [(vid, day, vid // 2 % 2, tolls) for (vid, day), tolls in self.tolls.items()]
        columns = [pa.array(column, pa.int32()) for column in zip(*rows, strict=True)]
        pq.write_table(pa.table(columns, names=["vid", "day", "xway", "tolls"]), folder / "tolls" / "part-0.parquet")

    def expenditure(self, vid: int, day: int, xway: int) -> int | None:
        vid, xway = vid % STRIDE, xway % 2
        return self.tolls.get((vid, day)) if xway == vid // 2 % 2 else None

    def mean(self, xway: int, dir: int, seg: int, dow: int, minute: int) -> tuple[float, float] | None:
        place = (xway % 2, dow - 1, minute - 1, dir, seg)
        return float(self.speeds[place]), float(self.counts[place])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A busy run on expressways 0 and 1 with a history."""
    folder = tmp_path_factory.mktemp("validator")
    lines = [line for line in busy_stream(1) if line.split(",")[0] == "2" or line.split(",")[4] != "2"]
    (folder / "feed.txt").write_text("\n".join([*lines, vehicle_number(STRIDE - 1)]) + "\n")
    Past().write(import_text(folder / "feed.txt", folder / "run").path)
    return Run.open(folder / "run")


def vehicle_number(vid: int) -> str:
    """A last tuple that makes ``vid`` the run's largest vehicle."""
    return f"2,599,{vid},-1,-1,-1,-1,-1,-1,999,-1,-1,-1,-1,-1"


def feed(run: Run) -> list[bytes]:
    text = io.BytesIO()
    export_text(run, text)
    return text.getvalue().splitlines()


@pytest.fixture(scope="module")
def correct(run: Run) -> list[Output]:
    return answers(feed(run), history=Past()).outputs


def with_emit(output: Output, delay: int = 1) -> Output:
    """An output of the oracle with Emit at its place in the paper's order."""
    if output[0] == 0:
        return (*output[:3], output[2] + delay, *output[3:])
    return (*output[:2], output[1] + delay, *output[2:])


def write(folder: Path, outputs: Iterable[Output]) -> Path:
    path = folder / "output.csv"
    path.write_text("".join(",".join(map(str, output)) + "\n" for output in outputs))
    return path


def check(spark: SparkSession, run: Run, path: Path, rules: str = "2004", **options: object) -> Verdict:
    return validate(spark, run, [path], edition=EDITIONS[rules], examples=50, **options)  # type: ignore[arg-type]


def test_the_stream_has_everything_in_it(run: Run, correct: list[Output]) -> None:
    kinds = Counter(output[0] for output in correct)
    assert all(kinds[kind] > 50 for kind in range(5))
    assert sum(output[0] == 0 and output[4] > 0 for output in correct) > 50
    assert sum(output[0] == 2 and output[4] > 0 for output in correct) > 5
    assert {"duplicate", "conflict", "range:spd", "segment"} <= {reason for _, reason in answers(feed(run)).rejects}


@pytest.mark.long
def test_the_2003_rules_agree_with_the_oracle(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    outputs = answers(feed(run), history=Past(), rules="2003").outputs
    verdict = check(spark, run, write(tmp_path, map(with_emit, outputs)), rules="2003")
    assert verdict.passed, verdict.examples


@pytest.fixture(scope="module")
def thrice(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A multiplied run without history."""
    folder = tmp_path_factory.mktemp("thrice")
    (folder / "feed.txt").write_text("\n".join(busy_streams(2, 3, 4, 5)))
    return import_text(folder / "feed.txt", folder / "run").multiplied(3)


@pytest.mark.long
def test_a_multiplied_run_without_history_agrees_with_the_oracle(
    spark: SparkSession, thrice: Run, tmp_path: Path
) -> None:
    outputs = list(map(with_emit, answers(feed(thrice)).outputs))
    verdict = check(spark, thrice, write(tmp_path, outputs))
    assert verdict.passed, verdict.examples
    assert sum(tally.given for tally in verdict.tallies) == len(outputs)


@pytest.mark.long
def test_copies_are_told_apart(spark: SparkSession, thrice: Run, tmp_path: Path) -> None:
    outputs = [output for output in map(with_emit, answers(feed(thrice)).outputs) if output[0] < 2]
    stride = thrice.manifest.vid_stride
    first = next(output for output in outputs if output[0] == 0 and output[1] < stride and output[2] > 100)
    second, third = ((0, first[1] + k * stride, *first[2:]) for k in (1, 2))
    outputs.remove(second)
    outputs += [third, (0, first[1] + 3 * stride, *first[2:])]
    verdict = check(spark, thrice, write(tmp_path, outputs), kinds=(0, 1))
    assert [(e.problem, e.id) for e in verdict.examples] == [
        ("duplicated", third[1]),
        ("extra", first[1] + 3 * stride),
        ("missing", second[1]),
    ]


def changed(output: Output, kind: int) -> Output:
    """The last value made wrong by more than any tolerance."""
    return (*output[:-1], 2 * output[-1] + 1000)


def unasked(output: Output, kind: int) -> Output:
    """An answer to something nobody asked."""
    place = {0: 1, 1: 3, 2: 4, 3: 3, 4: 3}[kind]
    return (*output[:place], 100_000 + kind, *output[place + 1 :])


def identity(output: Output) -> tuple[int, int, int]:
    """Kind, time, and vehicle or request, of an output with Emit in the paper's order."""
    kind = output[0]
    return (kind, output[2], output[1]) if kind == 0 else (kind, output[1], output[4 if kind == 2 else 3])


def test_every_single_fault_is_named(spark: SparkSession, run: Run, correct: list[Output], tmp_path: Path) -> None:
    outputs = list(map(with_emit, correct))
    result, expected = list(outputs), set()
    for kind in ANSWERS:
        wrong, missing, late, duplicated, model = [o for o in outputs if o[0] == kind and identity(o)[1] > 60][::9][:5]
        result[result.index(wrong)] = changed(wrong, kind)
        result.remove(missing)
        emit = 3 if kind == 0 else 2
        limit = EDITIONS["2004"].limits[kind]
        result[result.index(late)] = (*late[:emit], identity(late)[1] + limit + 1, *late[emit + 1 :])
        result.append(duplicated)
        result.append(unasked(model, kind))
        faults = zip(PROBLEMS, (missing, unasked(model, kind), wrong, late, duplicated), strict=True)
        expected |= {(problem, *identity(output)) for problem, output in faults}
    assert len(expected) == 25
    touched = {fault[1:] for fault in expected}
    old, ahead = [o for o in outputs if o[0] == 2 and o[5] > 0 and identity(o) not in touched][:2]
    result[result.index(old)] = (*old[:3], old[1] - 61, *old[4:])
    result[result.index(ahead)] = (*ahead[:3], ahead[1] + 1, *ahead[4:])
    expected |= {("wrong", *identity(old)), ("wrong", *identity(ahead))}
    verdict = check(spark, run, write(tmp_path, result))
    assert {(e.problem, e.kind, e.time, e.id) for e in verdict.examples} == expected
    counts = Counter({(tally.kind, p): getattr(tally, p) for tally in verdict.tallies for p in PROBLEMS})
    assert counts == Counter((kind, problem) for problem, kind, _, _ in expected)
    assert not verdict.passed


def as_parquet(output: Output) -> Output:
    """An output of the oracle in the columns of the Parquet form."""
    kind, time, id_ = identity(with_emit(output))
    values = {0: output[3:5], 1: (output[3], -1), 2: (output[2], output[4]), 3: (output[3], -1), 4: output[3:5]}[kind]
    vid, qid = (id_, -1) if kind < 2 else (-1, id_)
    return (kind, time, 1000 * time + 1500, vid, qid, *values)


def earlier(line: bytes) -> bytes:
    """A balance request, asked 30 s before."""
    fields = line.split(b",")
    return b",".join([fields[0], str(max(0, int(fields[1]) - 30)).encode(), *fields[2:]]) if fields[0] == b"2" else line


def test_all_forms_of_output_and_answers_within_their_tolerance_pass(
    spark: SparkSession, run: Run, correct: list[Output], tmp_path: Path
) -> None:
    paths = [tmp_path / "tolls", tmp_path / "paper.txt", tmp_path / "original.txt"]
    notifications = [as_parquet(output) for output in correct if output[0] == 0]
    columns = zip(*notifications, strict=True)
    tolls = pa.table([pa.array(column) for column in columns], names=list(COLUMNS))
    pq.write_to_dataset(tolls, paths[0], partition_cols=["emit_ms"])
    others = [with_emit(output) for output in correct if output[0] in (1, 3)]
    journeys = [with_emit(output) for output in correct if output[0] == 4]
    slower = [(*o[:4], o[4] * 104 // 100 if o[4] > 0 else o[4], o[5]) for o in journeys]
    paths[1].write_text("\n".join(", ".join(map(str, output)) for output in others + slower))
    asked = {output[3]: output[1] for output in correct if output[0] == 2}
    before = answers(sorted(map(earlier, feed(run)), key=when), history=Past()).outputs
    stale = [(2, asked[o[3]], asked[o[3]] + 0.25, o[3], o[1], o[4]) for o in before if o[0] == 2]
    paths[2].write_text("".join(",".join(map(str, line)) + "\r\n" for line in stale))
    verdict = validate(spark, run, paths, edition=EDITIONS["2004"])
    assert verdict.passed, verdict.examples
    assert {tally.kind: tally.given for tally in verdict.tallies} == Counter(output[0] for output in correct)
    assert sum(cell.answers for cell in verdict.cells) == len(correct)
    assert [tally.response.max for tally in verdict.tallies if tally.response] == [1.5, 1, 0.25, 1, 1]
    write_report(verdict, tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text().count("data:image/png") == 3
    batch = BatchMetrics(0, 0.0, since=0, until=9, commit_ms=700, phases_ms={}, state_bytes=1, run="a")
    (paths[0] / FILE).write_bytes(encode_line(asdict(batch)))
    write_report(verdict, tmp_path / "report.html")
    assert "Real-time consistency" in (tmp_path / "report.html").read_text()


def when(line: bytes) -> int:
    return int(line.split(b",")[1])


def test_an_engine_that_was_fed_the_end_of_a_run_is_judged_by_that_end(
    spark: SparkSession, run: Run, tmp_path: Path
) -> None:
    """Against the oracle on the same tuples: cars, statistics and accounts begin with them."""
    late = [line for line in feed(run) if int(line.split(b",")[1]) >= 240]
    outputs = list(map(with_emit, answers(late, history=Past()).outputs))
    verdict = check(spark, run, write(tmp_path, outputs), since=240, fed_since=240)
    assert verdict.passed, verdict.examples
    assert not check(spark, run, tmp_path / "output.csv", since=240).passed


def test_output_of_another_run_is_no_pass(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    path = write(tmp_path, [(0, 10_000 + vid, 20 * vid, 20 * vid + 1, -1, 0) for vid in range(100)])
    with pytest.raises(BadInput, match="None of 100 output tuples answers anything"):
        check(spark, run, path)


def test_nothing_to_judge_is_said_before_anything_is_computed(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    (tmp_path / "garbage.csv").write_text("all work and no play\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "other" / "deep").mkdir(parents=True)
    pq.write_table(pa.table({"kind": [0]}), tmp_path / "other" / "deep" / "a.parquet")
    cases = {
        "empty.csv": "empty",
        "garbage.csv": "none of 1 lines",
        "folder": "folder is empty",
        "other": "no column time, emit_ms",
    }
    for name, message in cases.items():
        with pytest.raises(BadInput, match=message):
            check(spark, run, tmp_path / name)
    with pytest.raises(BadArgument, match="no such OUTPUT"):
        check(spark, run, tmp_path / "nowhere")
    with pytest.raises(BadArgument, match="no second"):
        check(spark, run, tmp_path / "empty.csv", since=600)


def test_the_command_passes_and_fails_with_the_right_exit_code(
    spark: SparkSession, run: Run, correct: list[Output], tmp_path: Path
) -> None:
    path = write(tmp_path, (with_emit(output) for output in correct if identity(with_emit(output))[1] < 90))
    arguments = ["validate", str(run.path), str(path), "--until", "90", "--json", "--only", "0,1,2"]
    passed = CliRunner().invoke(app, arguments)
    assert passed.exit_code == 0, passed.exception
    assert json.loads(passed.stdout)["passed"]
    unreadable = ["0,1,2,3,4", "9,1,1,1,1,1", "0,1,2,3,x,5"]
    path.write_text(path.read_text() + "\n".join(["0,5000,10000,10001,-1,0", *unreadable]))
    options = ["--no-response-times", "--report", str(tmp_path / "report.html")]
    failed = CliRunner().invoke(app, [*arguments[:3], *options])
    assert isinstance(failed.exception, CheckFailed)
    assert "OUTPUT continues to second 10000, RUN ends with second 599" in failed.exception.hint
    assert "toll notification, extra: second 10000, vehicle 5000" in " ".join(failed.stdout.split())
    assert all(f"unreadable: {line}" in failed.stdout for line in unreadable)
    page = (tmp_path / "report.html").read_text()
    assert "failed" in page
    for word in ("late", "median", "p99", "limit"):
        assert f"│ {word} " not in failed.stdout
        assert f"<th>{word}</th>" not in page
    assert "longest response time" not in page
    for bad in ("5", "", "0,,1"):
        assert isinstance(CliRunner().invoke(app, [*arguments[:3], "--only", bad]).exception, BadArgument)
