"""A client for schema registries: messages of a topic refer to their schema by number.

This is the protocol of Confluent's registry, which others implement too. A message begins with a zero byte and the
number of its schema in four bytes. A number always means the same schema, so each is fetched once per process.

Passwords are given with the settings of Kafka's client, under ``schema.registry.``: they are sent to tasks, and nowhere
else.
"""

from __future__ import annotations

import base64
import json
import ssl
import struct
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from slipstream._errors import BadArgument, Unavailable

#: the prefix of settings for the registry
PREFIX = "schema.registry."
_USER, _TOKEN, _CA = "basic.auth.user.info", "bearer.auth.token", "ssl.ca.location"
_HEADER = struct.Struct(">bI")
#: seconds
_TIMEOUT_S = 20
#: requests a Protobuf schema in compiled form; has no effect on others
_COMPILED = "?format=serialized"

Settings = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema in the registry."""

    kind: str  # AVRO, PROTOBUF, JSON
    text: str


@dataclass(frozen=True)
class Registry:
    """The address of a registry, and the settings to access it."""

    url: str
    settings: Settings = ()

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise BadArgument(
                f"--schema-registry {self.url}: not an address.",
                hint="Write https://HOST:PORT.",
                code="malformed-value",
                found=self.url,
            )
        if "@" in parts.netloc:
            raise BadArgument(
                "--schema-registry: the address must not contain a password.",
                hint=f"Put it into the file given by --kafka-config, as {PREFIX}{_USER}=USER:PASSWORD.",
                code="not-allowed",
            )
        for key, _ in self.settings:
            if key not in (_USER, _TOKEN, _CA):
                raise BadArgument(
                    f"--kafka-config {PREFIX}{key}: unknown.",
                    hint=f"Known settings: {', '.join(PREFIX + name for name in (_USER, _TOKEN, _CA))}.",
                    code="unknown-value",
                    expected=[PREFIX + name for name in (_USER, _TOKEN, _CA)],
                    found=PREFIX + key,
                )

    def schema(self, number: int) -> RegisteredSchema | None:
        """Fetch the schema with a number; None if there is none."""
        if (self, number) not in _FETCHED:
            body = self.get(f"/schemas/ids/{number}{_COMPILED}")
            if body is None:
                return None
            _FETCHED[self, number] = _parse_schema(body)
        return _FETCHED[self, number]

    def latest(self, topic: str) -> RegisteredSchema | None:
        """Fetch the latest schema of a topic's values; None if none is registered."""
        body = self.get(f"/subjects/{quote(topic, safe='')}-value/versions/latest{_COMPILED}")
        return None if body is None else _parse_schema(body)

    def get(self, path: str) -> Mapping[str, Any] | None:
        """Send a GET request; returns None for 404."""
        request = urllib.request.Request(self.url.rstrip("/") + path, headers=self._make_headers())
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S, context=self._make_tls()) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise Unavailable(
                f"{self.url}: {error.code} {error.reason}.", hint=_hint(error.code), code="server-unreachable"
            ) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise Unavailable(
                f"{self.url}: cannot reach the schema registry ({reason}).", hint=_hint(0), code="server-unreachable"
            ) from error
        if not isinstance(found, dict):
            raise Unavailable(
                f"{self.url}: not a schema registry.", hint="Check the address.", code="server-unreachable"
            )
        return found

    def _make_headers(self) -> dict[str, str]:
        settings = dict(self.settings)
        if _USER in settings:
            return {"Authorization": "Basic " + base64.b64encode(settings[_USER].encode()).decode()}
        return {"Authorization": f"Bearer {settings[_TOKEN]}"} if _TOKEN in settings else {}

    def _make_tls(self) -> ssl.SSLContext | None:
        if not self.url.startswith("https"):
            return None
        return ssl.create_default_context(cafile=dict(self.settings).get(_CA))


def _hint(code: int) -> str:
    if code in (401, 403):
        return f"Give --kafka-config FILE with {PREFIX}{_USER}=USER:PASSWORD."
    return "Is it running? Committed output is safe: run the same command again to resume."


#: cached schemas: a number always means the same one
_FETCHED: dict[tuple[Registry, int], RegisteredSchema] = {}


def _parse_schema(body: Mapping[str, Any]) -> RegisteredSchema:
    return RegisteredSchema(str(body.get("schemaType", "AVRO")), str(body.get("schema", "")))


def split_settings(settings: Sequence[tuple[str, str]]) -> tuple[Settings, Settings]:
    """Split settings into those of Kafka's client and those of the registry, without their prefix.

    >>> split_settings([("security.protocol", "SSL"), ("schema.registry.bearer.auth.token", "t")])
    ((('security.protocol', 'SSL'),), (('bearer.auth.token', 't'),))
    """
    own = tuple((key, value) for key, value in settings if not key.startswith(PREFIX))
    return own, tuple((key.removeprefix(PREFIX), value) for key, value in settings if key.startswith(PREFIX))


def unwrap(message: bytes) -> tuple[int, bytes] | None:
    """The number of a message's schema, and the message; None if the message has none.

    >>> unwrap(bytes([0, 0, 0, 1, 4]) + b"rest"), unwrap(b"{}")
    ((260, b'rest'), None)
    """
    if len(message) < _HEADER.size or message[0] != 0:
        return None
    return int(_HEADER.unpack_from(message)[1]), message[_HEADER.size :]


def wrap(number: int, message: bytes) -> bytes:
    """Prefix a message with the number of its schema.

    >>> unwrap(wrap(7, b"x"))
    (7, b'x')
    """
    return _HEADER.pack(0, number) + message
