"""Linear Road's tuples: as text, JSON and trains, and as a file to import. What is let in is checked against the
specification's ranges, written down here once more."""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.campaign import ACCEPTED, REJECTED, Reader
from slipstream._feeds import trains
from slipstream._feeds.lane_parcels import end_lanes, make_parcel
from slipstream._feeds.parse import PARSERS, Parsed
from slipstream._feeds.run import Run
from slipstream._feeds.tuple_text import export_text, import_text
from slipstream._linear_road.tasks.intake import Intake

NAMES = ("type", "time", "vid", "spd", "xway", "lane", "dir", "seg", "pos", "qid", "sinit", "send", "dow", "tod", "day")
BIG = 2**31 - 1
RANGES = {
    **dict.fromkeys(("time", "vid", "xway", "qid"), (0, BIG)),
    **{"spd": (0, 100), "lane": (0, 4), "dir": (0, 1), "seg": (0, 99), "pos": (0, 527_999)},
    **{"sinit": (0, 99), "send": (0, 99), "dow": (1, 7), "tod": (1, 1440), "day": (1, 69)},
}
CARRIED = {
    0: ("time", "vid", "spd", "xway", "lane", "dir", "seg", "pos"),
    2: ("time", "vid", "qid"),
    3: ("time", "vid", "xway", "qid", "day"),
    4: ("time", "vid", "xway", "qid", "sinit", "send", "dow", "tod"),
}
#: one tuple of each kind, and a few more
ROWS = [
    (0, 0, 107, 32, 0, 0, 0, 10, 53320, -1, -1, -1, -1, -1, -1),
    (0, 30, 107, 58, 0, 1, 0, 10, 55800, -1, -1, -1, -1, -1, -1),
    (0, 30, 9, 0, 1, 4, 1, 99, 527999, -1, -1, -1, -1, -1, -1),
    (2, 31, 107, -1, -1, -1, -1, -1, -1, 1, -1, -1, -1, -1, -1),
    (3, 35, 107, -1, 0, -1, -1, -1, -1, 2, -1, -1, -1, -1, 69),
    (4, 60, 107, -1, 0, -1, -1, -1, -1, 3, 7, 88, 1, 1440, -1),
]


def is_good(row: Sequence[int]) -> bool:
    """Whether a tuple may be let in."""
    tuple_ = dict(zip(NAMES, row, strict=True))
    if tuple_["type"] not in CARRIED:
        return False
    within = all(RANGES[name][0] <= tuple_[name] <= RANGES[name][1] for name in CARRIED[tuple_["type"]])
    return within and (tuple_["type"] != 0 or tuple_["seg"] == tuple_["pos"] // 5280)


def _row_of_text(line: bytes) -> list[int] | None:
    words = line.rstrip(b"\r").split(b",")
    if len(words) != len(NAMES) or not all(re.fullmatch(rb"-?0*[0-9]{1,12}", word) for word in words):
        return None
    row = [int(re.sub(rb"^(-?)0+(?=[0-9])", rb"\1", word)) for word in words]
    return row if all(-(2**31) <= value <= BIG for value in row) else None


def _row_of_json(line: bytes) -> list[int] | None:
    try:
        pairs = json.loads(line, object_pairs_hook=lambda pairs: pairs)
        names = [name for name, _ in pairs]
    except (ValueError, RecursionError, TypeError):
        return None
    if len(set(names)) != len(names) or not set(names) <= set(NAMES) or "type" not in names:
        return None
    row = [dict(pairs).get(name, -1) for name in NAMES]
    return row if all(type(value) is int and -(2**31) <= value <= BIG for value in row) else None


def _rows(tuples: dict[str, Any]) -> list[tuple[int, ...]]:
    return list(zip(*(tuples[name].tolist() for name in NAMES), strict=True))


def _judged(parsed: Parsed, expected: list[tuple[int, ...]], lines: int) -> str:
    """What was let in is just what should be; everything else is a reject, here and in the intake."""
    accepted = _rows(parsed.tuples)
    assert accepted == expected, f"let in {accepted}, should be {expected}"
    assert len(accepted) + len(parsed.rejects) == lines, f"{lines} in, {len(accepted)} and {len(parsed.rejects)} out"
    assert all(reason for _, reason in parsed.rejects), "a reject without a reason"
    intake = Intake(60)
    rejects = intake.take([make_parcel(parsed.tuples), end_lanes()])
    out, arrived, more = intake.release()
    assert len(arrived) == len(_rows(out)), "a tuple without its arrival"
    assert set(_rows(out)) <= set(accepted), "the intake made a tuple up"
    assert len(_rows(out)) + len(rejects) + len(more) == len(accepted), "the intake lost a tuple"
    return REJECTED if parsed.rejects else ACCEPTED


def read_text(data: bytes) -> str:
    """Lines of a feed."""
    lines = (data if data.endswith(b"\n") else data + b"\n").split(b"\n")[:-1]
    rows = [row for line in lines if (row := _row_of_text(line)) is not None]
    return _judged(PARSERS["text"]([data]), [tuple(row) for row in rows if is_good(row)], len(lines))


def read_json(data: bytes) -> str:
    """JSON lines of a feed."""
    lines = re.split(rb"\r\n|\r|\n", data if data.endswith(b"\n") else data + b"\n")[:-1]
    rows = [row for line in lines if (row := _row_of_json(line)) is not None]
    return _judged(PARSERS["json"]([data]), [tuple(row) for row in rows if is_good(row)], len(lines))


def read_trains(data: bytes) -> str:
    """Framed trains of a feed."""
    rows, place = [], 0
    while len(data) - place >= 16:
        magic, second, reports, requests = struct.unpack_from("<4siii", data, place)
        size = 16 + reports * 14 + requests * 36
        if magic != b"LRT1" or reports < 0 or requests < 0 or len(data) - place < size:
            break
        rows += _rows_of_train(second, reports, requests, data[place + 16 : place + size])
        place += size
    expected = [row for row in rows if is_good(row)]
    return _judged(PARSERS["train"]([data]), expected, len(rows) + (place < len(data)))


def _rows_of_train(second: int, reports: int, requests: int, body: bytes) -> list[tuple[int, ...]]:
    ints = [struct.unpack_from(f"<{reports}i", body, at * reports) for at in (0, 4, 10)]
    spd, lane_dir = body[8 * reports : 9 * reports], body[9 * reports : 10 * reports]
    rows = [
        (0, second, vid, speed, xway, both % 8, both // 8, pos // 5280, pos, *[-1] * 6)
        for vid, xway, pos, speed, both in zip(*ints, spd, lane_dir, strict=True)
    ]
    asked = [struct.unpack_from(f"<{requests}i", body, 14 * reports + 4 * requests * at) for at in range(9)]
    for kind, vid, xway, qid, sinit, send, dow, tod, day in zip(*asked, strict=True):
        rows.append((kind, second, vid, -1, xway, -1, -1, -1, -1, qid, sinit, send, dow, tod, day))
    return rows


def _text(rows: Sequence[Sequence[int]]) -> bytes:
    return b"".join(b",".join(b"%d" % value for value in row) + b"\n" for row in rows)


def _frame(second: int) -> bytes:
    rows = [row for row in ROWS if row[1] == second]
    return trains.frame(
        {name: np.array(column, np.int32) for name, column in zip(NAMES, zip(*rows, strict=True), strict=True)}
    )


class Importing:
    """Files to import: a run that comes of one holds just the tuples of the file."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch

    def plain(self, data: bytes) -> str:
        """A text file."""
        return self._import(data, data, "feed.dat")

    def gzipped(self, data: bytes) -> str:
        """A gzipped file, damaged as such."""
        try:
            text = gzip.decompress(data)
        except (OSError, EOFError, ValueError, Exception):
            text = None
        return self._import(data, text, "feed.dat.gz")

    def _import(self, data: bytes, text: bytes | None, name: str) -> str:
        source, out = self._scratch / name, self._scratch / "run"
        shutil.rmtree(out, ignore_errors=True)
        source.write_bytes(data)
        run = import_text(source, out)
        assert text is not None, "made a run of a file that cannot be decompressed"
        lines = [line.removesuffix(b"\r") for line in text.split(b"\n")]
        rows = [_row_of_text(line) for line in (lines[:-1] if text.endswith(b"\n") else lines)]
        assert all(row is not None and row[0] in CARRIED and row[1] >= 0 for row in rows), "a bad line was let in"
        written = io.BytesIO()
        export_text(run, written)
        assert written.getvalue().removesuffix(b"\n") == _text([row for row in rows if row]).removesuffix(b"\n")
        run.verify()
        _present_twice(run)
        return ACCEPTED


def _present_twice(run: Run) -> None:
    """A multiplied run shifts what it has, or says that it cannot."""
    twice = run.multiplied(2)
    for stored in range(run.stored):
        for minute in run.minutes:
            table = run.minute(stored, minute)
            for name in ("vid", "xway", "qid"):
                before, after = (t.column(name).to_numpy().astype(np.int64) for t in (table, twice.shift(table, 1)))
                assert (after >= before).all(), f"{name} wrapped around"


def readers(scratch: Path) -> list[Reader]:
    """The readers of tuples."""
    text = _text(ROWS)
    objects = b"".join(
        json.dumps({name: value for name, value in zip(NAMES, row, strict=True) if value >= 0}).encode() + b"\n"
        for row in ROWS
    )
    framed = b"".join(_frame(second) for second in sorted({row[1] for row in ROWS}))
    importing = Importing(scratch)
    texts = [text, _text(ROWS[:1]), text.replace(b"\n", b"\r\n"), text[:-1]]
    return [
        Reader("Linear Road text", "text", texts, read_text, 6),
        Reader("Linear Road JSON", "jsonl", [objects, objects.splitlines()[0]], read_json, 6),
        Reader("Linear Road trains", "bytes", [framed, _frame(0), _frame(30)], read_trains, 6),
        Reader("import of text", "text", texts, importing.plain, 1),
        Reader("import of gzipped text", "bytes", [gzip.compress(text)], importing.gzipped, 0.5),
    ]
