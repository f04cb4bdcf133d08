"""Feeds of position reports: the fields they need, how these are mapped, and whether vehicles have text ids.

An id is an integer or a text. The schema decides which (Parquet, Arrow, Avro, Protobuf); for CSV and JSON files, the
first line does. A topic or a socket without a schema has integers unless ``vid=FIELD:text`` is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slipstream._errors import BadArgument
from slipstream._feeds.parse import PARSERS
from slipstream._feeds.tuples import FIELDS, LINEAR_ROAD, ReportForm
from slipstream._io.formats import pseudonyms
from slipstream._io.formats.decoding import FieldRef
from slipstream._io.formats.encodings import ARROW, CSV, JSON, MESSAGES, PARQUET
from slipstream._io.formats.ids import is_text
from slipstream._io.named_feeds import KAFKA, Definition, Feed, make_feed, read_file_fields, read_parquet_schema
from slipstream._io.report_packing import CLASS, VID

#: encodings whose fields have names
NAMED = (CSV, JSON, ARROW, PARQUET, *MESSAGES)
#: the suffix of a field with text ids
AS_TEXT = ":text"


def report_feed(
    where: str,
    encoding: str,
    *,
    columns: Mapping[str, str] | None = None,
    fields: Sequence[str] = (),
    follow: bool = False,
    settings: Sequence[tuple[str, str]] = (),
    definition: Definition | None = None,
    form: ReportForm = LINEAR_ROAD,
) -> Feed:
    """Return a feed of tuples; with a decoding, unless it uses one of Linear Road's own encodings.

    All others, and JSON with ``columns`` or text ids, are read by the names of their fields.
    """
    columns = dict(columns or {})
    as_text = columns.get(VID, "").endswith(AS_TEXT)
    if as_text:
        columns[VID] = columns[VID].removesuffix(AS_TEXT)
    as_text = as_text or is_text(where, encoding, _find_field(columns, VID), fields, definition, settings)
    if encoding in PARSERS and not (encoding == JSON and (columns or as_text)):
        if columns or fields:
            raise BadArgument(
                f"--columns and --fields do not go with --format {encoding}.",
                hint=f"Give {', '.join(NAMED)}.",
                code="conflicting-options",
            )
        _refuse_pseudonyms(where)
        return Feed(where, encoding, follow).with_settings(settings if where.startswith(KAFKA) else ())
    if encoding not in NAMED:
        known = dict.fromkeys([*PARSERS, *NAMED])
        raise BadArgument(
            f"--format {encoding}: unknown.",
            hint=f"Use one of: {', '.join(known)}.",
            code="unknown-value",
            expected=[*known],
            found=encoding,
        )
    schema = dict.fromkeys((*FIELDS, *([CLASS] if form.classes > 1 else [])), "integer")
    optional = tuple(name for name in schema if name not in form.needed)
    named = _list_fields(where, encoding, fields)
    if named:
        schema = {name: type_ for name, type_ in schema.items() if _find_field(columns, name) in named}
        if missing := [name for name in form.needed if name not in schema]:
            raise BadArgument(
                f"{where}: no field for {', '.join(missing)}.",
                hint=f"The fields are {', '.join(named)}. Map one of them: --columns {missing[0]}=FIELD.",
                code="unknown-column",
                found=missing,
                expected=[*named],
            )
    columns = {name: field for name, field in columns.items() if name in schema}
    if as_text:
        schema[VID] = "text"
    else:
        _refuse_pseudonyms(where)
    without_header = encoding == CSV and (fields or not read_file_fields(where))
    return make_feed(
        where,
        schema,
        encoding=encoding,
        columns=columns,
        fields=named if without_header else (),
        follow=follow,
        settings=settings,
        optional=optional,
        definition=definition,
    )


def _refuse_pseudonyms(where: str) -> None:
    """Refuse pseudonyms for vehicles with numbers: those of tolls have 31 bits, too few for hashes."""
    hint = f"Give a feed with named fields, and read its ids as texts: --columns vid=FIELD{AS_TEXT}."
    pseudonyms.refuse(where, "names vehicles by numbers, and pseudonyms are texts", hint)


def has_text_ids(feed: Feed) -> bool:
    """Whether vehicles in a feed have text ids."""
    return feed.decoding is not None and feed.decoding.schema[VID] == "text"


def _list_fields(where: str, encoding: str, given: Sequence[str]) -> list[str]:
    """The names of all fields, as far as they are known before reading."""
    if encoding == CSV:
        return list(given) or read_file_fields(where) or list(FIELDS)
    return list(read_parquet_schema(where)) if encoding == PARQUET else []


def _find_field(columns: Mapping[str, str], name: str) -> str:
    return FieldRef.parse(columns.get(name, name)).field
