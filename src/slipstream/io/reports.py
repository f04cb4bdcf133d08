"""Anybody's CSV or JSON as Linear Road's tuples: columns by name, and what a line leaves out by default."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slipstream.errors import BadArgument
from slipstream.feeds.parse import GOOD, PARSERS, Columns, Parsed, judge, kept, lines, reason_of
from slipstream.feeds.tuples import FIELDS, MILE, POSITION
from slipstream.io.decoding import Decoding, Place
from slipstream.io.encodings import CSV, JSON
from slipstream.io.sources import Feed, feed_of, fields_of

Parser = Callable[[list[bytes]], Parsed]

#: what a position report must say; its type and its segment follow from the rest
REPORT = ("time", "vid", "spd", "xway", "lane", "dir", "pos")


@dataclass(frozen=True)
class ReportParser:
    """Lines of a feed as tuples."""

    decoding: Decoding

    def __call__(self, chunks: list[bytes]) -> Parsed:
        """The tuples of chunks of whole lines, and what was rejected."""
        found = self.decoding.decode(b"\n".join(chunks))
        rejects = [(line.encode(), reason) for line, reason in zip(*_pair(found.rejects), strict=True)]
        tuples, fits = _tuples(found.tuples)
        verdicts = np.where(fits, judge(tuples), -1)
        for verdict in np.unique(verdicts[verdicts != GOOD]).tolist():
            reason = "integer" if verdict < 0 else reason_of(verdict)
            rejects += [(line, reason) for line in lines(kept(tuples, verdicts == verdict))]
        return Parsed(kept(tuples, verdicts == GOOD), rejects)


def _pair(rejects: pa.Table) -> tuple[list[str], list[str]]:
    return rejects["line"].to_pylist(), rejects["reason"].to_pylist()


def _tuples(table: pa.Table) -> tuple[Columns, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """All fields of tuples, and which tuples have only numbers that fit; a segment follows from the position."""
    columns: Columns = {}
    fits = np.ones(table.num_rows, np.bool_)
    for name in FIELDS:
        default = POSITION if name == "type" else -1
        if name not in table.column_names:
            columns[name] = np.full(table.num_rows, default, np.int32)
            continue
        values = pc.fill_null(table[name], default).to_numpy()
        fits &= (values >= -(2**31)) & (values < 2**31)
        columns[name] = np.where(fits, values, 0).astype(np.int32)
    unsaid = (columns["type"] == POSITION) & (columns["seg"] < 0)
    columns["seg"] = np.where(unsaid, columns["pos"] // MILE, columns["seg"]).astype(np.int32)
    return columns, fits


def reading(
    where: str,
    encoding: str,
    *,
    columns: Mapping[str, str] | None = None,
    fields: Sequence[str] = (),
    follow: bool = False,
    settings: tuple[tuple[str, str], ...] = (),
) -> tuple[Feed, Parser]:
    """A feed of tuples, and how its chunks are parsed.

    Linear Road's own encodings are read as they are; CSV, and JSON with ``columns``, by the names of their fields.
    """
    columns = dict(columns or {})
    if encoding != CSV and not (encoding == JSON and columns):
        if columns or fields:
            raise BadArgument(f"--columns and --fields do not go with --encoding {encoding}.", hint="Give csv or json.")
        feed = Feed(where, encoding, follow, settings=settings)
        return feed, _parser(encoding)
    schema = dict.fromkeys(FIELDS, "integer")
    if encoding == CSV:
        named = list(fields) or fields_of(where) or list(FIELDS)
        schema = {name: type_ for name, type_ in schema.items() if _field(columns, name) in named}
        if missing := [name for name in REPORT if name not in schema]:
            raise BadArgument(
                f"{where}: no field for {', '.join(missing)}.",
                hint=f"The fields are {', '.join(named)}. Say which one it is: --columns {missing[0]}=FIELD.",
            )
        fields = () if fields_of(where) and not fields else named
    columns = {name: field for name, field in columns.items() if name in schema}
    feed = feed_of(where, schema, encoding=encoding, columns=columns, fields=fields, follow=follow, settings=settings)
    assert feed.decoding is not None
    # tuples are parsed where their order is known
    return replace(feed, decoding=None), ReportParser(feed.decoding)


def _field(columns: Mapping[str, str], name: str) -> str:
    return Place.parse(columns.get(name, name)).field


def _parser(encoding: str) -> Parser:
    if encoding not in PARSERS:
        raise BadArgument(f"--encoding {encoding}: unknown.", hint=f"There are: {', '.join([*PARSERS, CSV])}.")
    return PARSERS[encoding]
