"""A schema registry: a real HTTP server that speaks the two routes of Confluent's registry which readers use.

The registry itself is not on Maven Central; this is a stand-in for it, in its own words.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Server:
    """What is registered, and what was asked."""

    url: str = ""
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, int] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)  # path, authorisation
    password: str = ""

    def register(self, topic: str, number: int, kind: str, schema: str) -> None:
        self.schemas[number] = {"schemaType": kind, "schema": schema}
        self.subjects[f"{topic}-value"] = number

    def answer(self, path: str) -> dict[str, Any] | None:
        parts = path.partition("?")[0].strip("/").split("/")
        if parts[:2] == ["schemas", "ids"]:
            return self.schemas.get(int(parts[2]))
        number = self.subjects.get(parts[1]) if parts[0] == "subjects" else None
        return {"id": number, **self.schemas[number]} if number is not None else None


@contextmanager
def registry() -> Iterator[Server]:
    """A registry that runs."""
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said = self.headers.get("Authorization", "")
            state.asked.append((self.path, said))
            body = state.answer(self.path)
            code = 401 if state.password and said != state.password else 404 if body is None else 200
            data = json.dumps(body if code == 200 else {"error_code": code}).encode()
            self.send_response(code)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
