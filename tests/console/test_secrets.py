"""Neither the token nor the session cookie is ever logged."""

from __future__ import annotations

import logging
from pathlib import Path

import httpx2
import pytest

from console.conftest import OURS
from console.serving import served

TOKEN = "a-token-for-the-wall-0123456789"


@pytest.fixture
def listening(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """Hears the server's own loggers, which keep to themselves."""
    for name in ("uvicorn", "uvicorn.access", "uvicorn.error"):
        logging.getLogger(name).addHandler(caplog.handler)
    return caplog


def test_neither_token_nor_cookie_is_logged(
    listening: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with served(tmp_path, TOKEN, log_level="trace") as address, httpx2.Client(base_url=address) as browser:
        assert browser.post("/api/session", json={"token": f"{TOKEN}x"}, headers=OURS).status_code == 401
        opened = browser.post("/api/session", json={"token": TOKEN}, headers=OURS)
        assert opened.status_code == 200
        cookie = next(iter(browser.cookies.values()))
        assert browser.get("/api/city/choices").status_code == 200
        assert httpx2.get(f"{address}/healthz", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    heard = listening.text + "".join(capfd.readouterr())
    assert "/api/session" in heard  # it does log
    assert TOKEN not in heard
    assert cookie not in heard
    assert not any(TOKEN.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
