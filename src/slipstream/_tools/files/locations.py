"""Files and folders that are given as URIs: ``file:///data/cars`` is the path, ``s3://`` and ``hdfs://`` are in stores.

Other stores are refused, with advice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from slipstream._errors import BadArgument

#: stores that jobs, runs and trips may be in
STORES = ("s3", "hdfs")
#: those that this process has used; Spark needs more jars for some
in_use: set[str] = set()
#: other names of these
_ALIASES = {"s3a": "s3", "s3n": "s3"}
#: stores that people may expect to work
_OTHERS = (
    *("gs", "gcs", "abfs", "abfss", "wasb", "wasbs", "adl", "az", "oss", "cos"),
    *("viewfs", "webhdfs", "swebhdfs", "dbfs", "ftp", "sftp"),
)
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://|(file):/", re.IGNORECASE)
#: a path that was made of a URI has one slash
_REMOTE = re.compile(rf"({'|'.join((*STORES, *_ALIASES))}):/+(.*)", re.IGNORECASE | re.DOTALL)
#: before a location on a command line: ``--out=``, ``cars=``
_BEFORE = re.compile(r"(?:--?[A-Za-z][\w-]*=)?(?:[^\W\d]\w*=)?(?:text:)?")
#: options whose values are settings of other programs
_SETTINGS = ("--conf", "--kafka-config")


def to_path(where: str | Path) -> Path:
    """Return the path of a location in a file system or a store.

    >>> to_path("data/cars"), to_path("file:///data/cars"), to_path("s3a://bucket/cars")
    (PosixPath('data/cars'), PosixPath('/data/cars'), RemotePath('s3://bucket/cars'))
    """
    text = str(where)
    match = _REMOTE.match(text)
    if match is None:
        return Path(local(text)) if isinstance(where, str) else where
    from slipstream._tools.files.remote_paths import RemotePath

    scheme = _ALIASES.get(match[1].lower(), match[1].lower())
    if not match[2].strip("/") or text.startswith(f"{match[1]}:///"):
        raise BadArgument(
            f"{text}: names no {'bucket' if scheme == 's3' else 'name node'}.",
            hint=f"Write {'s3://BUCKET/FOLDER' if scheme == 's3' else 'hdfs://HOST:PORT/FOLDER'}.",
            code="malformed-value",
        )
    in_use.add(scheme)
    return RemotePath(f"{scheme}://{match[2]}")


def is_remote(where: str | Path) -> bool:
    """Whether a location is in a store.

    >>> is_remote("s3://bucket/cars"), is_remote("kafka://broker:9092/cars")
    (True, False)
    """
    return _REMOTE.match(str(where)) is not None


def spark_uri(path: Path) -> str:
    """Return the name that Spark has for a path; Hadoop's client of S3 is called s3a.

    >>> spark_uri(to_path("s3://bucket/tolls")), spark_uri(to_path("/tolls"))
    ('s3a://bucket/tolls', '/tolls')
    """
    text = str(path.absolute())
    return f"s3a{text.removeprefix('s3')}" if text.startswith("s3://") else text


def text_of(where: str | Path) -> str:
    """Return a location as text: the path of a file URI, the URI of a store, anything else as it is.

    >>> text_of("s3a://bucket/cars"), text_of("kafka://broker:9092/cars")
    ('s3://bucket/cars', 'kafka://broker:9092/cars')
    """
    text = str(where)
    return str(to_path(text)) if is_remote(text) else local(text)


def local(where: str) -> str:
    """Return the path of a location; anything but a file URI is returned unchanged.

    >>> local("file:///data/cars%20of%20May"), local("data/cars"), local("kafka://broker:9092/cars")
    ('/data/cars of May', 'data/cars', 'kafka://broker:9092/cars')
    >>> local("gs://bucket/cars")
    Traceback (most recent call last):
        ...
    slipstream._errors.BadArgument: gs://bucket/cars: gs is not supported.
    Give a path, file:///PATH, s3://BUCKET/PATH or hdfs://HOST:PORT/PATH.
    """
    match = _URI.match(where)
    if match is None:
        return where
    scheme = (match[1] or match[2]).lower()
    if scheme == "file":
        return _parse_path(where)
    if scheme in STORES or scheme in _ALIASES:
        raise BadArgument(
            f"{where}: this must be in a file system.",
            hint="Give a path or file:///PATH. Folders of jobs, runs, histories, data sets and trips may be in s3:// "
            "and hdfs://.",
            code="malformed-value",
        )
    if scheme in _OTHERS:
        raise BadArgument(
            f"{where}: {scheme} is not supported.",
            hint="Give a path, file:///PATH, s3://BUCKET/PATH or hdfs://HOST:PORT/PATH.",
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
    """Return the words of a command line with the paths of file URIs, and one way to write those of stores.

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
        found.append(word[: begin.end()] + text_of(word[begin.end() :]))
    return found
