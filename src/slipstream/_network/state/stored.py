"""Stored tables: columns as files that all workers of a machine map into memory.

A stage is sent to its worker with every batch. A table that was part of it would be sent, unpacked and indexed every
time; as files it is opened once per process, and pages that are not needed are never read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import feather

from slipstream._tools.files import temporary
from slipstream._tools.files.copies import localized, upload
from slipstream._tools.files.locations import to_path
from slipstream._tools.files.remote_paths import RemotePath, remove_tree

Array = npt.NDArray[Any]
Built = TypeVar("Built")

#: the folder of a run's tables
TABLES = "tables"


class StoredTable(Mapping[str, Array]):
    """The columns of a stored table, sorted by all of them.

    >>> table = StoredTable({"speed": np.array([30, 50]), "cars": np.array([4, 2])})
    >>> list(table), table["cars"].tolist()
    (['speed', 'cars'], [4, 2])
    """

    def __init__(self, columns: Mapping[str, Array]) -> None:
        self._columns: dict[str, Array] = dict(columns)
        #: what look-ups and users' functions have built, for the next batch
        self.indexes: dict[Any, Any] = {}

    def __reduce__(self) -> tuple[Any, tuple[Any]]:
        """Pickle the columns alone: what was built of them can be built again."""
        return StoredTable, (self._columns,)

    def __getitem__(self, name: str) -> Array:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def remember(self, build: Callable[[StoredTable], Built]) -> Built:
        """Return what a function or a class makes of the table: once per process, for all batches.

        A variable of the function's own module would not do: it is sent to the workers with every batch.

        >>> table = StoredTable({"speed": np.array([50, 30])})
        >>> def fastest(table):
        ...     return int(table["speed"].max())
        >>> table.remember(fastest), table.remember(fastest)
        (50, 50)
        """
        wanted = (build.__module__, build.__qualname__)
        if wanted not in self.indexes:
            self.indexes[wanted] = build(self)
        found: Built = self.indexes[wanted]
        return found


class TableInFiles(StoredTable):
    """A table in files."""

    def __init__(self, folder: str) -> None:
        super().__init__({})
        self._folder, self._copy = folder, localized(to_path(folder))
        self._names: list[str] = json.loads(self._copy.joinpath("columns").read_text(encoding="utf-8"))

    def __reduce__(self) -> tuple[Any, tuple[Any]]:
        """Pickle a table as its folder."""
        return open_table, (self._folder,)

    def __getitem__(self, name: str) -> Array:
        if name not in self._columns:
            if name not in self._names:
                raise KeyError(name)
            self._columns[name] = _read(self._copy / str(self._names.index(name)))
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@cache
def open_table(folder: str) -> TableInFiles:
    """Open the table in a folder, once per process."""
    return TableInFiles(folder)


def store_tables(folder: Path, tables: Mapping[str, Mapping[str, Array]]) -> dict[str, TableInFiles]:
    """Write the tables of a run, replacing those of an earlier start."""
    remove_tree(folder / TABLES)
    found = {}
    for name, columns in tables.items():
        # a unique name, so that no process confuses it with one that it has opened before
        place = final = folder / TABLES / f"{name}-{uuid4().hex[:8]}"
        if isinstance(final, RemotePath):
            place = temporary.folder() / final.name
        place.mkdir(parents=True)
        for number, values in enumerate(columns.values()):  # names of columns need not be names of files
            _write(place / str(number), values)
        place.joinpath("columns").write_text(json.dumps(list(columns)), encoding="utf-8")
        if isinstance(final, RemotePath):
            upload(place, final)
        found[name] = open_table(str(final))
    return found


def _write(file: Path, values: Array) -> None:
    if values.dtype == object:
        feather.write_feather(pa.table({"text": pa.array(values, pa.large_string())}), str(file.with_suffix(".arrow")))
    else:
        np.save(file.with_suffix(".npy"), values)


def _read(file: Path) -> Array:
    if file.with_suffix(".npy").exists():
        return np.asarray(np.load(file.with_suffix(".npy"), mmap_mode="r"))
    texts = feather.read_table(str(file.with_suffix(".arrow")))["text"]
    return np.asarray(texts.to_numpy(), object)
