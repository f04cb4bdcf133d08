"""Pseudonyms: ids of vehicles are replaced at intake by keyed hashes, before anything of them is stored.

With the same key, a vehicle has the same pseudonym in all jobs; without it, nobody can compute or check one. The hash
is BLAKE2b with a key. Integers become 63 bits of it, texts 128 bits in hexadecimal. A rejected line could contain an id
anywhere, so only the reason is kept.

The key is a setting of the process (:func:`use`): it reaches tasks with the decoding of a feed and is never stored.
What is stored is its fingerprint, so that a job is not resumed with another key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa

from slipstream._errors import BadArgument

#: the columns that hold ids unless others are named
ID_COLUMNS = ("id", "vid", "vehicle", "vin")
#: a shorter key could be guessed
_LEAST_BYTES = 16
#: pseudonyms that a process remembers
_REMEMBERED = 1 << 18


@dataclass(frozen=True)
class Pseudonyms:
    """Which columns of a feed get pseudonyms, and the key in hexadecimal, which is left out where it is stored."""

    columns: tuple[str, ...]
    fingerprint: str
    key: str = ""

    def apply(self, table: pa.Table) -> pa.Table:
        """Replace the ids in a table."""
        key = bytes.fromhex(self.key)
        for place, name in enumerate(table.column_names):
            if name in self.columns:
                coded = table[name].combine_chunks().dictionary_encode()
                hashed = [hash_id(key, value) for value in coded.dictionary.to_pylist()]
                names = pa.array(hashed, coded.dictionary.type)
                table = table.set_column(place, name, names.take(coded.indices))
        return table


@lru_cache(_REMEMBERED)
def hash_id(key: bytes, id_: str | int | None) -> str | int | None:
    """Return the pseudonym of an id.

    >>> hash_id(b"k" * 32, "van-7"), hash_id(b"k" * 32, 7)
    ('6ac40778e12806d06757e90abd43ac74', 689517889006370088)
    """
    if id_ is None:
        return None
    if isinstance(id_, int):
        return int.from_bytes(hashlib.blake2b(str(id_).encode(), key=key, digest_size=8).digest()) >> 1
    return hashlib.blake2b(id_.encode(), key=key, digest_size=16).hexdigest()


def read_key(file: Path) -> bytes:
    """Read a key: any file of 16 bytes or more, with or without a line break at its end."""
    try:
        found = file.read_bytes().strip()
    except OSError as error:
        raise BadArgument(
            f"--pseudonyms {file}: {error.strerror}.",
            hint="Make a key: head -c 32 /dev/urandom | base64 > KEYFILE",
            code="no-such-file" if isinstance(error, FileNotFoundError) else "io-error",
        ) from error
    if len(found) < _LEAST_BYTES:
        raise BadArgument(
            f"--pseudonyms {file}: has {len(found)} bytes, but a key needs {_LEAST_BYTES} or more.",
            hint="Make a key: head -c 32 /dev/urandom | base64 > KEYFILE",
            code="malformed-value",
        )
    return hashlib.blake2b(found, digest_size=32).digest()


class _Chosen:
    """What this process was told to use."""

    key: bytes | None = None
    columns: tuple[str, ...] = ()


def use(key: bytes | None, columns: Sequence[str] = ()) -> None:
    """Give the feeds that this process opens from now on pseudonyms, or none."""
    _Chosen.key, _Chosen.columns = key, tuple(columns)


def choose(schema: Mapping[str, str], where: str) -> Pseudonyms | None:
    """Return the pseudonyms for a feed with these columns, None if there are to be none."""
    if _Chosen.key is None:
        return None
    columns = tuple(name for name in schema if name in (_Chosen.columns or ID_COLUMNS))
    if missing := [name for name in _Chosen.columns if name not in schema] or ([] if columns else [*ID_COLUMNS]):
        raise BadArgument(
            f"--pseudonyms: {where} has no column {' or '.join(missing)}.",
            hint=f"Name its columns with ids: --pseudonym-columns NAME. Columns: {', '.join(schema)}.",
            code="unknown-column",
            found=missing,
            expected=[*schema],
        )
    if wrong := [name for name in columns if schema[name] not in ("text", "integer")]:
        raise BadArgument(f"--pseudonyms: column {wrong[0]!r} is {schema[wrong[0]]}, not an id.", code="bad-type")
    return Pseudonyms(columns, _fingerprint(_Chosen.key), _Chosen.key.hex())


def restore(stored: Pseudonyms | None) -> Pseudonyms | None:
    """Return stored pseudonyms with the key; refuse a start without it, or with another."""
    given = "" if _Chosen.key is None else _fingerprint(_Chosen.key)
    if given != (stored.fingerprint if stored else ""):
        raise BadArgument(
            "--pseudonyms: the job was started "
            + ("with another key." if stored and given else "with pseudonyms." if stored else "without pseudonyms."),
            hint="Resume it with the key it was started with, or start again in another --out folder.",
            code="different-job",
        )
    return stored and Pseudonyms(stored.columns, stored.fingerprint, (_Chosen.key or b"").hex())


def refuse(where: str, why: str, hint: str) -> None:
    """Refuse an input whose ids cannot get the pseudonyms that were asked for."""
    if _Chosen.key is not None:
        raise BadArgument(f"--pseudonyms: {where} {why}.", hint=hint, code="conflicting-options")


def fingerprint() -> str:
    """Return what identifies the key in use, and does not reveal it; empty if there is none."""
    return "" if _Chosen.key is None else _fingerprint(_Chosen.key)


def _fingerprint(key: bytes) -> str:
    return hashlib.blake2b(b"fingerprint", key=key, digest_size=8).hexdigest()
