"""State and data of another version are refused with advice; the layouts that carry a version are pinned to it."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstream.berlinmod.dataset import FORMAT, Dataset
from slipstream.cuboid import files
from slipstream.cuboid.log import expanded
from slipstream.errors import BadInput
from slipstream.linear_road.accounts import ACCOUNT
from slipstream.linear_road.cars import CAR, VISITS
from slipstream.linear_road.layout import STATE_VERSION
from slipstream.network.execution import STATE, Execution
from slipstream.network.files import load
from slipstream.network.stage import unpacked

BORDER = Path(__file__).parents[1] / "examples" / "networks" / "border.yaml"

#: a box's state as version 1 of networks wrote it
BOX_STATE = (
    "c-nPPF$%&!5S(113E{vLA{G{s$})`>Hd^`+L2Oh|R1on4KE>x)So#b*o!hJ$4jtIro87&=*#*!z<h%J|y4>Z%Zhuf5pTrG728R?Db<~jXMg$Q#"
    "$P%8Bo<K-j(F)}k_F!?%^=NBMp3`Q+BZ*zhy6{)smj5QSx<m~1G=;~aAX9yTalTV|YiOIb(`ae2Xmo{R&Aa&?^iAa!EuGLxXM~Yxnc$6-+{(0W2"
    "WQ=l!51<9BlCQqzU{?(UcUI~D>3%+(7hY)KjYQ;{9nApeN_6#sTvO|b^FR5oqqu$$0SG"
)


def changed(file: Path, version: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | {"version": version}))


def network(folder: Path) -> Callable[[], object]:
    Execution.lay_out(folder, load(BORDER))
    changed(folder / STATE, 99)
    return lambda: Execution.open(folder)


def cuboid(folder: Path) -> Callable[[], object]:
    files.Catalogue({"car": CAR}).write(folder)
    changed(folder / files.FILE, 99)
    return lambda: files.Catalogue.read(folder)


def dataset(folder: Path) -> Callable[[], object]:
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"format": FORMAT, "version": 99}))
    return lambda: Dataset.open(folder)


@pytest.mark.parametrize("kind", [network, cuboid, dataset])
def test_another_version_is_refused_with_advice(kind: Callable[[Path], Callable[[], object]], tmp_path: Path) -> None:
    opened = kind(tmp_path / "folder")
    with pytest.raises(BadInput, match="99, this program reads") as error:
        opened()
    assert error.value.hint


def test_a_network_from_before_versions_is_of_the_first(tmp_path: Path) -> None:
    Execution.lay_out(tmp_path / "run", load(BORDER))
    (tmp_path / "run" / STATE).unlink()
    with pytest.raises(BadInput, match="version 1, this program reads"):
        Execution.open(tmp_path / "run")


def test_state_of_a_network_that_was_written_long_ago_is_read() -> None:
    state = unpacked(zlib.decompress(base64.b85decode(BOX_STATE)))["window"]
    assert state.ts.tolist() == [1, 2]
    assert state.v[0] == 0.5
    assert np.isnan(state.v[1])
    assert state.g[0] == "x"


def test_the_layout_of_tolling_state_goes_with_its_version() -> None:
    """Whoever changes a row must raise ``STATE_VERSION``, or old checkpoints would be read as something else."""
    rows = {schema.name: schema.dtype.descr for schema in (CAR, VISITS, ACCOUNT)}
    crc = zlib.crc32(json.dumps(rows).encode())
    assert (STATE_VERSION, crc) == (3, 1212061548), rows


def test_squeezed_rows_written_long_ago_are_read() -> None:
    stored = bytes.fromhex("0c0000000000000028b52ffd200c61000000040801050902060a03070b")
    assert expanded(stored, 4) == bytes(range(12))
