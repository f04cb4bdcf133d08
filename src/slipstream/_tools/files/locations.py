"""Files and folders that are given as URIs: ``file:///data/cars`` is the path, other stores are refused.

Jobs map files into memory and append to them, so their folders and inputs lie in a file system. One that all machines
of a cluster mount will do; an object store will not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

from slipstream._errors import BadArgument

#: stores that people may expect to work
_STORES = (
    *("s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "wasb", "wasbs", "adl", "az", "oss", "cos"),
    *("hdfs", "viewfs", "webhdfs", "swebhdfs", "dbfs", "ftp", "sftp"),
)
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|(file):/", re.IGNORECASE)
#: before a location on a command line: ``--out=``, ``cars=``
_BEFORE = re.compile(r"(?:--?[A-Za-z][\w-]*=)?(?:[^\W\d]\w*=)?(?:text:)?")
#: options whose values are settings of other programs
_SETTINGS = ("--conf", "--kafka-config")


def local(where: str) -> str:
    """Return the path of a location; anything but a file URI is returned unchanged.

    >>> local("file:///data/cars%20of%20May"), local("data/cars"), local("kafka://broker:9092/cars")
    ('/data/cars of May', 'data/cars', 'kafka://broker:9092/cars')
    >>> local("s3://bucket/cars")
    Traceback (most recent call last):
        ...
    slipstream._errors.BadArgument: s3://bucket/cars: s3 is not supported; files and folders must be in a file system.
    Give a path or file:///PATH, on a cluster in a file system that all machines mount (NFS, or a mounted bucket).
    """
    match = _URI.match(where)
    if match is None:
        return where
    scheme = (match[1] or match[2]).lower()
    if scheme == "file":
        return _parse_path(where)
    if scheme in _STORES:
        raise BadArgument(
            f"{where}: {scheme} is not supported; files and folders must be in a file system.",
            hint="Give a path or file:///PATH, on a cluster in a file system that all machines mount (NFS, or a "
            "mounted bucket).",
            code="malformed-value",
        )
    return where


def _parse_path(where: str) -> str:
    rest = where[len("file:") :]
    host, slash, path = rest.removeprefix("//").partition("/") if rest.startswith("//") else ("", "/", rest[1:])
    if host not in ("", "localhost") or not slash:
        raise BadArgument(
            f"{where}: names a host.", hint="A file URI has three slashes: file:///data/cars.", code="malformed-value"
        )
    return unquote(f"/{path}")


def replace_file_uris(arguments: Sequence[str]) -> list[str]:
    """Return the words of a command line with the paths of file URIs.

    >>> replace_file_uris(["--out", "file:///out", "--input=cars=file:///cars.csv", "--conf", "a=file:///b"])
    ['--out', '/out', '--input=cars=/cars.csv', '--conf', 'a=file:///b']
    """
    found = []
    for before, word in zip(["", *arguments], arguments, strict=False):
        if before in _SETTINGS or word.startswith(tuple(f"{name}=" for name in _SETTINGS)):
            found.append(word)
            continue
        begin = _BEFORE.match(word)
        assert begin is not None
        found.append(word[: begin.end()] + local(word[begin.end() :]))
    return found
