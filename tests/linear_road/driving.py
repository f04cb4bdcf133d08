"""A live feed as users have it: the driver in a process of its own, the engine in another, a door between them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: how a feed may come; ``broker`` is where Kafka listens
DOORS = ("kafka", "tcp", "folder")
ENCODINGS = ("text", "json", "train")
#: seconds after which something is wrong with the test, not slow
PATIENCE = 300


@dataclass
class Live:
    """An engine that follows a feed, and where the driver delivers it."""

    engine: subprocess.Popen[bytes]
    out: Path
    to: str

    def state(self) -> str:
        file = self.out / "status.json"
        return str(json.loads(file.read_text())["state"]) if file.exists() else ""

    def wait_until(self, state: str) -> None:
        began = time.monotonic()
        while self.state() != state:
            assert self.engine.poll() is None, f"the engine ended with {self.engine.returncode}"
            assert time.monotonic() - began < PATIENCE, f"never {state}"
            time.sleep(0.1)

    def stop_for(self, seconds: float) -> None:
        """Stop the engine with all its processes for a while, as a machine that swaps or sleeps would."""
        os.killpg(self.engine.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.killpg(self.engine.pid, signal.SIGCONT)

    def summary(self) -> Any:
        """What the engine says of itself when its feed has ended."""
        assert self.engine.wait(PATIENCE) == 0
        return json.loads((self.out / "summary.json").read_text())


def slipstream(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "slipstream", *map(str, arguments)]


def door_to(door: str, folder: Path, broker: str) -> tuple[str, str]:
    """What the engine reads from a door, and where the driver delivers to."""
    if door == "kafka":
        topic = f"kafka:{broker}/feed-{uuid.uuid4().hex[:8]}"
        return topic, topic
    if door == "tcp":
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        return f"tcp:127.0.0.1:{port}", f"tcp:127.0.0.1:{port}"
    return str(folder / "feed"), f"dir:{folder / 'feed'}"


@contextmanager
def following(door: str, encoding: str, folder: Path, broker: str = "", *options: object) -> Iterator[Live]:
    """An engine that follows a door; killed at the end, should it still be there."""
    source, to = door_to(door, folder, broker)
    command = slipstream("toll", source, "--follow", "--format", encoding, "--out", folder / "out", *options)
    with (folder / "engine.log").open("wb") as log:
        engine = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        yield Live(engine, folder / "out", to)
    finally:
        if engine.poll() is None:
            os.killpg(engine.pid, signal.SIGKILL)
            engine.wait()


def drive(run: Path, live: Live, encoding: str, seconds: int, *, speed: float = 1.0) -> subprocess.Popen[bytes]:
    """The driver, on its way."""
    command = slipstream("drive", run, "--to", live.to, "--format", encoding, "--until", seconds, "--end")
    return subprocess.Popen(
        [*command, "--speed", str(speed), "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
