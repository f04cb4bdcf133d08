"""Access control, applied to every request before anything else.

- The Host header must be an address that the console listens on, which prevents DNS rebinding.
- A request that changes something must come from our own page: its Origin must be ours and it must have the header
  ``X-Slipstream``, which a form or an image on another site cannot send.
- On addresses other than loopback, every request requires the token: once in the body of a login, after that in a
  cookie that scripts cannot read; or in an Authorization header. It is compared in constant time and never part of a
  URL.
- Bodies are limited in size and in the time to receive them; so are connections (``server.Protocol``).
- Every response forbids our pages to load anything from other sites or to be framed by them.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from slipstream._console.errors import respond
from slipstream._errors import BadArgument

COOKIE = "slipstream-session"
HEADER = "x-slipstream"
BODY_LIMIT = 1 << 20
#: routes that take files
FILE_LIMITS = {"/api/map/file": 64 << 20}
#: seconds to receive a whole body
BODY_SECONDS = 30.0
_SAFE = {"GET", "HEAD", "OPTIONS"}
#: allowed without a token: the page itself (it contains no data), signing in, and the health check
_OPEN_API = {"/api/session", "/healthz", "/readyz"}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:{tiles}; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
#: a site, and a path without anything that would end it in a header or a style sheet
_TILES = re.compile(r"(https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?)/[A-Za-z0-9{}._~/?=&%@+-]{1,300}")
SECURE_HEADERS = {
    "content-security-policy": _POLICY.format(tiles=""),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True)
class AccessRules:
    """Where the console listens, and the token it requires; none on loopback."""

    host: str = "127.0.0.1"
    port: int = 8321
    token: str = ""
    names: tuple[str, ...] = ()
    #: the address of map tiles on another site, as ``check_tiles`` returned it; empty: pages load nothing from others
    tiles: str = ""
    _salt: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    @property
    def hosts(self) -> set[str]:
        """The accepted Host headers."""
        names = {"localhost", "127.0.0.1", "[::1]", *self.names}
        if not is_loopback(self.host) and self.host not in ("0.0.0.0", "::"):
            names.add(self.host)
        return {f"{name}:{self.port}" for name in names} | (names if self.port == 80 else set())

    @property
    def session(self) -> str:
        """The value of the cookie: proof of the token, valid until the console exits."""
        return hmac.new(self._salt, self.token.encode(), hashlib.sha256).hexdigest()

    def accepts(self, token: str) -> bool:
        """Return whether the token is right, in constant time."""
        return hmac.compare_digest(token.encode(), self.token.encode())

    def knows(self, headers: Headers) -> bool:
        """Return whether a request has the token or a session."""
        if not self.token:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.accepts(given.strip()):
            return True
        return hmac.compare_digest(_cookie(headers).encode(), self.session.encode())


def check_tiles(address: str) -> str:
    """Return the address of map tiles; refuse one that is not, as its site becomes part of the pages' policy.

    >>> check_tiles("https://tiles.example.org/{z}/{x}/{y}.png")
    'https://tiles.example.org/{z}/{x}/{y}.png'
    """
    if not _TILES.fullmatch(address) or not all(part in address for part in ("{z}", "{x}", "{y}")):
        raise BadArgument(
            f"--tiles {address}: not the address of map tiles.",
            hint="Write it with {z}, {x} and {y}: https://tiles.example.org/{z}/{x}/{y}.png",
            code="bad-argument",
        )
    return address


def is_loopback(host: str) -> bool:
    """Return whether an address is a loopback address.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _cookie(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


class Guard:
    """The checks as ASGI middleware."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules
        site = _TILES.match(rules.tiles)
        policy = _POLICY.format(tiles=f" {site[1]}" if site else "")
        self._headers = {**SECURE_HEADERS, "content-security-policy": policy}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject a request, or pass it on with a limited body and secured headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if rejection := self._reject(scope, headers):
            await rejection(scope, receive, _add_headers(send, self._headers))
            return
        await self._app(scope, _limit_body(receive, _find_limit(scope)), _add_headers(send, self._headers))

    def _reject(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        if headers.get("host", "") not in self._rules.hosts:
            return _problem(421, "not-allowed", "Unknown host name.", "Use the address that the console printed.")
        if scope["method"] not in _SAFE and (why := self._find_foreign(headers)):
            return _problem(
                403,
                "not-allowed",
                why,
                f"Requests that change something require our Origin and the header {HEADER}: 1.",
            )
        length, limit = headers.get("content-length", "0"), _find_limit(scope)
        if not length.isdigit() or int(length) > limit:
            return _problem(413, "too-large", "The request is too large.", f"The limit is {limit:,} bytes.")
        if self._is_private(scope["path"]) and not self._rules.knows(headers):
            return _problem(
                401, "not-signed-in", "The console requires its token.", "It printed the token when it started."
            )
        return None

    def _find_foreign(self, headers: Headers) -> str:
        origin = headers.get("origin")
        if origin is not None and origin not in {f"http://{host}" for host in self._rules.hosts}:
            return "The request comes from another site."
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "The request comes from another site."
        if headers.get(HEADER) != "1":
            return f"The header {HEADER} is missing."
        return ""

    @staticmethod
    def _is_private(path: str) -> bool:
        return path not in _OPEN_API and (path.startswith("/api/") or path in ("/metrics", "/openapi.json"))


def _problem(status: int, code: str, message: str, hint: str) -> JSONResponse:
    return respond(status, BadArgument(message, hint=hint, code=code))


def _find_limit(scope: Scope) -> int:
    return FILE_LIMITS.get(scope["path"], BODY_LIMIT)


def _limit_body(receive: Receive, limit: int) -> Receive:
    taken, is_whole = 0, False
    deadline = time.monotonic() + BODY_SECONDS

    async def limited() -> Message:
        nonlocal taken, is_whole
        # after the body, the next message is the disconnect, which may take any time
        message = await receive() if is_whole else await _in_time(receive, deadline)
        taken += len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        if taken > limit:
            # the only kind of exception that FastAPI passes on while it reads a body
            raise HTTPException(413, "The request is too large")
        return message

    return limited


async def _in_time(receive: Receive, deadline: float) -> Message:
    try:
        return await asyncio.wait_for(receive(), deadline - time.monotonic())
    except TimeoutError as error:
        raise HTTPException(408, "The request took too long to arrive") from error


def _add_headers(send: Send, added: Mapping[str, str]) -> Send:
    async def secured(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in added.items():
                headers.setdefault(name, value)
        await send(message)

    return secured
