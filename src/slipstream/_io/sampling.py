"""Samples of a feed before a job reads it: the first available tuples, decoded as the job will decode them.

Nothing is taken away: the job reads the same tuples again, from the beginning. A socket has nothing to look at, since
what it sends is sent once.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from slipstream._io.chunks import CHUNK, ChunkReader, read_arrow_stream
from slipstream._io.formats.decoding import TYPES
from slipstream._io.formats.encodings import JSON
from slipstream._io.named_feeds import Feed, is_live
from slipstream._tools.files import temporary
from slipstream._tools.progress import say

#: how many tuples are looked at for columns without values, and for how long
_LOOK, _LOOK_SECONDS = 1000, 1.0


def sample(feed: Feed, most: int, seconds: float) -> pa.Table:
    """Return at most ``most`` of the tuples available now, reading for at most that many seconds."""
    assert feed.decoding is not None
    none = pa.schema([(name, TYPES[type_]) for name, type_ in feed.decoding.schema.items()]).empty_table()
    if is_live(feed.where):
        return none
    found, count, until = [none], 0, time.monotonic() + seconds
    for tuples in _read_tuples(feed, most):
        found.append(tuples.select(none.column_names))
        count += tuples.num_rows
        if count >= most or time.monotonic() > until:
            break
    return pa.concat_tables(found).slice(0, most)


def warn_of_empty_columns(feed: Feed) -> None:
    """Say which columns none of the first tuples of JSON has; a job calls this when it first meets a feed."""
    if warning := describe_empty_columns(feed):
        say(f"[yellow]note:[/] {warning}")


def describe_empty_columns(feed: Feed) -> str:
    """Describe the columns that none of the first tuples of JSON has; empty if there are none.

    In JSON, a field that is not there is null, so a wrong name is not an error.
    """
    if feed.encoding != JSON or is_live(feed.where):
        return ""
    tuples = sample(feed, _LOOK, _LOOK_SECONDS)
    empty = [name for name in tuples.column_names if tuples[name].null_count == tuples.num_rows]
    if not tuples.num_rows or not empty:
        return ""
    columns = ", ".join(map(repr, empty))
    return (
        f"{feed.where}: none of the first {tuples.num_rows:,} tuples has a value for {columns}. If the field has "
        f"another name, map it: --columns {empty[0]}=NAME, in Python columns={{'{empty[0]}': 'NAME'}}."
    )


def _read_tuples(feed: Feed, most: int) -> Iterator[pa.Table]:
    """Yield the tuples of a feed, chunk by chunk, up to its end at the first call."""
    with tempfile.TemporaryDirectory(prefix="sample-", dir=temporary.folder()) as folder:
        reader = feed.source(Path(folder)).streamReader(None)  # type: ignore[arg-type]
        assert isinstance(reader, ChunkReader)
        start = reader.initialOffset()
        while (end := reader.narrowed(start, reader.latestOffset(start, None), most)) != start:
            for partition in reader.partitions(start, end):
                for batch in reader.read(partition):
                    if batch["what"][0].as_py() == CHUNK:
                        yield read_arrow_stream(batch["chunk"][0].as_py())
            start = end
