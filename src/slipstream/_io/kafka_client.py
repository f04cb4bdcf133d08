"""Names of Kafka topics, and settings and timeouts of the client."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipstream._errors import BadArgument, Unavailable
from slipstream._tools.extras import require

#: seconds
TIMEOUT_S = 20

#: settings that users may not change: correct exactly-once reading depends on them
_RESERVED = frozenset(
    [
        "bootstrap.servers",
        "group.id",
        "enable.auto.commit",
        "isolation.level",
        "enable.partition.eof",
        "auto.offset.reset",
        "transactional.id",
        "partitioner",
    ]
)


@dataclass(frozen=True)
class Topic:
    """A topic, written ``kafka:HOST:PORT[,HOST:PORT]/TOPIC``, and librdkafka's settings for its brokers."""

    servers: str
    name: str
    settings: tuple[tuple[str, str], ...] = ()  # what its brokers require, such as TLS or SASL

    @classmethod
    def parse(cls, text: str) -> Topic:
        """Parse the name of a topic.

        >>> Topic.parse("kafka:127.0.0.1:9092/positions").name
        'positions'
        >>> Topic.parse("kafka://a:9092,b:9092/positions").servers
        'a:9092,b:9092'
        """
        server = r"[^/,]+:\d{1,5}"
        match = re.fullmatch(rf"kafka:(?://)?({server}(?:,{server})*)/([A-Za-z0-9._-]+)", text)
        if not match:
            raise BadArgument(
                f"{text}: not a topic.",
                hint="Write kafka:HOST:PORT/TOPIC; separate several HOST:PORT by commas.",
                code="malformed-value",
            )
        require("kafka", text)
        return cls(match[1], match[2])

    @classmethod
    def from_dict(cls, body: dict[str, Any]) -> Topic:
        """Convert from JSON."""
        return cls(body["servers"], body["name"], tuple((str(key), str(value)) for key, value in body["settings"]))

    def with_settings(self, settings: Sequence[tuple[str, str]]) -> Topic:
        """Return the topic with these client settings."""
        return replace(self, settings=tuple(settings))

    def client(self, tuning: Mapping[str, Any] | None = None, /, **ours: Any) -> dict[str, Any]:
        """The settings of a librdkafka client; ``ours`` take precedence over the user's, theirs over ``tuning``."""
        return {**(tuning or {}), **dict(self.settings), "bootstrap.servers": self.servers, "log_level": 0, **ours}

    def check_broker(self) -> None:
        """Refuse a topic whose brokers cannot be reached; librdkafka would retry forever."""
        why: list[str] = []
        for server in self.servers.split(","):
            host, _, port = server.rpartition(":")
            try:
                socket.create_connection((host, int(port)), timeout=TIMEOUT_S).close()
            except (OSError, OverflowError) as error:
                why.append(str(getattr(error, "strerror", None) or error))
            else:
                return
        raise Unavailable(
            f"{self}: cannot reach a broker ({why[-1]}).",
            hint="Is it running? scripts/kafka.sh start",
            code="broker-unreachable",
        )

    def __str__(self) -> str:
        return f"kafka:{self.servers}/{self.name}"


def read_settings(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Parse ``--kafka-config``: ``key=value``, or a file with one such pair per line.

    >>> read_settings(["security.protocol=SSL", "ssl.ca.location=ca.pem"])
    (('security.protocol', 'SSL'), ('ssl.ca.location', 'ca.pem'))
    """
    found: list[tuple[str, str]] = []
    for text in texts:
        for line in [text] if "=" in text else _read_lines(Path(text)):
            key, equals, value = (part.strip() for part in line.partition("="))
            if not equals or not key:
                raise BadArgument(
                    f"--kafka-config {line}: not a setting.",
                    hint="Write KEY=VALUE, or give a file.",
                    code="malformed-value",
                    found=line,
                )
            if key in _RESERVED:
                raise BadArgument(f"--kafka-config {key}: set by Slipstream.", hint="Remove it.", code="not-allowed")
            found.append((key, value))
    return tuple(found)


def _read_lines(file: Path) -> list[str]:
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise BadArgument(
            f"--kafka-config {file}: cannot be read ({error}).",
            hint="Give KEY=VALUE, or a file of such lines.",
            code="unreadable-file",
        ) from error
    return [line for line in lines if line and not line.startswith("#")]
