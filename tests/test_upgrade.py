"""State and data of another version are refused with advice; the layouts that carry a version are pinned to it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from slipstream._berlinmod.dataset import FORMAT, Dataset
from slipstream._cli import app
from slipstream._cuboid.log import decompress_rows
from slipstream._cuboid.snapshots import snapshot_files
from slipstream._errors import BadInput
from slipstream._linear_road.job.toll_layout import STATE_VERSION
from slipstream._linear_road.state.accounts import ACCOUNT
from slipstream._linear_road.state.cars import CAR, CAR_WITH_PAST, VISITS
from slipstream._network.running.run_folder import Execution
from slipstream._network.state.tracked_tables import FLOAT, INTEGER, TEXT, Log, StateTable
from slipstream._network.yaml_files import load
from slipstream._runtime import job
from slipstream._runtime.state.store import MemoryStore

BORDER = Path(__file__).parents[1] / "examples" / "networks" / "border.yaml"

#: a box's table in the store, as version 4 of networks wrote it: three rows, then the last of them removed
BOX_STATE = {
    0: "00000000000000000000000000000000000000000000000000000000520000000000000000000000000000001f0000000000"
    "00000300000000000000210000000000000000000000000000000100000000000000000000000000e03fffffffffffffffff"
    "0101080128b52ffd2021ad00007800010200010200182400400001000a01001e30020e0000000000000028b52ffd200e7100"
    "000100000078000000000100000079",
    1: "010000000000000000000000000000000100000000000000000000003d000000000000002200000000000000160000000000"
    "00000100000000000000000000000000000000000000000000000100000000000000000000000000e03f0000000000000000"
    "0000000028b52ffd20000100000100000000000000000000000000000002000000000000000028b52ffd2000010000050000"
    "000000000028b52ffd20052900000100000078",
}


def changed(file: Path, version: Any, field: str = "version") -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | {field: version}))


def network(folder: Path) -> Callable[[], object]:
    Execution.lay_out(folder, load(BORDER))
    changed(folder / job.FILE, 99, "state_version")
    return lambda: Execution.open(folder)


def cuboid(folder: Path) -> Callable[[], object]:
    snapshot_files.Catalogue({"car": CAR}).write(folder)
    changed(folder / snapshot_files.FILE, 99)
    return lambda: snapshot_files.Catalogue.read(folder)


def dataset(folder: Path) -> Callable[[], object]:
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"format": FORMAT, "version": 99}))
    return lambda: Dataset.open(folder)


@pytest.mark.parametrize("kind", [network, cuboid, dataset])
def test_another_version_is_refused_with_advice(kind: Callable[[Path], Callable[[], object]], tmp_path: Path) -> None:
    opened = kind(tmp_path / "folder")
    with pytest.raises(BadInput, match="99, but this version reads") as error:
        opened()
    assert error.value.hint


@pytest.mark.parametrize("before", ["network.yaml", "state.json"])
def test_the_folder_of_a_network_of_the_first_version_is_refused_with_advice(tmp_path: Path, before: str) -> None:
    Execution.lay_out(tmp_path / "run", load(BORDER))
    (tmp_path / "run" / job.FILE).rename(tmp_path / "run" / "state.json")
    if before == "network.yaml":
        (tmp_path / "run" / "state.json").unlink()
    with pytest.raises(BadInput, match=r"Slipstream 0\.1"):
        Execution.open(tmp_path / "run")


#: what the folder of a job of version 0.1 had at its top, by kind; the files themselves are not read any more
FOLDERS_OF_0_1 = {
    "toll": ("checkpoint/engine.json", "checkpoint/offsets/0", "output.csv", "batches.jsonl"),
    "network": ("network.yaml", "state.json", "outputs/alerts/part-0.parquet"),
    "cuboid": ("snapshot/fragments.json", "snapshot/car/0.npy"),
}


@pytest.mark.parametrize("kind", FOLDERS_OF_0_1)
def test_every_command_about_a_job_refuses_a_folder_of_the_first_version_and_changes_nothing(
    tmp_path: Path, kind: str
) -> None:
    for name in FOLDERS_OF_0_1[kind]:
        (tmp_path / "old" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "old" / name).write_text("{}")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for words in (
        ("backup", tmp_path / "old", tmp_path / "copy"),
        ("retain", tmp_path / "old", "--age", "1 day"),
        ("forget", tmp_path / "old", "--id", "7", "--end-job"),
        ("pause", tmp_path / "old"),
    ):
        done = CliRunner().invoke(app, ["job", *map(str, words)])
        assert isinstance(done.exception, BadInput), words
        assert "Slipstream 0.1" in done.exception.message
        assert "Finish it with that version" in done.exception.hint
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_state_of_a_network_that_was_written_long_ago_is_read() -> None:
    table = StateTable({"ts": INTEGER, "v": FLOAT, "g": TEXT})
    Log([table]).load(MemoryStore({number: bytes.fromhex(blob) for number, blob in BOX_STATE.items()}))
    ts, v, g = (table.take(name, table.slots()) for name in table.columns)
    assert ts.tolist() == [1, 2]
    assert v[0] == 0.5
    assert np.isnan(v[1])
    assert g.tolist() == ["x", None]


def test_the_layout_of_tolling_state_goes_with_its_version() -> None:
    """Whoever changes a row must raise ``STATE_VERSION``, or old checkpoints would be read as something else."""
    rows = [schema.dtype.descr for schema in (CAR, CAR_WITH_PAST, VISITS, ACCOUNT)]
    crc = zlib.crc32(json.dumps(rows).encode())
    assert (STATE_VERSION, crc) == (9, 1197732493), rows


def test_squeezed_rows_written_long_ago_are_read() -> None:
    stored = bytes.fromhex("0c0000000000000028b52ffd200c61000000040801050902060a03070b")
    assert decompress_rows(stored, 4) == bytes(range(12))
