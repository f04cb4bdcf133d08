"""Errors as HTTP responses, with the same data that commands print with ``--json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict
from starlette.exceptions import HTTPException
from starlette.routing import Match

from slipstream._errors import BadArgument, BadInput, SlipstreamError, Unavailable


class NotFound(BadArgument):
    """404: the request names something that does not exist."""

    usual_code = "unknown-name"


class Conflict(BadArgument):
    """409: the request conflicts with the current state."""

    usual_code = "conflict"


class RequestBody(BaseModel):
    """The body of a request, validated strictly: no extra fields, no conversions."""

    model_config = ConfigDict(strict=True, extra="forbid")


def _shorten_number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


#: an integer in JSON, where 3.0 is one
Whole = Annotated[int, BeforeValidator(_shorten_number)]


class Problem(BaseModel):
    """What is wrong, where, and what to do; ``place``, ``found`` and ``expected`` are given if known."""

    code: str
    message: str
    hint: str = ""
    kind: str = ""
    place: dict[str, str | int] | None = None
    found: Any = None
    expected: Any = None


#: HTTP status codes; the first match counts
_STATUSES: tuple[tuple[type[SlipstreamError], int], ...] = (
    (NotFound, 404),
    (Conflict, 409),
    (BadArgument, 400),
    (BadInput, 422),
    (Unavailable, 503),
)

#: the error responses of every route; pass it to every router
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": why}
    for code, why in (
        (400, "The request is invalid."),
        (401, "The token is missing."),
        (403, "The request comes from another site."),
        (404, "The requested object does not exist."),
        (408, "The request took too long to arrive."),
        (409, "The request conflicts with the current state."),
        (413, "The request is too large."),
        (421, "The host name is unknown."),
        (422, "A field is missing or out of range, or a file cannot be used."),
        (503, "A required service or resource is unavailable."),
    )
}


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Report as a conflict what is well-formed, as the API describes it, but cannot be used."""
    try:
        yield
    except (NotFound, Conflict):
        raise
    except (BadInput, BadArgument) as error:
        raise error.within(what, Conflict) from error


def add_error_handlers(app: FastAPI) -> None:
    """Return every error of the application as a ``Problem``."""
    app.add_exception_handler(SlipstreamError, _handle_slipstream_error)
    app.add_exception_handler(RequestValidationError, _handle_invalid_request)
    app.add_exception_handler(HTTPException, _handle_http_error)


async def _handle_slipstream_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SlipstreamError)
    return respond(next((status for kind, status in _STATUSES if isinstance(error, kind)), 400), error)


async def _handle_invalid_request(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    fields = [".".join(str(part) for part in each["loc"][1:]) or "body" for each in error.errors()]
    details = [f"{field}: {each['msg']}" for field, each in zip(fields, error.errors(), strict=True)]
    problem = BadArgument(
        "; ".join(details) + ".", hint="The API is described at /openapi.json.", code="bad-request", found=fields
    )
    return respond(422, problem)


async def _handle_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    headers = {"allow": ", ".join(_allowed_methods(request))} if error.status_code == 405 else error.headers
    return respond(error.status_code, BadArgument(f"{error.detail}.", code="bad-request"), headers)


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of all routes at an address."""
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE]
    return sorted({method for route in routes for method in getattr(route, "methods", None) or ()})


def respond(status: int, error: SlipstreamError, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return an error as a response."""
    return JSONResponse(error.to_json(), status_code=status, headers=headers)
