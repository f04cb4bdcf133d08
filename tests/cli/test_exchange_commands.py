"""``slipstream import`` and ``slipstream export`` as a person meets them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from commands import Slipstream

LINE = "0,0,107,32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1\n"


@pytest.mark.parametrize("name", ["datafile20seconds.dat", "datafile3hours_t0000-0418.dat"])
def test_the_real_files_go_both_ways_unchanged(
    slipstream: Slipstream, real_data: Path, tmp_path: Path, name: str
) -> None:
    source = real_data / "linear-road" / name
    made = slipstream("import", source, "--out", tmp_path / "run", "--json")
    assert made.code == 0
    assert made.json["tuples"] == source.read_bytes().count(b"\n") + (not source.read_bytes().endswith(b"\n"))
    written = slipstream("export", tmp_path / "run", "--format", "linear-road", "--out", tmp_path / "out.dat")
    assert written.code == 0
    assert (tmp_path / "out.dat").read_bytes() == source.read_bytes()


def test_export_without_out_writes_the_text_and_nothing_else_to_standard_output(
    slipstream: Slipstream, tmp_path: Path
) -> None:
    (tmp_path / "in.dat").write_text(LINE * 2)
    assert slipstream("import", tmp_path / "in.dat", "--out", tmp_path / "run").code == 0
    done = slipstream("export", tmp_path / "run")
    assert (done.code, done.out, done.err) == (0, LINE * 2, "")


def test_a_reader_that_has_seen_enough_is_no_error(slipstream: Slipstream, tmp_path: Path) -> None:
    minutes = (LINE.replace("0,0,", f"0,{60 * minute},", 1) * 5_000 for minute in range(40))
    (tmp_path / "in.dat").write_text("".join(minutes))
    assert slipstream("import", tmp_path / "in.dat", "--out", tmp_path / "run").code == 0
    program = f"{sys.executable} -c 'from slipstream._cli import main; main()' export {tmp_path / 'run'} | head -1"
    program = f"set -o pipefail; {program}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == (LINE, "")
    assert done.returncode == 141


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (LINE + "0,0,x\n", 3, "in.dat, line 2: 3 fields, expected 15"),
        (LINE + LINE[:30], 3, "in.dat, line 2"),
        ("", 3, "in.dat: empty"),
        (None, 2, "in.dat: no such file"),
    ],
)
def test_a_file_that_cannot_be_imported_ends_with_one_message_and_nothing_left(
    slipstream: Slipstream, tmp_path: Path, text: str | None, code: int, message: str
) -> None:
    if text is not None:
        (tmp_path / "in.dat").write_text(text)
    ended = slipstream("import", tmp_path / "in.dat", "--out", tmp_path / "run")
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.count("slipstream:") == 1
    assert message in ended.err
    assert "Traceback" not in ended.err
    assert [p.name for p in tmp_path.iterdir()] == (["in.dat"] if text is not None else [])


def test_nothing_that_is_there_is_overwritten(slipstream: Slipstream, tmp_path: Path) -> None:
    (tmp_path / "in.dat").write_text(LINE)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine").touch()
    ended = slipstream("import", tmp_path / "in.dat", "--out", tmp_path / "run")
    assert ended.code == 2
    assert "exists and is not an empty folder" in ended.err
    assert slipstream("import", tmp_path / "in.dat", "--out", tmp_path / "other").code == 0
    ended = slipstream("export", tmp_path / "other", "--out", tmp_path / "in.dat")
    assert ended.code == 2
    assert "in.dat: exists" in ended.err
    assert (tmp_path / "in.dat").read_text() == LINE
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.dat", "other", "run"]


def test_a_folder_that_cannot_be_written_is_refused(slipstream: Slipstream, tmp_path: Path) -> None:
    (tmp_path / "in.dat").write_text(LINE)
    ended = slipstream("import", tmp_path / "in.dat", "--out", tmp_path / "in.dat" / "run")
    assert (ended.code, ended.out) == (2, "")
    assert slipstream("import", tmp_path / "in.dat", "--out", tmp_path / "run").code == 0
    ended = slipstream("export", tmp_path / "run", "--out", tmp_path / "no" / "out.dat")
    assert ended.code == 2
    assert "its folder does not exist" in ended.err


def test_sumo_needs_a_map_and_the_text_takes_none(slipstream: Slipstream, tmp_path: Path) -> None:
    (tmp_path / "fcd.xml").write_text(
        '<fcd-export><timestep time="0"><vehicle id="a" lane="m_0" pos="1" speed="9"/></timestep></fcd-export>'
    )
    (tmp_path / "map.toml").write_text("[edges.m]\nexpressway = 0\ndirection = 0\noffset = 0\n")
    command = ("import", tmp_path / "fcd.xml", "--out", tmp_path / "run")
    assert slipstream(*command, "--format", "sumo").code == 2
    assert slipstream(*command, "--map", tmp_path / "map.toml").code == 2
    made = slipstream(*command, "--format", "sumo", "--map", tmp_path / "map.toml", "--json")
    assert made.code == 0
    assert made.json["tuples"] == made.json["vehicles"] == 1


def test_vehicles_that_sumos_map_leaves_out_are_rejects(slipstream: Slipstream, tmp_path: Path) -> None:
    seen = "".join(f'<vehicle id="{lane}" lane="{lane}_0" pos="1" speed="9"/>' for lane in "mxyz")
    (tmp_path / "fcd.xml").write_text(f'<fcd-export><timestep time="0">{seen}</timestep></fcd-export>')
    (tmp_path / "map.toml").write_text("[edges.m]\nexpressway = 0\ndirection = 0\noffset = 0\n")
    command = ("import", tmp_path / "fcd.xml", "--format", "sumo", "--map", tmp_path / "map.toml")
    assert slipstream(*command, "--out", tmp_path / "a").code == 0
    assert slipstream(*command, "--out", tmp_path / "b", "--max-rejects", "75%").code == 0
    ended = slipstream(*command, "--out", tmp_path / "c", "--max-rejects", "0.5")
    assert ended.code == 3
    assert "3 of 4 rejected" in ended.err
