"""The console in this process, on a free port."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from slipstream._console.guard import AccessRules
from slipstream._console.server import config, create


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(workspace: Path, token: str = "", log_level: str = "critical") -> Iterator[str]:
    """The console over a workspace, while the block runs; its address."""
    port = free_port()
    app = create(workspace, AccessRules(port=port, token=token), "local[2]")
    server = uvicorn.Server(config(app, "127.0.0.1", port, log_level))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        app.state.city.closed.set()
        server.should_exit = True
        thread.join()
