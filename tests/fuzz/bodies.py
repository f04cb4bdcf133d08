"""The console's interface: bodies that a page, or something that pretends to be one, sends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml
from fastapi.testclient import TestClient

from fuzz.campaign import ACCEPTED, Reader
from fuzz.queries import NETWORKS, without_spark
from slipstream._console.guard import AccessRules
from slipstream._console.networks.network_runner import NetworkRunner
from slipstream._console.server import create
from slipstream._errors import BadInput

DOCUMENT = yaml.safe_load((NETWORKS / "border.yaml").read_text().replace("{on:", "{'on':").replace(" on:", " 'on':"))

#: a body that each route takes
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/api/session"): {"token": "secret"},
    ("POST", "/api/city/start"): {"run": "city", "speed": 1.0, "rules": "2004"},
    ("POST", "/api/city/resume"): {"speed": 2.5},
    ("POST", "/api/city/open"): {"result": "tolled"},
    ("POST", "/api/city/look"): {"follow": False, "second": 30, "playing": True, "speed": 2.0},
    ("PUT", "/api/network/file"): {"file": "border.yaml", "document": DOCUMENT, "replace": True},
    ("POST", "/api/network/write"): {"document": DOCUMENT},
    ("POST", "/api/network/read"): {"text": (NETWORKS / "border.yaml").read_text()},
    ("POST", "/api/network/check"): {"document": DOCUMENT},
    ("POST", "/api/network/run/start"): {
        "document": DOCUMENT,
        "inputs": {"soldiers": "x.csv"},
        "rate": 5.0,
        "train": 9,
    },
    ("POST", "/api/network/preview"): {"source": "x.csv", "last": 3},
    ("POST", "/api/network/run/step"): {"trains": 2},
    ("POST", "/api/jobs/want"): {"job": "tolled", "want": "pause"},
    ("POST", "/api/jobs/resume"): {"job": "tolled"},
    ("POST", "/api/jobs/read"): {"text": "job: toll\ninputs: {input: x.csv}\n"},
    ("POST", "/api/jobs/start"): {"job": "toll", "out": "new", "inputs": {"input": "x.csv"}, "columns": ["vid=id"]},
    ("POST", "/api/ask/query"): {"job": "tolled", "sql": "select vid from alerts", "id": "a-1"},
    ("POST", "/api/ask/cancel"): {"id": "a-1"},
    ("POST", "/api/map/file"): {},
    ("PUT", "/api/network/run/shed"): {"shares": {"over": 0.5}},
    ("POST", "/api/trajectories/who"): {"data": "x", "region": [[0, 0], [1, 0], [1, 1]], "begin": 0, "end": 9.5},
}


def _read(page: TestClient, method: str, path: str) -> Callable[[bytes], str]:
    def read(data: bytes) -> str:
        answer = page.request(method, path, content=data, headers={"content-type": "application/json"})
        body = answer.json()
        if answer.status_code == 200:
            return ACCEPTED
        assert 400 <= answer.status_code < 500, f"{answer.status_code} {answer.text[:200]}"
        assert body["message"], "an error that says nothing"
        raise BadInput(body["message"], hint=body.get("hint") or "none: a code of HTTP")

    return read


@contextmanager
def readers(workspace: Path) -> Iterator[list[Reader]]:
    """The routes of a console over a workspace without runs and recordings, so that no body starts an engine."""
    workspace.mkdir(exist_ok=True)
    with ExitStack() as stack:
        stack.enter_context(patch.object(NetworkRunner, "spark", lambda self: None))
        stack.enter_context(without_spark())
        app = create(workspace, AccessRules(token="secret"), "local[1]")
        headers = {"x-slipstream": "1", "authorization": "Bearer secret"}
        page = stack.enter_context(TestClient(app, base_url="http://127.0.0.1:8321", headers=headers))
        yield [
            Reader(
                f"{method} {path.removeprefix('/api')}",
                "json",
                [json.dumps(body).encode()],
                _read(page, method, path),
                0.5,
            )
            for (method, path), body in BODIES.items()
        ]
