"""Reading a snapshot: a database of cuboids, in any process, while the stream runs.

    snapshot = Snapshot.open("tolls")        # a job's folder, or the snapshot in it
    snapshot.refresh()                       # the last committed batch, in all cuboids and fragments
    snapshot["car"][100].speed[0]            # as the thesis writes it; a key that is text: ["WVW123"]
    snapshot["car"].get(100)                 # all that is known of a key, as plain values
    snapshot["car"].read(vids, ["time"])     # many keys at once, as arrays
    snapshot["car"].scan(["xway", "speed"])  # every key

A reader never contacts the stream: it maps the last image of each fragment and applies the deltas of committed batches.
It has its own copy of the pages that they change, so what it sees does not change until it refreshes.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slipstream._cuboid.fragment import EMPTY, Fragment, Parts, locate
from slipstream._cuboid.query.access import Entity, Ring, order_latest_first
from slipstream._cuboid.query.relations import find_key_texts
from slipstream._cuboid.query.stream_functions import Pattern
from slipstream._cuboid.schema import AST, KEY, Schema
from slipstream._cuboid.snapshots import snapshot_files
from slipstream._errors import BadArgument, Unavailable
from slipstream._io import outputs
from slipstream._io.outputs import BATCH
from slipstream._tools import html_table, svg_map
from slipstream._tools.files.locations import to_path
from slipstream._tools.numba_tools import Bools, Ints, Longs, compiled

#: keys looked up together: few enough that the rows stay in the cache while their columns are copied
_CHUNK = 1 << 14
_TRIES = 20
#: attributes that are places, and how a length between them is written; keys on a map
_PLACES = {("x", "y"): svg_map.format_metres, ("lon", "lat"): svg_map.format_degrees}
_MOST_PLACES = 500


@dataclass
class _Copy:
    """This process's copy of one fragment, as of a batch."""

    folder: Path
    schema: Schema
    fragment: Fragment | None = None
    batch: int = -1

    def fetch(self, batch: int) -> tuple[Fragment | None, list[snapshot_files.Delta]]:
        """Return what leads to ``batch``: a newer image if there is one, otherwise the current fragment, and deltas."""
        start, since = self.fragment, self.batch
        newer = [
            image for image in snapshot_files.list_batches(self.folder, snapshot_files.IMAGE) if since < image <= batch
        ]
        if newer:
            since = newer[-1]
            start = snapshot_files.open_image(
                self.folder / snapshot_files.name_file(since, snapshot_files.IMAGE), self.schema
            )
        if start is None:
            if self.oldest() > batch:
                raise FileNotFoundError(self.folder)
            return None, []
        numbers = [
            delta for delta in snapshot_files.list_batches(self.folder, snapshot_files.DELTA) if since < delta <= batch
        ]
        deltas = [
            snapshot_files.read_delta(self.folder / snapshot_files.name_file(delta, snapshot_files.DELTA))
            for delta in numbers
        ]
        # images are removed before deltas: if no older image is left, deltas may be missing too
        if min(snapshot_files.list_batches(self.folder, snapshot_files.IMAGE), default=batch) > since:
            raise FileNotFoundError(self.folder)
        return start, deltas

    def oldest(self) -> int:
        """The oldest batch as of which the fragment can still be read; older files were removed."""
        images, first = (
            snapshot_files.list_batches(self.folder, snapshot_files.IMAGE),
            snapshot_files.list_batches(self.folder, snapshot_files.FIRST),
        )
        return images[0] if images and (not first or images[0] > first[0]) else -1

    def advance(self, batch: int, fetched: tuple[Fragment | None, list[snapshot_files.Delta]]) -> None:
        """Advance the fragment to ``batch``."""
        self.fragment, deltas = fetched
        for delta in deltas:
            assert self.fragment is not None
            delta.apply(self.fragment)
        self.batch = batch


class Cuboid:
    """A cuboid as of a commit of the job that keeps it: the values and the recent past of every key.

    ``Results.cuboid`` returns one. ``cuboid[100].speed[0]`` is the latest speed of key 100, ``speed[-1]`` the one
    before it. A notebook shows the most recently updated keys, and a map if they have x and y or lon and lat.

    >>> import slipstream as ss
    >>> cars = ss.open("out").cuboid("car")
    >>> cars
    <Cuboid car: 2 keys>
    >>> 1 in cars, cars[2].speed[0], cars[2].speed[-1]
    (True, 10.0, 15.0)
    """

    def __init__(self, schema: Schema, lock: threading.RLock) -> None:
        self.schema = schema
        self._lock = lock
        self._copies: dict[int, _Copy] = {}

    @property
    def fragments(self) -> list[Fragment]:
        """The fragments that have rows."""
        return [copy.fragment for copy in self._copies.values() if copy.fragment is not None]

    def __len__(self) -> int:
        return sum(map(len, self.fragments))

    def __repr__(self) -> str:
        return f"<Cuboid {self.schema.name.lower()}: {len(self):,} keys>"

    def __contains__(self, key: int | str) -> bool:
        return self._copy_row(self._convert_key(key)) is not None

    def __getitem__(self, key: int | str) -> Entity:
        """A key, for access as the thesis writes it: ``CAR[100].speed[0]``."""
        key = self._convert_key(key)
        row = self._copy_row(key)
        if row is None:
            raise BadArgument(
                f"No {self.schema.key} {key} in cuboid {self.schema.name}.",
                hint=f"It has {len(self):,} keys.",
                code="unknown-name",
                found=key,
            )
        return Entity(self.schema, row, key)

    def get(self, key: int | str) -> dict[str, Any] | None:
        """All that is known of a key: numbers, and lists with the latest first; None for an unknown key."""
        key = self._convert_key(key)
        row = self._copy_row(key)
        return None if row is None else Entity(self.schema, row, key).values()

    def _convert_key(self, key: int | str) -> int | str:
        """A key of the type that the cuboid declares; digits will do for either.

        On the command line ``123`` may be text, and in Python ``"123"`` a number.
        """
        if self.schema.text_key:
            return str(key)
        try:
            return int(key)
        except ValueError:
            raise BadArgument(
                f"No {self.schema.key} {str(key)[:60]!r} in cuboid {self.schema.name}: its keys are numbers.",
                code="unknown-name",
                found=str(key)[:60],
            ) from None

    def _copy_row(self, key: int | str) -> npt.NDArray[np.void] | None:
        """Return a copy of the row of a key."""
        with self._lock:
            found = [
                fragment.rows[row : row + 1].copy()
                for fragment in self.fragments
                if (row := locate(fragment.parts, _number(fragment, key))) != EMPTY
            ]
        if self.schema.newest:
            found.sort(key=lambda row: row[self.schema.newest][0])
        return found[-1] if found else None

    def read(self, keys: npt.ArrayLike, columns: Sequence[str] | None = None) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of many keys in the given order, and ``found``: 0 for a missing key.

        A plain attribute is an array; an atomic stream is a table with the latest elements first, and its name with a
        ``#`` the number of elements ever appended: those beyond it mean nothing.
        """
        dtype = object if self.schema.text_key else np.int64
        wanted = np.ascontiguousarray(keys, dtype=dtype).reshape(-1)
        names = self._choose_columns(columns)
        out = {name: np.zeros((wanted.size, *self._find_shape(name)), self._find_dtype(name)) for name in names}
        out["found"] = np.zeros(wanted.size, np.bool_)
        with self._lock:
            for start in range(0, wanted.size, _CHUNK):
                self._read(wanted[start : start + _CHUNK], {n: c[start : start + _CHUNK] for n, c in out.items()})
        return out

    def _read(self, keys: npt.NDArray[Any], out: dict[str, npt.NDArray[Any]]) -> None:
        fragments = self.fragments
        newest = np.full(keys.size, -(2**62), np.int64) if self.schema.newest and len(fragments) > 1 else None
        for fragment in fragments:
            numbers = keys if fragment.names is None else fragment.names.find(pa.array(keys, pa.string()))
            if newest is None:
                at = _locate_missing(fragment.parts, numbers, out["found"])
            else:
                at = _locate_newer(fragment.parts, fragment.parts.rows[self.schema.newest], numbers, newest)
            mine = np.flatnonzero(at != EMPTY)
            whole = mine.size == keys.size
            for name, column in out.items():
                if name == "found":
                    column[mine] = True
                elif whole:
                    column[:] = self._pick(fragment, name, at)
                else:
                    column[mine] = self._pick(fragment, name, at[mine])

    def _pick(self, fragment: Fragment, name: str, rows: Ints) -> npt.NDArray[Any]:
        if self._find_shape(name):
            stream = self.schema.stream(name)
            return order_latest_first(fragment.parts.rows[stream.name], fragment.parts.rows[stream.count], rows)
        values = np.asarray(fragment.parts.rows[name][rows])
        return find_key_texts(fragment.names, values) if name == KEY and fragment.names is not None else values

    def scan(self, columns: Sequence[str] | None = None) -> dict[str, npt.NDArray[Any]]:
        """The columns of every key; ``key`` is one of them. Forms as in :meth:`read`."""
        names = self._choose_columns(columns)
        with self._lock:
            parts = [self._scan(fragment, names) for fragment in self.fragments]
        if len(parts) == 1:
            return parts[0]
        empty = {name: np.empty((0, *self._find_shape(name)), self._find_dtype(name)) for name in names}
        return {name: np.concatenate([part[name] for part in [empty, *parts]]) for name in names}

    def _scan(self, fragment: Fragment, names: list[str]) -> dict[str, npt.NDArray[Any]]:
        everything = np.arange(len(fragment), dtype=np.int32)
        return {
            name: self._pick(fragment, name, everything)
            if self._find_shape(name) or (name == KEY and self.schema.text_key)
            else np.ascontiguousarray(fragment.rows[name])
            for name in names
        }

    def newest(self, most: int = 20) -> list[dict[str, Any]]:
        """Return the most recently updated keys, as plain values, newest first; any keys if they have no time."""
        stamp = self.schema.newest or ("time" if "time" in self.schema.names else "")
        with self._lock:
            found = [
                (row, _read_key(fragment, row))
                for fragment in self.fragments
                for row in _find_latest_rows(fragment.rows, stamp, most)
            ]
        if stamp:
            found.sort(key=lambda one: one[0][stamp][0], reverse=True)
        return [Entity(self.schema, row, key).values() for row, key in found[:most]]

    def _repr_html_(self) -> str:
        caption = f"{self.schema.name.lower()}: {len(self):,} keys"
        table = html_table.table(self.newest(), [self.schema.key, *self.schema.names], caption)
        return self._draw(caption) + table

    def _draw(self, title: str) -> str:
        """Draw where the keys are, with their recent paths; empty if no attributes are places."""
        for (x, y), width in _PLACES.items():
            if {x, y} <= {*self.schema.names}:
                paths = [path for row in self.newest(_MOST_PLACES) if (path := _trace_path(row[x], row[y]))]
                return svg_map.draw_map(paths, title, width) if paths else ""
        return ""

    def ring(self, name: str) -> Iterator[Ring]:
        """An atomic stream of every key, per fragment, as a ring."""
        stream = self.schema.stream(name)
        for fragment in self.fragments:
            yield Ring(fragment.rows[stream.name], fragment.rows[stream.count])

    def _choose_columns(self, columns: Sequence[str] | None) -> list[str]:
        if columns is None:
            return [KEY, *self.schema.names]
        return [name if name == KEY or name.endswith("#") else self.schema.attribute(name).name for name in columns]

    def _find_shape(self, name: str) -> tuple[int, ...]:
        attribute = None if name == KEY or name.endswith("#") else self.schema.attribute(name)
        return (attribute.depth,) if isinstance(attribute, AST) else ()

    def _find_dtype(self, name: str) -> np.dtype[Any]:
        if name not in (self.schema.dtype.names or ()):
            raise BadArgument(f"No column '{name}' in cuboid {self.schema.name}.", code="unknown-column", found=name)
        return np.dtype(object) if name == KEY and self.schema.text_key else self.schema.dtype[name].base


def _number(fragment: Fragment, key: int | str) -> int:
    """The number by which a fragment knows a key."""
    if fragment.names is None:
        return int(key)
    return int(fragment.names.find(pa.array([key], pa.string()))[0])


def _read_key(fragment: Fragment, row: npt.NDArray[np.void]) -> int | str:
    """Return the key of a row."""
    return int(row[KEY][0]) if fragment.names is None else str(find_key_texts(fragment.names, row[KEY])[0])


def _trace_path(x: Any, y: Any) -> list[tuple[float, float]]:
    """Return the places of a key: one, or the recent ones if the attributes are atomic streams.

    >>> _trace_path(1.0, 2.0), _trace_path([3.0, 1.0], [4.0, 2.0]), _trace_path(float("nan"), 2.0)
    ([(1.0, 2.0)], [(3.0, 4.0), (1.0, 2.0)], [])
    """
    pairs = zip(*(values if isinstance(values, list) else [values] for values in (x, y)), strict=False)
    return [place for place in pairs if all(map(math.isfinite, place))]


def _find_latest_rows(rows: npt.NDArray[np.void], stamp: str, most: int) -> list[npt.NDArray[np.void]]:
    """Return copies of the rows with the latest stamps, or of the last rows."""
    places = np.argsort(rows[stamp], kind="stable")[-most:] if stamp else np.arange(rows.size)[-most:]
    return [rows[place : place + 1].copy() for place in places.tolist()]


@compiled
def _locate_missing(parts: Parts, keys: Longs, found: Bools) -> Ints:
    """The rows of the keys that were not found elsewhere."""
    rows = np.full(keys.size, EMPTY, dtype=np.int32)
    for i in range(keys.size):
        if not found[i]:
            rows[i] = locate(parts, keys[i])
    return rows


@compiled
def _locate_newer(parts: Parts, stamps: npt.NDArray[Any], keys: Longs, newest: Longs) -> Ints:
    """The rows of the keys whose stamp is at least the newest so far, which is updated."""
    rows = np.full(keys.size, EMPTY, dtype=np.int32)
    for i in range(keys.size):
        row = locate(parts, keys[i])
        if row != EMPTY and stamps[row] >= newest[i]:
            newest[i] = stamps[row]
            rows[i] = row
    return rows


class Snapshot:
    """The cuboids of a running or finished stream, as of one committed batch."""

    def __init__(
        self, folder: Path, catalogue: snapshot_files.Catalogue, fragments: Sequence[int] | None = None, only: str = ""
    ) -> None:
        self.folder = folder
        self.batch = -1
        self._catalogue = catalogue
        self._fragments = fragments
        self._lock = threading.RLock()
        wanted = {name: schema for name, schema in catalogue.cuboids.items() if only in ("", name)}
        self._cuboids = {name: Cuboid(schema, self._lock) for name, schema in wanted.items()}

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        fragments: Sequence[int] | None = None,
        only: str = "",
        batch: int | None = None,
        refresh: bool = True,
    ) -> Snapshot:
        """Open the snapshot in a folder, as of its last committed batch, or as of ``batch``.

        ``fragments`` and ``only`` restrict it to some fragments and to one cuboid.
        """
        folder = to_path(path)
        if (
            not (folder / snapshot_files.FILE).exists()
            and (folder / snapshot_files.FOLDER / snapshot_files.FILE).exists()
        ):
            folder = folder / snapshot_files.FOLDER
        opened = cls(folder, snapshot_files.Catalogue.read(folder), fragments, only)
        if refresh:
            opened.refresh(batch)
        return opened

    @property
    def names(self) -> list[str]:
        """The names of the cuboids."""
        return list(self._cuboids)

    def __getitem__(self, name: str) -> Cuboid:
        found = self._cuboids.get(name) or self._cuboids.get(name.lower())
        if found is None:
            raise BadArgument(
                f"No cuboid '{name}' in {self.folder}; it has: {', '.join(self._cuboids)}.",
                code="unknown-name",
                found=name,
                expected=[*self._cuboids],
            )
        return found

    @property
    def schemas(self) -> dict[str, Schema]:
        """The schemas of the cuboids."""
        return self._catalogue.cuboids

    @property
    def patterns(self) -> dict[str, Pattern]:
        """The stored patterns."""
        return self._catalogue.patterns

    def committed(self) -> int:
        """The last committed batch, to which :meth:`refresh` would advance."""
        return self._catalogue.committed(self.folder)

    def refresh(self, batch: int | None = None) -> int:
        """Advance to the last committed batch and return its number; -1 while there is none."""
        for _ in range(_TRIES):
            target = self.committed() if batch is None else batch
            if target <= self.batch:
                return self.batch
            copies = self._list_copies()
            try:
                fetched = [copy.fetch(target) for copy in copies]
            except FileNotFoundError:
                if batch is not None and (oldest := self.oldest()) > batch:
                    raise BadArgument(
                        f"{self.folder}: cuboids as of batch {batch} are no longer kept.",
                        hint=f"Batches {oldest} to {self.committed()} are kept.",
                        code="not-kept",
                    ) from None
                # removed under our hands: there is a newer image
                continue
            with self._lock:
                for copy, content in zip(copies, fetched, strict=True):
                    copy.advance(target, content)
                self.batch = target
            return target
        raise Unavailable(
            f"{self.folder}: batches are committed faster than they can be read.", hint="Try again.", code="not-ready"
        )

    def oldest(self) -> int:
        """Return the oldest batch as of which the cuboids can still be read."""
        return max((copy.oldest() for copy in self._list_copies()), default=-1)

    def fragments(self, name: str) -> list[int]:
        """The numbers of the fragments that a cuboid has."""
        return sorted(number for number, copy in self[name]._copies.items() if copy.fragment is not None)

    def _list_copies(self) -> list[_Copy]:
        """Return the copies of all fragments, including new ones."""
        for name, cuboid in self._cuboids.items():
            for folder in (self.folder / name).glob("fragment=*"):
                number = int(folder.name.partition("=")[2])
                if self._fragments is None or number in self._fragments:
                    cuboid._copies.setdefault(number, _Copy(folder, cuboid.schema))
        return [copy for cuboid in self._cuboids.values() for copy in cuboid._copies.values()]

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Block refreshes by other threads during the block; yields the batch."""
        with self._lock:
            yield self.batch

    def results(self, query: str, since: int = -1) -> pa.Table:
        """Return the results of a continuous query in committed batches after ``since``, with the batch of each row.

        Rows that could not be kept are under ``rejects``.
        """
        job, names = self.folder.parent, outputs.output_names(self.folder.parent)
        if query not in names:
            there = ", ".join(name for name in names if name != outputs.REJECTS) or "none"
            raise BadArgument(
                f"No results of a query '{query}'; queries: {there}.", code="unknown-name", found=query, expected=names
            )
        rows = outputs.visible_files(job, query, since=since + 1).read()
        return _sort_results(rows.filter((pc.field(BATCH) > since) & (pc.field(BATCH) <= self.batch)))


def _sort_results(rows: pa.Table) -> pa.Table:
    """Rows in the order of the tuples that they were found at, without the columns that give this order."""
    hidden = [name for name in rows.column_names if name.startswith("_") and name != BATCH]
    order = [name for name in hidden if name.startswith("_q")]
    return rows.sort_by([(name, "ascending") for name in (BATCH, *order)]).drop_columns(hidden)
