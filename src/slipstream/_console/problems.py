"""Errors as the page gets them: the same message and hint that the command line prints."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict
from starlette.exceptions import HTTPException
from starlette.routing import Match

from slipstream._console.refusals import NotNow, NotThere
from slipstream._errors import BadArgument, BadInput, SlipstreamError, Unavailable


class Wish(BaseModel):
    """A body that the page sends: exactly what is described, nothing taken for something like it."""

    model_config = ConfigDict(strict=True, extra="forbid")


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


#: an integer as JSON knows it: 3.0 is one
Whole = Annotated[int, BeforeValidator(_whole)]


class Problem(BaseModel):
    """What was wrong, and what to do."""

    message: str
    hint: str = ""


#: the first that fits counts
_CODES: tuple[tuple[type[SlipstreamError], int], ...] = (
    (NotThere, 404),
    (NotNow, 409),
    (BadArgument, 400),
    (BadInput, 422),
    (Unavailable, 503),
)

#: what any route may answer besides its result; give it to every router
PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": why}
    for code, why in (
        (400, "It cannot be done as asked."),
        (401, "The token is missing."),
        (403, "The request comes from another site."),
        (404, "There is no such thing."),
        (408, "The request took too long to come."),
        (409, "It cannot be done now."),
        (413, "The request is too large."),
        (421, "The name is not the console's."),
        (422, "A field is missing or out of range, or a file cannot be used."),
        (503, "Something the machine lacks."),
    )
}


def add_to(app: FastAPI) -> None:
    """Make every error of the application a problem."""
    app.add_exception_handler(SlipstreamError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


async def _ours(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SlipstreamError)
    code = next((code for kind, code in _CODES if isinstance(error, kind)), 400)
    return _answer(code, error.message, error.hint)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    said = [f"{'.'.join(str(part) for part in each['loc'][1:]) or 'body'}: {each['msg']}" for each in error.errors()]
    return _answer(422, "; ".join(said) + ".", "The interface is described at /openapi.json.")


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    headers = {"allow": ", ".join(_allowed(request))} if error.status_code == 405 else error.headers
    body = Problem(message=f"{error.detail}.").model_dump()
    return JSONResponse(body, status_code=error.status_code, headers=headers)


def _allowed(request: Request) -> list[str]:
    """What may be done at an address, whichever routes it is spread over."""
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] != Match.NONE]
    return sorted({method for route in routes for method in getattr(route, "methods", None) or ()})


def _answer(code: int, message: str, hint: str) -> JSONResponse:
    return JSONResponse(Problem(message=message, hint=hint).model_dump(), status_code=code)
