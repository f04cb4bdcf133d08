"""The console as one application, and the server that runs it."""

from __future__ import annotations

import asyncio
import html
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from fastapi.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from uvicorn.protocols.http.h11_impl import H11Protocol

from slipstream import __version__
from slipstream._console import health, problems, sign_in
from slipstream._console.guard import Guard, Rules
from slipstream._console.live.live_city import City
from slipstream._console.networks.network_runner import Works
from slipstream._console.overview import Jobs
from slipstream._console.pages import city, jobs, network, trajectories
from slipstream._console.workspace import Workspace

PAGES = ("/", "/city", "/network", "/trajectories", "/jobs")

_NO_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Slipstream</title>
<body style="font: 16px/1.5 sans-serif; max-width: 40em; margin: 4em auto">
<h1>This installation has no page</h1>
<p>The server runs, but its page was not built when Slipstream was installed. {advice}</p>
<p>Everything else works without it: <a href="/openapi.json">the interface</a>, <a href="/metrics">metrics</a>,
and all commands of <code>slipstream</code>.</p></body></html>"""
_IN_A_CLONE = "Install Node 18 or newer (Debian, Ubuntu: apt-get install nodejs npm), then run {script}"
_INSTALLED = (
    "Wheels of Slipstream include it unless they were built with SLIPSTREAM_WITHOUT_PAGE=1: build yours again without "
    "that, where Node 18 or newer is installed (pip wheel --no-deps CLONE), and install it with pip."
)


def static() -> Path:
    """Where the built page lies."""
    return Path(str(files("slipstream._console").joinpath("static")))


def page_advice(root: Path = Path(__file__).parents[3]) -> str:
    """How to get the page where it is missing: in a clone at ``root``, or installed from a wheel."""
    script = root / "scripts" / "console.sh"
    return _IN_A_CLONE.format(script=script) if script.is_file() else _INSTALLED


def create(workspace: Workspace | Path, rules: Rules, master: str) -> FastAPI:
    """The application over a workspace, or over one folder."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        watcher = threading.Thread(target=app.state.city.watch, daemon=True)
        watcher.start()
        yield
        app.state.city.close()
        app.state.works.close()
        watcher.join()

    app = FastAPI(
        title="Slipstream console",
        version=__version__,
        description="The live city, networks, trajectories and jobs.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    workspace = Workspace.over([workspace]) if isinstance(workspace, Path) else workspace
    app.state.city = City(workspace, master)
    app.state.works = Works(app.state.city.workspace, master)
    app.state.jobs = Jobs(app.state.city.workspace)
    app.state.library = trajectories.Library()
    app.state.rules = rules
    for page in (sign_in, city, network, trajectories, jobs, health):
        app.include_router(page.router)
    problems.add_to(app)
    _serve_page(app, static())
    app.add_middleware(Guard, rules=rules)
    return app


def _serve_page(app: FastAPI, built: Path) -> None:
    """The page at its addresses; its files carry their digest in their names and may be kept for ever."""
    index = built / "index.html"

    def page() -> Response:
        if not index.is_file():
            return HTMLResponse(_NO_PAGE.format(advice=html.escape(page_advice())))
        return FileResponse(index, headers={"cache-control": "no-cache"})

    for path in PAGES:
        app.add_api_route(path, page, include_in_schema=False, response_class=Response)
    if built.is_dir():
        app.mount("/assets", StaticFiles(directory=built / "assets"))
        icon = built / "icon.svg"
        app.add_api_route("/icon.svg", lambda: FileResponse(icon), include_in_schema=False, response_class=Response)


class Server(uvicorn.Server):
    """Tells the streams to end before it waits for them to."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ctrl-C, or another signal to end."""
        app: Any = self.config.app
        app.state.city.closed.set()
        super().handle_exit(sig, frame)


class Protocol(H11Protocol):
    """HTTP with bounds: so many connections, and so much time for the head of a request to come."""

    most_connections = 200
    head_seconds = 10.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, unless too many wait already."""
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            transport.close()
        else:
            self._watch_head()

    def data_received(self, data: bytes) -> None:
        """Read on."""
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more will come."""
        super().connection_lost(exc)
        self._forget()

    def _watch_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._forget()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _forget(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def config(app: FastAPI, host: str, port: int, log_level: str = "critical") -> uvicorn.Config:
    """How the console is served."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=Protocol,
        log_level=log_level,
        timeout_graceful_shutdown=2,
        server_header=False,
    )


def serve(app: FastAPI, host: str, port: int) -> None:
    """Run until Ctrl-C."""
    Server(config(app, host, port)).run()
