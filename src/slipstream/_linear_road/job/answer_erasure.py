"""Erasure of one vehicle from the text files, the journal and the summary of a toll or archive job.

The lines of answers are found by formatting the vehicle's rows again, so this runs before the tables lose them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from slipstream._io.outputs import BATCH, JOURNAL, read_journal
from slipstream._io.outputs.removal.forgetting import find_rows, word_pattern
from slipstream._io.outputs.text_files import blank_lines
from slipstream._linear_road.answer_text import REJECTED, TEXT, format_answers
from slipstream._linear_road.job.summary import FILE as SUMMARY
from slipstream._tools.files.staging import atomic_write
from slipstream._tools.logs import encode_line
from slipstream._tools.strict_json import parse_json

#: in a batch's detail: count, time, vehicle and gap of a report off schedule
_VEHICLE_OF_IRREGULAR = 2


def erase_from_texts(folder: Path, id_: str) -> int:
    """Erase a vehicle from the text files of a job that does not run; returns how many lines."""
    lines = _format_lines(folder, find_rows(folder, id_))
    pattern = re.compile(word_pattern(id_).encode())
    done = 0
    if (folder / TEXT).is_file():
        done += blank_lines(folder / TEXT, lambda line: line in lines)
    if (folder / REJECTED).is_file():
        done += blank_lines(folder / REJECTED, lambda line: pattern.search(line) is not None)
    _erase_from_journal(folder, id_)
    _erase_from_summary(folder / SUMMARY, id_)
    return done


def _format_lines(folder: Path, rows: Mapping[str, pa.Table]) -> set[bytes]:
    """Return the lines of a vehicle's answers."""
    found: set[bytes] = set()
    for batch in read_journal(folder):
        emitted_ms = int(batch.detail.get("emitted_ms", 0))
        mine = {name: table.filter(pc.equal(table[BATCH], batch.batch)) for name, table in rows.items()}
        answered = {name: table for name, table in mine.items() if table.num_rows and "delay_ms" in table.column_names}
        if answered:
            found.update(format_answers(answered, emitted_ms).lines)
    return found


def _erase_from_journal(folder: Path, id_: str) -> None:
    """Replace the id of the vehicle that a batch names as off schedule."""
    batches = read_journal(folder)
    named = [batch for batch in batches if str(_off_schedule(batch.detail)) == id_]
    for batch in named:
        batch.detail["irregular"][_VEHICLE_OF_IRREGULAR] = -1
    if named:
        with atomic_write(folder / JOURNAL) as file:
            file.writelines(encode_line(asdict(batch)) for batch in batches)


def _off_schedule(detail: Mapping[str, object]) -> object:
    found = detail.get("irregular")
    return found[_VEHICLE_OF_IRREGULAR] if isinstance(found, list) and len(found) > _VEHICLE_OF_IRREGULAR else None


def _erase_from_summary(file: Path, id_: str) -> None:
    if not file.is_file():
        return
    body = parse_json(file.read_bytes())
    first = body.get("irregular", {}).get("first", {})
    if str(first.get("vehicle")) == id_:
        first["vehicle"] = -1
        with atomic_write(file) as out:
            out.write(json.dumps(body, indent=2).encode() + b"\n")
