"""Paths in stores: ``s3://bucket/jobs/tolls`` and ``hdfs://host:8020/jobs/tolls``, with the methods of a path.

Code that works on a folder gets a ``Path`` and need not know where it is. What a store cannot do is different here:

- An open file is a copy on this machine's disk. One that is written appears in the store, complete, when it is closed;
  so it can be mapped, and ``atomic_write`` needs no rename.
- There are no appends: logs are folders with an object per append (``_tools.object_logs``).
- What works on this machine's files only, such as ``open(path)`` or a library that gets the name, is refused by
  :meth:`RemotePath.__fspath__`, with advice, instead of making a folder called ``s3:``.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PosixPath
from types import TracebackType
from typing import IO, Any

from slipstream._errors import BadArgument
from slipstream._tools.files import temporary
from slipstream._tools.files.stores import Entry, Store, open_store

#: files that are read at the same time
READERS = 16


class RemotePath(PosixPath):
    """A path in a store.

    >>> folder = RemotePath("s3://bucket/jobs/tolls")
    >>> folder / "outputs" / "../job.json", folder.name, str(folder.parent)
    (RemotePath('s3://bucket/jobs/tolls/job.json'), 'tolls', 's3://bucket/jobs')
    """

    __slots__ = ()

    @property
    def scheme(self) -> str:
        """The kind of store."""
        return self.parts[0].rstrip(":")

    @property
    def key(self) -> str:
        """The name in the store."""
        return "/".join(self._split()[2:])

    def _split(self) -> list[str]:
        found: list[str] = []
        for part in self.parts:
            if part == ".." and len(found) > 2:
                found.pop()
            elif part != "..":
                found.append(part)
        return found

    @property
    def store(self) -> Store:
        """The store, for this process."""
        return open_store(self.scheme, self.parts[1])

    def __str__(self) -> str:
        if not self.parts or not self.parts[0].endswith(":"):  # below another: what ``relative_to`` returns
            return "/".join(self.parts) or "."
        return f"{self.parts[0]}//{'/'.join(self._split()[1:])}"

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __hash__(self) -> int:
        return hash(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and str(self) == str(other)

    def __reduce__(self) -> tuple[type[RemotePath], tuple[str]]:
        return RemotePath, (str(self),)

    def __fspath__(self) -> str:
        raise BadArgument(
            f"{self}: this must be in a file system.",
            hint="Folders of jobs, runs, histories, data sets and trips may be in s3:// and hdfs://; give a path here.",
            code="wrong-file-type",
        )

    def absolute(self) -> RemotePath:
        """Return the path: it is absolute."""
        return self

    def resolve(self, strict: bool = False) -> RemotePath:  # noqa: ARG002
        """Return the path; stores have no links."""
        return RemotePath(str(self))

    def expanduser(self) -> RemotePath:
        """Return the path: stores have no home folders."""
        return self

    def is_absolute(self) -> bool:
        """Whether the path begins at the root of its store; it does."""
        return True

    def as_uri(self) -> str:
        """Return the URI."""
        return str(self)

    def find(self) -> Entry | None:
        """Look it up in the store."""
        return self.store.find(self.key)

    def exists(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        """Whether there is a file or folder."""
        return self.find() is not None

    def is_file(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        """Whether there is a file."""
        return (found := self.find()) is not None and not found.is_folder

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        """Whether there is a folder; in S3, one that has a file."""
        return (found := self.find()) is not None and found.is_folder

    def is_symlink(self) -> bool:
        """Whether it is a link; stores have none."""
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:  # noqa: ARG002
        """Return size, kind and time of change."""
        found = self._require()
        mode = (stat.S_IFDIR | 0o755) if found.is_folder else (stat.S_IFREG | 0o644)
        nanoseconds = {"st_mtime_ns": int(found.changed * 1e9)}
        seconds = int(found.changed)
        return os.stat_result((mode, 0, 0, 1, 0, 0, found.size, seconds, seconds, seconds), nanoseconds)

    def lstat(self) -> os.stat_result:
        """Return what :meth:`stat` does."""
        return self.stat()

    def _require(self) -> Entry:
        found = self.find()
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        return found

    def entries(self) -> list[Entry]:
        """List a folder with what the store knows of each file, by name."""
        return sorted(self.store.list(self.key), key=lambda entry: entry.name)

    def iterdir(self) -> Generator[RemotePath, None, None]:
        """List a folder."""
        for entry in self.entries():
            yield self / entry.name.rpartition("/")[2]

    def glob(self, pattern: str, **_: Any) -> Iterator[RemotePath]:  # type: ignore[override]
        """Find files and folders by a pattern of one or more names."""
        first, _slash, rest = pattern.partition("/")
        if first == "**":
            yield from self.rglob(rest or "*")
            return
        for entry in self.entries():
            name = entry.name.rpartition("/")[2]
            if fnmatchcase(name, first):
                if not rest:
                    yield self / name
                elif entry.is_folder:
                    yield from (self / name).glob(rest)

    def rglob(self, pattern: str, **_: Any) -> Iterator[RemotePath]:  # type: ignore[override]
        """Find files and folders at any depth by the pattern of a name."""
        for entry in self.entries():
            name = entry.name.rpartition("/")[2]
            if fnmatchcase(name, pattern):
                yield self / name
            if entry.is_folder:
                yield from (self / name).rglob(pattern)

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:  # noqa: ARG002
        """Make a folder, with those above it; S3 needs none."""
        if not exist_ok and self.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self))
        self.store.make_folder(self.key)

    def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:  # noqa: ARG002
        """Make an empty file, if there is none."""
        if not self.exists():
            self.store.write(self.key, b"")

    def create(self, content: bytes) -> None:
        """Write a file if there is none; otherwise raise ``FileExistsError``."""
        self.store.create(self.key, content)

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete a file."""
        if not missing_ok:
            self._require()
        self.store.delete(self.key)

    def rmdir(self) -> None:
        """Delete an empty folder."""
        self.store.delete(self.key)

    def remove_tree(self) -> None:
        """Delete a folder and all in it."""
        self.store.remove_tree(self.key)

    def open(  # type: ignore[override]
        self,
        mode: str = "r",
        buffering: int = -1,  # noqa: ARG002
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Open a copy of the file on this machine's disk; what is written is in the store when it is closed."""
        kind = mode.replace("b", "").replace("t", "")
        copy = _Copy(self, writes=kind != "r")
        if kind in ("r", "a", "r+"):
            copy.fill(must_exist=kind != "a")
        if kind in {"r", "r+"}:
            copy.seek(0)
        elif kind == "x" and self.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self))
        return copy if "b" in mode else io.TextIOWrapper(copy, encoding, errors, newline)

    def open_parts(self) -> IO[bytes]:
        """Open the file in the store, to read parts of it."""
        return self.store.open(self.key)

    def read_bytes(self) -> bytes:
        """Read the file."""
        return self.store.read(self.key)

    def read_text(self, encoding: str | None = None, errors: str | None = None, newline: str | None = None) -> str:
        """Read the file as text."""
        with io.TextIOWrapper(io.BytesIO(self.read_bytes()), encoding or "utf-8", errors or "strict", newline) as text:
            return text.read()

    def write_bytes(self, data: Any) -> int:
        """Write the file, replacing any existing one."""
        self.store.write(self.key, bytes(data))
        return len(data)

    def write_text(
        self,
        data: str,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,  # noqa: ARG002
    ) -> int:
        """Write the file, replacing any existing one."""
        return self.write_bytes(data.encode(encoding or "utf-8", errors or "strict"))

    def replace(self, target: Any) -> Any:
        """Give a file another name, replacing any existing file; not at once."""
        place = RemotePath(str(target))
        place.write_bytes(self.read_bytes())
        self.unlink(missing_ok=True)
        return place

    rename = replace


class _Copy(io.BufferedRandom):
    """A file of a store on this machine's disk, which is uploaded when it is closed, unless an exception closes it."""

    def __init__(self, place: RemotePath, *, writes: bool) -> None:
        descriptor, name = tempfile.mkstemp(dir=temporary.folder())
        super().__init__(io.FileIO(descriptor, "r+"))
        self._place, self._writes, self._local = place, writes, Path(name)
        if not writes:
            self._local.unlink()

    def fill(self, *, must_exist: bool) -> None:
        """Fetch the file."""
        try:
            self.write(self._place.read_bytes())
        except FileNotFoundError:
            if must_exist:
                self._discard()
                raise
        self.flush()

    def _discard(self) -> None:
        self._writes = False
        self.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._discard()
        self.close()

    def close(self) -> None:
        """Upload what was written, and remove the copy."""
        if self.closed:
            return
        try:
            if self._writes:
                self.flush()
                self._place.store.write(self._place.key, self._local)
        finally:
            super().close()
            self._local.unlink(missing_ok=True)


def remove_tree(folder: Path) -> None:
    """Delete a folder and all in it, wherever it is; what cannot be deleted stays."""
    import shutil

    if isinstance(folder, RemotePath):
        folder.remove_tree()
    else:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def arrow_sink(file: Path) -> Iterator[Any]:
    """Yield what Arrow writes a file to: its path, or a copy that appears in the store when the block succeeds."""
    if isinstance(file, RemotePath):
        with file.open("wb") as copy:
            yield copy
    else:
        yield file


def for_arrow(file: Path) -> Any:
    """Return what Arrow reads a file from: its path, or the store, of which it reads the parts it needs."""
    return file.open_parts() if isinstance(file, RemotePath) else file
