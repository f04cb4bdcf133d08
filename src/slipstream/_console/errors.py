"""Errors as HTTP responses: the same message and hint that the command line prints."""

from __future__ import annotations

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


class Conflict(BadArgument):
    """409: the request conflicts with the current state."""


class RequestBody(BaseModel):
    """The body of a request, validated strictly: no extra fields, no conversions."""

    model_config = ConfigDict(strict=True, extra="forbid")


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


#: an integer in JSON, where 3.0 is one
Whole = Annotated[int, BeforeValidator(_whole)]


class Problem(BaseModel):
    """What is wrong, and what to do."""

    message: str
    hint: str = ""


#: status codes; the first match counts
_CODES: tuple[tuple[type[SlipstreamError], int], ...] = (
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


def add_error_handlers(app: FastAPI) -> None:
    """Return every error of the application as a ``Problem``."""
    app.add_exception_handler(SlipstreamError, _handle_slipstream_error)
    app.add_exception_handler(RequestValidationError, _handle_invalid_request)
    app.add_exception_handler(HTTPException, _handle_http_error)


async def _handle_slipstream_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SlipstreamError)
    code = next((code for kind, code in _CODES if isinstance(error, kind)), 400)
    return _respond(code, error.message, error.hint)


async def _handle_invalid_request(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    details = [f"{'.'.join(str(part) for part in each['loc'][1:]) or 'body'}: {each['msg']}" for each in error.errors()]
    return _respond(422, "; ".join(details) + ".", "The API is described at /openapi.json.")


async def _handle_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    headers = {"allow": ", ".join(_allowed_methods(request))} if error.status_code == 405 else error.headers
    body = Problem(message=f"{error.detail}.").model_dump()
    return JSONResponse(body, status_code=error.status_code, headers=headers)


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of all routes at an address."""
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE]
    return sorted({method for route in routes for method in getattr(route, "methods", None) or ()})


def _respond(code: int, message: str, hint: str) -> JSONResponse:
    return JSONResponse(Problem(message=message, hint=hint).model_dump(), status_code=code)
