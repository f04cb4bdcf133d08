"""Linear Road text goes into a run and comes out again unchanged, whatever is in it."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream._errors import BadInput
from slipstream._feeds import tuple_text as text_module
from slipstream._feeds.run import Run
from slipstream._feeds.tuple_text import describe_error, export_text, import_text

LINE = b"0,0,107,32,0,0,0,10,53320,-1,-1,-1,-1,-1,-1\n"


def through(folder: Path, text: bytes, name: str = "in.dat") -> bytes:
    (folder / name).write_bytes(text)
    return exported(import_text(folder / name, folder / "run"))


def exported(run: Run) -> bytes:
    out = io.BytesIO()
    lines = export_text(run, out)
    assert lines == sum(run.manifest.counts.values())
    return out.getvalue()


@pytest.mark.parametrize("name", ["datafile20seconds.dat", "datafile3hours_t0000-0418.dat"])
def test_the_real_files_go_through_unchanged(real_data: Path, tmp_path: Path, name: str) -> None:
    original = (real_data / "linear-road" / name).read_bytes()
    run = import_text(real_data / "linear-road" / name, tmp_path / "run")
    assert exported(run) == original
    run.verify()


whole = st.integers(-(2**31), 2**31 - 1)
few = st.integers(-1, 3)
rest = st.lists(whole | few, min_size=15, max_size=15)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Any valid lines, up to 60 s out of order."""
    now, rows = draw(st.integers(0, 2**31 - 4000)), []
    for values in draw(st.lists(rest, min_size=1, max_size=40)):
        now += draw(st.sampled_from([0, 0, 1, 7, 45, 61]))
        row = [draw(st.sampled_from([0, 2, 3, 4])), max(0, now - draw(st.integers(0, 60))), *values[2:]]
        row[4] = draw(few)
        rows.append(",".join(map(str, row)))
    return ("\n".join(rows) + draw(st.sampled_from(["", "\n"]))).encode()


@given(texts())
def test_any_valid_lines_up_to_a_minute_out_of_order_go_through_unchanged(
    tmp_path_factory: pytest.TempPathFactory, text: bytes
) -> None:
    assert through(tmp_path_factory.mktemp("text"), text) == text


@given(texts(), st.integers(100, 2000))
def test_the_size_of_the_blocks_it_is_read_in_does_not_show(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_module, "_BLOCK", max(block, max(map(len, text.split(b"\n"))) + 2))
        assert through(tmp_path_factory.mktemp("text"), text) == text


def test_gzipped_text_reads_the_same(tmp_path: Path) -> None:
    assert through(tmp_path, gzip.compress(LINE * 3), "in.dat.gz") == LINE * 3


def test_leading_zeros_and_windows_line_ends_are_read_and_written_plainly(tmp_path: Path) -> None:
    assert through(tmp_path, LINE.replace(b",0,107,", b",00,0107,").replace(b"\n", b"\r\n") * 2) == LINE * 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "in.dat: empty"),
        (b"\n", "line 1: 1 field, expected 15"),
        (LINE + b"\n" + LINE, "line 2: 1 field,"),
        (LINE * 3 + LINE[:20], "line 4: 9 fields, expected 15"),
        (LINE + LINE.replace(b"107", b"x"), r"line 2: field 3 \(vid\) is 'x'"),
        (LINE + LINE.replace(b"107", b" 107"), r"line 2: field 3 \(vid\) is ' 107'"),
        (LINE + LINE.replace(b"107", b"0x1F"), r"line 2: field 3 \(vid\) is '0x1F'"),
        (LINE + LINE.replace(b"107", b"+7"), r"line 2: field 3 \(vid\) is '\+7'"),
        (LINE + LINE.replace(b"107", b""), r"line 2: field 3 \(vid\) is ''"),
        (LINE + LINE.replace(b"107", b"1e3"), r"line 2: field 3 \(vid\) is '1e3'"),
        (LINE + LINE.replace(b"107", b"3000000000"), "line 2: .*exceeds 32 bits"),
        (b"\xef\xbb\xbf" + LINE, r"line 1: field 1 \(type\)"),
        (LINE.replace(b"\n", b"\r") * 2, "line 1: 29 fields"),
        (b"\x00\xff" * 50, "line 1: 1 field,"),
        (LINE + b"1" + LINE[1:], r"line 2: field 1 \(type\) is 1"),
        (LINE + LINE.replace(b"0,0,107", b"0,-5,107"), "in.dat, line 2: time -5 is negative"),
        (LINE.replace(b"0,0,107", b"0,61,107") + LINE, "in.dat, line 2: time 0 .* behind"),
    ],
)
def test_text_that_cannot_be_used_is_refused_with_its_line_and_leaves_nothing(
    tmp_path: Path, text: bytes, complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint):
        through(tmp_path, text)
    assert [p.name for p in tmp_path.iterdir()] == ["in.dat"]


def test_disorder_is_judged_across_blocks_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "_BLOCK", 64)
    late = LINE.replace(b"0,0,107", b"0,150,107") * 4 + LINE.replace(b"0,0,107", b"0,89,107")
    with pytest.raises(BadInput, match="line 5: time 89"):
        through(tmp_path, late)


def test_a_cut_gzip_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        through(tmp_path, gzip.compress(LINE * 50)[:-30], "in.dat.gz")
    assert [p.name for p in tmp_path.iterdir()] == ["in.dat.gz"]


def test_more_expressways_than_files_can_be_open_are_refused(tmp_path: Path) -> None:
    many = b"".join(b"0,0,1,32,%d,0,0,10,53320,-1,-1,-1,-1,-1,-1\n" % n for n in range(1001))
    with pytest.raises(BadInput, match="more than 1,000 expressways"):
        through(tmp_path, many)


def test_requests_without_an_expressway_rest_with_their_vehicle(tmp_path: Path) -> None:
    report = b"0,0,2000000000,32,5,0,0,10,53320,-1,-1,-1,-1,-1,-1\n"
    request = b"2,0,2000000000,-1,-1,-1,-1,-1,-1,1,-1,-1,-1,-1,-1\n"
    assert through(tmp_path, report + request) == report + request
    run = Run.open(tmp_path / "run")
    assert [e.xway for e in run.manifest.expressways] == [5]
    assert run.manifest.vehicles == 1


def test_a_multiplied_run_is_exported_with_shifted_numbers(tmp_path: Path) -> None:
    (tmp_path / "in.dat").write_bytes(LINE)
    run = import_text(tmp_path / "in.dat", tmp_path / "run").multiplied(2)
    assert exported(run) == LINE + LINE.replace(b"107,32,0", b"215,32,1")


def test_complaints_name_the_field() -> None:
    assert describe_error(LINE.strip()) == ""
    assert "field 15 (day)" in describe_error(LINE.strip()[:-2] + b"?")
