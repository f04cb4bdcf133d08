"""Sign in to a console that requires a token."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from slipstream._console.errors import ERROR_RESPONSES, RequestBody, respond
from slipstream._console.guard import COOKIE, AccessRules
from slipstream._errors import BadArgument

router = APIRouter(prefix="/api/session", tags=["session"], responses=ERROR_RESPONSES)


class Login(RequestBody):
    """The token that was printed when the console started."""

    token: str = Field(max_length=1000)


class Session(BaseModel):
    """Whether the page may request data."""

    open: bool


@router.get("")
def session(request: Request) -> Session:
    """Return whether this browser is signed in."""
    rules: AccessRules = request.app.state.rules
    return Session(open=rules.knows(request.headers))


@router.post("", response_model=Session)
def login(request: Request, given: Login) -> Response:
    """Sign in with the token; a cookie that scripts cannot read keeps the session."""
    rules: AccessRules = request.app.state.rules
    if rules.token and not rules.accepts(given.token):
        wrong = BadArgument("Wrong token.", hint="The console printed it when it started.", code="not-signed-in")
        return respond(401, wrong)
    answer = JSONResponse(Session(open=True).model_dump())
    if rules.token:
        answer.set_cookie(COOKIE, rules.session, httponly=True, samesite="strict", path="/")
    return answer
