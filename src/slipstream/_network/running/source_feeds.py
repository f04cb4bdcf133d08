"""The feeds of a network: one for each source, with the mapping of its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slipstream._errors import BadArgument
from slipstream._io.formats.decoding import parse_columns
from slipstream._io.named_feeds import Feed, make_feed
from slipstream._io.outputs import REJECTS
from slipstream._io.required_inputs import check_given
from slipstream._network.algebra import Network


def open_feeds(network: Network, given: Mapping[str, str], columns: Sequence[str], **reading: Any) -> dict[str, Feed]:
    """Return the feed of each source, given where each reads; ``reading`` goes to ``make_feed``.

    ``columns`` are pairs ``COLUMN=FIELD`` or ``SOURCE.COLUMN=FIELD``, as ``--columns`` takes them.
    """
    check_given(network.name, "--input", "source", [source.name for source in network.sources], given)
    if any(end.name == REJECTS for end in network.ends):
        raise BadArgument(
            f"network {network.name}: an output is named {REJECTS}.",
            hint="Rename it: a job on a feed has an output of that name.",
            code="bad-name",
            found=REJECTS,
        )
    mapped = {source.name: parse_columns(columns, source.name, source.schema) for source in network.sources}
    _check_columns(network, columns, {name for mapping in mapped.values() for name in mapping})
    return {
        source.name: make_feed(given[source.name], source.schema, columns=mapped[source.name], **reading)
        for source in network.sources
    }


def _check_columns(network: Network, given: Sequence[str], used: set[str]) -> None:
    """Refuse --columns for a column that no source has."""
    for pair in (pair.strip() for text in given for pair in text.split(",")):
        column = pair.partition("=")[0].rpartition(".")[2]
        if column not in used:
            raise BadArgument(
                f"--columns {pair}: no source has a column {column!r}.",
                hint=" ".join(f"{s.name} has: {', '.join(s.schema)}." for s in network.sources),
                code="unknown-column",
                found=column,
                expected=sorted({name for source in network.sources for name in source.schema}),
            )
