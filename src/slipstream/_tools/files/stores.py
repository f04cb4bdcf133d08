"""Stores of files that are not file systems of this machine: S3 and its relatives, and HDFS.

A store has whole files under names. What jobs need of one is little: write a file so that it appears complete or not
at all, create one only if its name is free, read, list, delete. S3 has this as single requests (``If-None-Match``);
HDFS as a file that is written aside and renamed, which its name node does at once and refuses if the name is taken.

What goes wrong is raised as an ``OSError`` with the number and the sentence that the file system would give, so callers
treat all places alike. Messages never have credentials.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import IO, TYPE_CHECKING, Any, Protocol

from slipstream._errors import Unavailable, classify
from slipstream._tools.extras import require
from slipstream._tools.files import aws_settings

if TYPE_CHECKING:
    from pathlib import Path

#: files from this size on are uploaded in parts
_PART = 16 << 20
#: how long a request is repeated while the store refuses or does not answer
RETRY_S = 30.0


@dataclass(frozen=True)
class Entry:
    """A file or folder in a store."""

    name: str  # from the root of the store, without a slash at either end
    is_folder: bool
    size: int = 0
    changed: float = 0.0  # seconds of the Unix clock


class Store(Protocol):
    """Files under names, which have no slash at either end."""

    def find(self, name: str) -> Entry | None:
        """Look up a file or folder."""

    def list(self, folder: str) -> Iterator[Entry]:
        """List what is directly in a folder; nothing if there is none."""

    def read(self, name: str) -> bytes:
        """Read a file whole."""

    def open(self, name: str) -> IO[bytes]:
        """Open a file to read parts of it."""

    def write(self, name: str, content: bytes | Path) -> None:
        """Write a file, replacing any existing one; ``content`` may be a local file."""

    def create(self, name: str, content: bytes) -> None:
        """Write a file if the name is free; otherwise raise ``FileExistsError``."""

    def delete(self, name: str) -> None:
        """Delete a file; one that is not there is deleted."""

    def make_folder(self, name: str) -> None:
        """Make a folder, where the store knows any."""

    def remove_tree(self, name: str) -> None:
        """Delete a folder and all in it."""


@cache
def open_store(scheme: str, authority: str) -> Store:
    """The store of URIs that begin with ``scheme://authority``; it may be used by several threads."""
    return S3(authority) if scheme == "s3" else Hdfs(authority)


class S3:
    """A bucket, through ``obstore``: the same client, with the same settings, as that of the Delta Lake tables."""

    def __init__(self, bucket: str) -> None:
        require("s3", "A folder in S3")
        from obstore.store import S3Store

        self._uri = f"s3://{bucket}"
        settings: Any = aws_settings.read()
        backoff = {"base": 2, "init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=2)}
        retry: Any = {"max_retries": 1000, "retry_timeout": timedelta(seconds=RETRY_S), "backoff": backoff}
        with self._errors(""):
            self._store = S3Store(bucket, config=settings, retry_config=retry)

    def find(self, name: str) -> Entry | None:
        import obstore

        with suppress(FileNotFoundError), self._errors(name):
            if name:
                return _describe(obstore.head(self._store, name))
        with self._errors(name):
            first = next(iter(obstore.list(self._store, f"{name}/" if name else None, chunk_size=1)), [])
        return Entry(name, is_folder=True) if first or not name else None

    def list(self, folder: str) -> Iterator[Entry]:
        import obstore

        with self._errors(folder):
            found = obstore.list_with_delimiter(self._store, f"{folder}/" if folder else None)
        for below in found["common_prefixes"]:
            yield Entry(below.strip("/"), is_folder=True)
        for one in found["objects"]:
            if one["path"].strip("/") != folder:
                yield _describe(one)

    def read(self, name: str) -> bytes:
        import obstore

        with self._errors(name):
            return bytes(obstore.get(self._store, name).bytes())

    def open(self, name: str) -> IO[bytes]:
        import obstore

        with self._errors(name):
            return _Reader(obstore.open_reader(self._store, name))  # type: ignore[return-value]

    def write(self, name: str, content: bytes | Path) -> None:
        import obstore

        with self._errors(name):
            obstore.put(self._store, name, content, chunk_size=_PART)

    def create(self, name: str, content: bytes) -> None:
        import obstore

        try:
            with self._errors(name):
                obstore.put(self._store, name, content, mode="create", use_multipart=False)
        except FileExistsError:
            # of a request whose answer was lost and that was repeated
            if self.read(name) != content:
                raise

    def delete(self, name: str) -> None:
        import obstore

        with suppress(FileNotFoundError), self._errors(name):
            obstore.delete(self._store, name)

    def make_folder(self, name: str) -> None:
        """Do nothing: a folder is there when it has a file."""

    def remove_tree(self, name: str) -> None:
        import obstore

        with self._errors(name):
            for some in obstore.list(self._store, f"{name}/"):
                obstore.delete(self._store, [one["path"] for one in some])

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        from obstore import exceptions

        try:
            yield
        except exceptions.BaseError as error:
            number = {
                exceptions.AlreadyExistsError: errno.EEXIST,
                exceptions.PreconditionError: errno.EEXIST,
                exceptions.PermissionDeniedError: errno.EACCES,
                exceptions.UnauthenticatedError: errno.EACCES,
            }.get(type(error), errno.ETIMEDOUT)
            raise _translate(number, error, f"{self._uri}/{name}") from None
        except FileNotFoundError as error:
            raise _translate(errno.ENOENT, error, f"{self._uri}/{name}") from None


class _Reader:
    """A file of S3 as Arrow reads one: positions are plain, and reading past the end gives nothing."""

    def __init__(self, opened: Any) -> None:
        self._opened = opened
        self.size, self.mode, self.closed = int(opened.size), "rb", False

    def read(self, count: int = -1) -> bytes:
        count = self.size - self.tell() if count < 0 else min(count, self.size - self.tell())
        return bytes(self._opened.read(count)) if count > 0 else b""

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._opened.seek(offset, whence))

    def tell(self) -> int:
        return int(self._opened.tell())

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        self._opened.close()
        self.closed = True

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _describe(found: Any) -> Entry:
    return Entry(found["path"], is_folder=False, size=found["size"], changed=found["last_modified"].timestamp())


class Hdfs:
    """A name node or name service, through ``hdfs-native``, which needs no Java."""

    def __init__(self, authority: str) -> None:
        require("hdfs", "A folder in HDFS")
        from hdfs_native import Client

        self._uri = f"hdfs://{authority}"
        with self._errors(""):
            self._client = Client(self._uri, {"dfs.client.failover.max.attempts": _ATTEMPTS})

    def find(self, name: str) -> Entry | None:
        with suppress(FileNotFoundError), self._errors(name):
            return self._describe(self._client.get_file_info(f"/{name}"))
        return None

    def list(self, folder: str) -> Iterator[Entry]:
        with suppress(FileNotFoundError), self._errors(folder):
            for one in self._client.list_status(f"/{folder}"):
                if (entry := self._describe(one)).name != folder:
                    yield entry

    def _describe(self, found: Any) -> Entry:
        return Entry(found.path.strip("/"), found.isdir, found.length, found.modification_time / 1000)

    def read(self, name: str) -> bytes:
        with self._errors(name):
            return self._client.read(f"/{name}").read()

    def open(self, name: str) -> IO[bytes]:
        with self._errors(name):
            return self._client.read(f"/{name}")  # type: ignore[return-value]

    def write(self, name: str, content: bytes | Path) -> None:
        self._write(name, content, replace=True)

    def create(self, name: str, content: bytes) -> None:
        try:
            self._write(name, content, replace=False)
        except FileExistsError:
            if self.read(name) != content:
                raise

    def _write(self, name: str, content: bytes | Path, *, replace: bool) -> None:
        from hdfs_native import WriteOptions

        above, _, last = name.rpartition("/")
        aside = f"/{above}/.{last}.{uuid.uuid4().hex[:8]}"
        with self._errors(name):
            self._client.mkdirs(f"/{above}", create_parent=True)
            try:
                with self._client.create(aside, WriteOptions(overwrite=True)) as file:
                    for piece in _split(content):
                        file.write(piece)
                self._client.rename(aside, f"/{name}", overwrite=replace)
            except BaseException:
                with suppress(Exception):
                    self._client.delete(aside)
                raise

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError), self._errors(name):
            self._client.delete(f"/{name}")

    def make_folder(self, name: str) -> None:
        with self._errors(name):
            self._client.mkdirs(f"/{name}", create_parent=True)

    def remove_tree(self, name: str) -> None:
        with suppress(FileNotFoundError), self._errors(name):
            self._client.delete(f"/{name}", recursive=True)

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise _translate(errno.ENOENT, error, f"{self._uri}/{name}") from None
        except FileExistsError as error:
            raise _translate(errno.EEXIST, error, f"{self._uri}/{name}") from None
        except PermissionError as error:
            raise _translate(errno.EACCES, error, f"{self._uri}/{name}") from None
        except Exception as error:  # what the client raises differs from release to release
            text = str(error)
            number = next((number for word, number in _HDFS_ERRORS.items() if word in text), errno.ETIMEDOUT)
            raise _translate(number, error, f"{self._uri}/{name}") from None


#: attempts at a request, with pauses that double from half a second: about as long as those at S3
_ATTEMPTS = "6"
#: how the name node calls what went wrong
_HDFS_ERRORS = {
    "FileNotFound": errno.ENOENT,
    "FileAlreadyExists": errno.EEXIST,
    "already exists": errno.EEXIST,
    "AccessControlException": errno.EACCES,
    "Permission denied": errno.EACCES,
    "QuotaExceeded": errno.EDQUOT,
    "No space": errno.ENOSPC,
}


def _split(content: bytes | Path) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
        return
    with content.open("rb") as file:
        while piece := file.read(_PART):
            yield piece


def explain_store(error: OSError) -> Unavailable | None:
    """Explain an error of a store that is neither a missing file nor a taken name; None for any other."""
    where = str(error.filename or "")
    if isinstance(error, FileNotFoundError | FileExistsError) or not where.startswith(("s3://", "hdfs://")):
        return None
    denied = isinstance(error, PermissionError)
    return Unavailable(
        f"{where}: {error.strerror or error}.",
        hint="Check the credentials: AWS_ACCESS_KEY_ID or AWS_PROFILE for S3, HADOOP_USER_NAME for HDFS."
        if denied
        else "Committed output is safe. Check the address and the store, and run the same command again.",
        code=classify(error),
    )


def _translate(number: int, error: Exception, uri: str) -> OSError:
    said = next(iter(str(error).splitlines()), "")
    text = os.strerror(number) if number != errno.ETIMEDOUT else f"the store does not respond ({said[:300]})"
    return OSError(number, text, uri)
