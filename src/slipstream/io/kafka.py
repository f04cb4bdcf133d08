"""How people name a Kafka topic, and how long we wait for a broker."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass

from slipstream.errors import BadArgument, Unavailable

#: seconds
PATIENCE = 20


@dataclass(frozen=True)
class Topic:
    """A topic, as ``kafka:HOST:PORT/TOPIC`` names it."""

    servers: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Topic:
        """Read the name that a user gave.

        >>> Topic.parse("kafka:127.0.0.1:9092/positions").name
        'positions'
        """
        match = re.fullmatch(r"kafka:([^/]+:\d{1,5})/([A-Za-z0-9._-]+)", text)
        if not match:
            raise BadArgument(f"{text}: not a topic.", hint="Write kafka:HOST:PORT/TOPIC.")
        return cls(match[1], match[2])

    def check_broker(self) -> None:
        """Refuse a topic where nobody listens; librdkafka alone would go on trying."""
        host, _, port = self.servers.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=PATIENCE).close()
        except (OSError, OverflowError) as error:
            raise Unavailable(
                f"{self}: no broker answers ({getattr(error, 'strerror', None) or error}).",
                hint="Is it running? scripts/kafka.sh start",
            ) from error

    def __str__(self) -> str:
        return f"kafka:{self.servers}/{self.name}"
