"""Destinations of an output besides its table: topics, text files, standard output.

    kafka:HOST:PORT/TOPIC?key=COLUMN     a JSON object per row, exactly once; rows with the same key stay in order
    kafka:HOST:PORT/TOPIC                the same by the columns that the job groups the output by, or else by the row
    text:FILE                            CSV with a header, exactly once
    console                              a JSON object per row, at most once

Sending is part of the same commit: it happens after the tables have the batch and before the journal does
(``Destinations.send``), and a repeated batch replaces or skips what its first attempt sent. Only the console comes
after the journal (``Destinations.show``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slipstream._errors import BadArgument
from slipstream._io.kafka_client import Topic
from slipstream._io.outputs import standard_output, text_files
from slipstream._io.outputs.commit import Outputs
from slipstream._io.outputs.data_files import Written, read_written
from slipstream._io.outputs.json_lines import to_json_lines
from slipstream._io.outputs.kafka import Publisher

KAFKA, TEXT, CONSOLE = "kafka:", "text:", "console"
KEY = "?key="
#: in the journal's detail: the lengths of text files, by output and destination
DELIVERED = "delivered"
_HINT = "Write kafka:HOST:PORT/TOPIC, kafka:HOST:PORT/TOPIC?key=COLUMN, text:FILE or console."

#: the destinations of each output
Wheres = Mapping[str, Sequence[str]]
Settings = Sequence[tuple[str, str]]


def parse(where: str) -> str:
    """Return a destination in the form that jobs store, with the full path of a file; refuse anything else.

    >>> parse("console"), parse("kafka:127.0.0.1:9092/alerts")
    ('console', 'kafka:127.0.0.1:9092/alerts')
    """
    check(where)
    return f"{TEXT}{Path(where.removeprefix(TEXT)).absolute()}" if where.startswith(TEXT) else where


def check(where: str) -> None:
    """Refuse what is not a destination."""
    if where.startswith(KAFKA):
        _parse_topic(where)
    elif where != CONSOLE and not (where.startswith(TEXT) and where != TEXT):
        raise BadArgument(f"{where}: not a destination.", hint=_HINT, code="malformed-value")


def check_inside(where: str) -> None:
    """Refuse a destination outside the folder of its job, which an untrusted file must not name."""
    check(where)
    file = Path(where.removeprefix(TEXT))
    if where.startswith(TEXT) and (file.is_absolute() or ".." in file.parts):
        raise BadArgument(
            f"{where}: outside the folder of the job.", hint=f"Write {TEXT}NAME, or use --to.", code="not-allowed"
        )


def check_unused(folder: Path, wheres: Wheres) -> None:
    """Refuse files that already exist when a job begins, and files that two outputs would write to."""
    taken: dict[Path, str] = {}
    for output, where in _list_pairs(wheres, TEXT):
        file = _file(folder, where)
        if file in taken:
            raise BadArgument(
                f"{where}: used for both outputs {taken[file]} and {output}.",
                hint="Give each its own file.",
                code="duplicate-name",
            )
        if file.exists() and (not file.is_file() or file.stat().st_size):
            raise BadArgument(f"{file}: already exists.", hint="Choose another file, or remove it.", code="exists")
        if not file.parent.is_dir() and file.parent != folder:
            raise BadArgument(
                f"{file.parent}: no such folder.", hint="Create it first, or choose another file.", code="no-such-file"
            )
        taken[file] = output


def check_brokers(wheres: Wheres, settings: Settings = ()) -> None:
    """Refuse topics whose brokers cannot be reached."""
    for _, where in _list_pairs(wheres, KAFKA):
        _parse_topic(where).with_settings(settings).check_broker()


def check_columns(wheres: Wheres, schemas: Mapping[str, pa.Schema]) -> None:
    """Refuse nested columns in CSV, and keys that are not columns of the output."""
    for output, where in _list_pairs(wheres, TEXT):
        for column in schemas.get(output, ()):
            if pa.types.is_nested(column.type):
                raise BadArgument(
                    f"{where}: CSV cannot represent {output}.{column.name}.",
                    hint="Use kafka or console.",
                    code="bad-type",
                )
    for output, where in _list_pairs(wheres, KAFKA):
        known = schemas[output].names if output in schemas else _parse_key(where)
        if missing := [name for name in _parse_key(where) if name not in known]:
            raise BadArgument(
                f"{where}: {output} has no column {missing[0]!r}.",
                hint=f"It has: {', '.join(known)}.",
                code="unknown-column",
                found=missing[0],
                expected=[*known],
            )


class Destination:
    """A destination of your own: subclass it and implement :meth:`send`.

    It runs on the driver. After a crash the interrupted batch is sent again, with the same number and the same rows;
    skip it, or replace what the first attempt left.

    >>> class Counted(Destination):
    ...     def __init__(self):
    ...         self.rows = {}
    ...
    ...     def send(self, batch, rows):
    ...         self.rows[batch] = rows.num_rows
    >>> destination = Counted()
    >>> destination.send(0, pa.table({"id": [1, 2]}))
    >>> destination.rows
    {0: 2}
    """

    def send(self, batch: int, rows: pa.Table) -> None:
        """Send the rows that a batch added to the output."""
        raise NotImplementedError(f"{type(self).__name__}.send")


class Destinations:
    """Sends the rows of a job's outputs to their destinations, on its driver.

    ``shape`` makes of the rows of a file what goes out: their order, and which of their columns. ``keys`` are the
    columns that are the key of an output's messages unless a destination names others.
    """

    def __init__(
        self,
        folder: Path,
        job: str,
        outputs: Outputs,
        wheres: Wheres,
        *,
        settings: Settings = (),
        shape: Callable[[pa.Table], pa.Table] = lambda rows: rows,
        own: Mapping[str, Sequence[Destination]] | None = None,
        keys: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._own, self._by = own or {}, keys or {}
        self._folder, self._wheres, self._shape = folder, wheres, shape
        self._lengths: dict[str, dict[str, int]] = dict(
            (outputs.last.detail if outputs.last else {}).get(DELIVERED, {})
        )
        for output, where in _list_pairs(wheres, TEXT):
            text_files.check_length(_file(folder, where), self._find_length(output, where))
        self._publishers = {
            (output, where): Publisher(_parse_topic(where).with_settings(settings), f"{job}-{output}", outputs.in_doubt)
            for output, where in _list_pairs(wheres, KAFKA)
        }

    def read(self, written: Iterable[Written]) -> dict[str, pa.Table]:
        """Read the rows to send; call this before their batch is committed, which may delete the files."""
        rows = read_written(self._folder, (one for one in written if self._goes_elsewhere(one.output)))
        return {name: self._shape(table) for name, table in rows.items()}

    def send(self, batch: int, rows: Mapping[str, pa.Table]) -> dict[str, Any]:
        """Send the rows of a batch, before its journal line; returns details for that line."""
        for output, table in rows.items():
            wheres = self._wheres.get(output, ())
            lines = to_json_lines(table) if any(where.startswith(KAFKA) for where in wheres) else []
            for where in wheres:
                if where.startswith(KAFKA):
                    by = _parse_key(where) or [name for name in self._by.get(output, ()) if name in table.column_names]
                    self._publishers[output, where].publish(batch, lines, _make_keys(table, by))
                elif where.startswith(TEXT):
                    self._append(output, where, table)
            for destination in self._own.get(output, ()):
                destination.send(batch, table)
        return {DELIVERED: self._lengths} if self._lengths else {}

    def show(self, rows: Mapping[str, pa.Table]) -> None:
        """Print what goes to the console, once the batch is committed."""
        for output, table in rows.items():
            if CONSOLE in self._wheres.get(output, ()):
                standard_output.show(to_json_lines(table))

    def _goes_elsewhere(self, output: str) -> bool:
        return bool(self._wheres.get(output) or self._own.get(output))

    def _append(self, output: str, where: str, rows: pa.Table) -> None:
        length = self._find_length(output, where)
        new = text_files.append(_file(self._folder, where), length, [text_files.to_csv(rows, header=not length)])
        self._lengths = {**self._lengths, output: {**self._lengths.get(output, {}), where: new}}

    def _find_length(self, output: str, where: str) -> int:
        return self._lengths.get(output, {}).get(where, 0)


def _list_pairs(wheres: Wheres, kind: str) -> list[tuple[str, str]]:
    return [(output, where) for output, several in wheres.items() for where in several if where.startswith(kind)]


def _parse_topic(where: str) -> Topic:
    name, key, columns = where.partition(KEY)
    if key and not all(columns.split(",")):
        raise BadArgument(f"{where}: no column is given for the key.", hint=_HINT, code="missing-value")
    return Topic.parse(name)


def _parse_key(where: str) -> list[str]:
    """The columns of a topic's key; empty if it has none."""
    columns = where.partition(KEY)[2]
    return columns.split(",") if columns else []


def _make_keys(rows: pa.Table, columns: Sequence[str]) -> list[bytes] | None:
    """The keys of rows: the value of a column as text, or those of several as JSON."""
    if len(columns) == 1:
        values = pc.fill_null(rows[columns[0]].cast(pa.string()), "").cast(pa.binary())
        return list(values.to_pylist())
    return to_json_lines(rows.select(list(columns))) if columns else None


def _file(folder: Path, where: str) -> Path:
    return folder / where.removeprefix(TEXT)
