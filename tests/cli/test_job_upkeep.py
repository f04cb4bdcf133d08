"""Pseudonyms, retention, erasure and backups, as far as no job has to run for them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from commands import Slipstream
from slipstream._errors import BadArgument
from slipstream._io import outputs
from slipstream._io.formats import pseudonyms
from slipstream._io.outputs import Outputs
from slipstream._runtime import job
from slipstream._runtime.job import JobFile, lock_folder
from slipstream._runtime.watching.status import FILE as STATUS


@pytest.mark.parametrize(("content", "said"), [("short", "has 5 bytes"), (None, "No such file")])
def test_a_key_that_is_missing_or_short_is_refused(
    slipstream: Slipstream, tmp_path: Path, content: str | None, said: str
) -> None:
    if content:
        (tmp_path / "key").write_text(content)
    (tmp_path / "in.dat").touch()
    done = slipstream("archive", tmp_path / "in.dat", "--out", tmp_path / "out", "--pseudonyms", tmp_path / "key")
    assert done.code == 2
    assert said in done.err
    assert "urandom" in done.err


def test_linear_roads_own_numbers_are_refused(slipstream: Slipstream, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("0123456789abcdef")
    (tmp_path / "in.dat").touch()
    done = slipstream("archive", tmp_path / "in.dat", "--out", tmp_path / "out", "--pseudonyms", tmp_path / "key")
    assert done.code == 2
    assert "vid=FIELD:text" in done.err


SCHEMA = pa.schema([("vehicle", pa.string()), ("toll", pa.int64())])


def made_job(folder: Path, *, finished: bool = True, kind: str = "network") -> Path:
    """A job with two batches of two vehicles, and something of each in all places that a job has."""
    made = JobFile(kind, 1, {})
    made.write(folder)
    committed = Outputs(folder, made.id, {"tolls": SCHEMA})
    for batch in range(2):
        rows = pa.table([["van-7", "van-8"], [batch, batch]], schema=SCHEMA)
        committed.commit(batch, [outputs.write(folder, "tolls", rows, batch)])
    for place in ("checkpoint/state", "snapshot", "in/cars", "points/near"):
        (folder / place).mkdir(parents=True)
        rows = pa.table({"car": ["van-7", "van-8"], "_ts": [1, 2]})
        pq.write_table(rows, folder / place / "train-00000000.parquet")
    (folder / "job.log").write_text("2026-01-01T00:00:00Z Failed: no position of van-7.\n")
    why = {"state": "stopped", "why": "finished" if finished else "asked to stop"}
    (folder / STATUS).write_text(json.dumps(why))
    return folder


def find_traces(folder: Path, id_: str) -> list[Path]:
    """The files of a folder that have an id, in tables or as they are."""
    found = []
    for file in folder.rglob("*"):
        if file.is_file():
            rows = str(pq.read_table(file, partitioning=None).to_pydict()) if file.suffix == ".parquet" else ""
            found += [file] if id_ in rows or id_.encode() in file.read_bytes() else []
    return found


def test_a_forgotten_vehicle_is_nowhere_and_the_others_are(slipstream: Slipstream, tmp_path: Path) -> None:
    out = made_job(tmp_path / "out")
    assert find_traces(out, "van-7")
    done = slipstream("job", "forget", out, "--id", "van-7", "--json")
    assert done.code == 0, done.err
    assert {**done.json, "lines_of_text": 0} == {"lines_of_text": 0, "tolls": 2, "point near": 1}
    assert find_traces(out, "van-7") == []
    assert outputs.read(out, "tolls")["vehicle"].to_pylist() == ["van-8", "van-8"]
    assert pq.read_table(out / "points" / "near")["car"].to_pylist() == ["van-8"]
    again = slipstream("job", "forget", out, "--id", "van-7", "--json")
    assert again.json["tolls"] == 0


def test_a_job_that_may_go_on_ends_only_if_that_is_asked_for(slipstream: Slipstream, tmp_path: Path) -> None:
    out = made_job(tmp_path / "out", finished=False)
    refused = slipstream("job", "forget", out, "--id", "van-7")
    assert refused.code == 2
    assert "--end-job" in refused.err
    assert (out / "checkpoint" / "state").is_dir()
    assert slipstream("job", "forget", out, "--id", "van-7", "--end-job").code == 0
    assert find_traces(out, "van-7") == []
    with pytest.raises(BadArgument, match="cannot be resumed"):
        job.check(out, "network", 1, {})


def test_a_running_job_is_not_touched(slipstream: Slipstream, tmp_path: Path) -> None:
    out = made_job(tmp_path / "out")
    with lock_folder(out):
        refused = slipstream("job", "forget", out, "--id", "van-7")
    assert refused.code == 2
    assert f"slipstream job stop {out}" in refused.err.replace("\n", "")
    assert find_traces(out, "van-7")


def test_a_vehicle_is_forgotten_by_its_real_id_where_it_has_a_pseudonym(slipstream: Slipstream, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("0123456789abcdef")
    hidden = pseudonyms.hash_id(pseudonyms.read_key(tmp_path / "key"), "van-7")
    made = JobFile("network", 1, {})
    made.write(tmp_path / "out")
    rows = pa.table([[str(hidden), "other"], [1, 2]], schema=SCHEMA)
    committed = Outputs(tmp_path / "out", made.id, {"tolls": SCHEMA})
    committed.commit(0, [outputs.write(tmp_path / "out", "tolls", rows, 0)])
    done = slipstream(
        "job", "forget", tmp_path / "out", "--id", "van-7", "--pseudonyms", tmp_path / "key", "--end-job", "--json"
    )
    assert done.json["tolls"] == 1
    assert find_traces(tmp_path / "out", str(hidden)) == []


def test_retention_is_set_applied_and_removed(slipstream: Slipstream, tmp_path: Path) -> None:
    out = made_job(tmp_path / "out")
    assert slipstream("job", "retain", out, "--age", "30 days", "--json").json == {"age": "30 days"}
    assert json.loads((out / "retention.json").read_text()) == {"keep_seconds": 30 * 86_400}
    assert slipstream("job", "retain", out, "--age", "0 s", "--json").json == {"age": "0 s", "tolls": 4}
    assert slipstream("job", "retain", out, "--age", "forever", "--json").json == {"age": "forever"}
    assert not (out / "retention.json").exists()
    assert slipstream("job", "retain", out, "--age", "soon").code == 2
    outputs.check_tables(out, JobFile.read(out).id)


def test_the_copy_of_a_job_that_does_not_run_is_the_whole_folder(slipstream: Slipstream, tmp_path: Path) -> None:
    out = made_job(tmp_path / "out", finished=False)
    done = slipstream("job", "backup", out, tmp_path / "copy", "--json")
    assert done.json == {"copy": str(tmp_path / "copy"), "batches": 2}
    assert outputs.read(tmp_path / "copy", "tolls") == outputs.read(out, "tolls")
    files = {path.relative_to(out) for path in out.rglob("*") if path.is_file()}
    copied = {path.relative_to(tmp_path / "copy") for path in (tmp_path / "copy").rglob("*") if path.is_file()}
    assert files - copied == {Path(STATUS), Path(".lock")}
    assert slipstream("job", "backup", out, tmp_path / "copy").code == 2
    assert slipstream("job", "backup", tmp_path / "nowhere", tmp_path / "other").code == 2


def test_a_key_is_forgotten_when_its_command_ends(slipstream: Slipstream, tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"k" * 32)
    slipstream("archive", tmp_path / "none.dat", "--out", tmp_path / "out", "--pseudonyms", tmp_path / "key")
    assert pseudonyms.choose({"id": "text"}, "none.dat") is None
