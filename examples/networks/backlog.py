"""Send a backlog of positions to a topic, like a sender that was cut off for a minute and is now catching up.

    python examples/networks/backlog.py kafka:HOST:PORT/TOPIC

Kafka stamps a message with the time at which its sender had it, so everything sent here arrived a minute ago: results
are late whatever the machine does. A network that runs with ``--shed`` drops what its outputs can spare until the
sender has caught up (``catch_up``), and nothing after that.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

#: how long ago the backlog arrived, in seconds
BEHIND = 60.0
CARS, SEGMENTS = 500, 20


def positions() -> Iterator[list[dict[str, Any]]]:
    """The reports of all cars, second by second; one in twenty stands."""
    for second in range(1_000_000):
        yield [
            {"id": f"car {car}", "time": second, "seg": car % SEGMENTS, "spd": 0.0 if car % 20 == 0 else 20.0 + car % 9}
            for car in range(CARS)
        ]


class Sender:
    """Sends positions to a topic."""

    def __init__(self, where: str) -> None:
        from confluent_kafka import Producer

        servers, _, self.topic = where.removeprefix("kafka:").rpartition("/")
        self._producer: Any = Producer({"bootstrap.servers": servers})
        self._positions = positions()
        self.sent = 0

    def send(self, behind: float = BEHIND) -> None:
        """Send the next second; its sender has had it for ``behind`` seconds."""
        stamp = round(1000 * (time.time() - behind))
        for report in next(self._positions):
            self._producer.produce(self.topic, json.dumps(report).encode(), timestamp=stamp)
            self.sent += 1
        assert self._producer.flush(60) == 0

    def end(self) -> None:
        """Say that nothing more will come."""
        self._producer.produce(self.topic, b"")
        assert self._producer.flush(60) == 0


def catch_up(sender: Sender, seconds: int = 60, *, pause: float = 0.25) -> None:
    """Send seconds of the backlog, then as many as they happen, and end."""
    for behind in [BEHIND] * seconds + [0.0] * seconds:
        sender.send(behind)
        time.sleep(pause)
    sender.end()


if __name__ == "__main__":
    catch_up(Sender(sys.argv[1]))
