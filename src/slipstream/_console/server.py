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
from slipstream._console import monitoring, sign_in
from slipstream._console.ask.asking import Asking
from slipstream._console.errors import add_error_handlers
from slipstream._console.guard import AccessRules, Guard
from slipstream._console.jobs.overview import Jobs
from slipstream._console.live.event_feed import EventFeed
from slipstream._console.live.live_city import LiveCity
from slipstream._console.moving_features import feature_routes
from slipstream._console.networks.network_runner import NetworkRunner
from slipstream._console.pages import ask_page, city_page, jobs_page, map_page, network_page, trajectories_page
from slipstream._console.shared_answers import SharedAnswers
from slipstream._console.workspace import Workspace

PAGES = ("/", "/city", "/network", "/trajectories", "/jobs", "/ask", "/map")

_NO_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Slipstream</title>
<body style="font: 16px/1.5 sans-serif; max-width: 40em; margin: 4em auto">
<h1>The console page is not installed</h1>
<p>The server is running, but the page was not built when Slipstream was installed. {advice}</p>
<p>Everything else works without it: <a href="/openapi.json">the API</a>, <a href="/metrics">metrics</a>,
and all <code>slipstream</code> commands.</p></body></html>"""
_IN_A_CLONE = "Install Node 18 or newer (Debian, Ubuntu: apt-get install nodejs npm), then run {script}"
_INSTALLED = (
    "Slipstream wheels include it unless built with SLIPSTREAM_WITHOUT_PAGE=1: rebuild yours without that setting on a "
    "machine with Node 18 or newer (pip wheel --no-deps CLONE), and install it with pip."
)


def static() -> Path:
    """Return the folder of the built page."""
    return Path(str(files("slipstream._console").joinpath("static")))


def page_advice(root: Path = Path(__file__).parents[3]) -> str:
    """Explain how to build a missing page: in a clone at ``root``, or installed from a wheel."""
    script = root / "scripts" / "console.sh"
    return _IN_A_CLONE.format(script=script) if script.is_file() else _INSTALLED


def create(workspace: Workspace | Path, rules: AccessRules, master: str) -> FastAPI:
    """Create the application for a workspace, or for one folder."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        watcher = threading.Thread(target=app.state.city.watch, daemon=True)
        watcher.start()
        yield
        app.state.city.close()
        app.state.runner.close()
        app.state.jobs.launcher.close()
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
    app.state.city = LiveCity(workspace, master)
    app.state.events = EventFeed(app.state.city)
    app.state.answers = SharedAnswers()
    app.state.runner = NetworkRunner(app.state.city.workspace, master)
    app.state.jobs = Jobs(app.state.city.workspace, master)
    app.state.asking = Asking(app.state.city.workspace, app.state.runner.spark)
    app.state.library = trajectories_page.Library()
    app.state.rules = rules
    for page in (sign_in, jobs_page, city_page, network_page, trajectories_page, ask_page, map_page, monitoring):
        app.include_router(page.router)
    app.include_router(feature_routes.router)
    add_error_handlers(app)
    _serve_page(app, static())
    app.add_middleware(Guard, rules=rules)
    return app


def _serve_page(app: FastAPI, built: Path) -> None:
    """Serve the page; its files have a digest in their names, so browsers may cache them indefinitely."""
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
    """Ends the event streams before it waits for them."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle Ctrl-C or another signal to exit."""
        app: Any = self.config.app
        app.state.city.closed.set()
        super().handle_exit(sig, frame)


class Protocol(H11Protocol):
    """HTTP with limits on connections, and on the time to receive the head of a request."""

    most_connections = 200
    head_seconds = 10.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request, unless there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > self.most_connections:
            transport.close()
        else:
            self._watch_head()

    def data_received(self, data: bytes) -> None:
        """Process received data."""
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up after a closed connection."""
        super().connection_lost(exc)
        self._cancel_timer()

    def _watch_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._cancel_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def config(app: FastAPI, host: str, port: int, log_level: str = "critical") -> uvicorn.Config:
    """Return the server configuration."""
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
