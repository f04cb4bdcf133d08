"""The way in for consoles that want a token."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from slipstream._console.guard import COOKIE, Rules
from slipstream._console.problems import PROBLEMS, Problem, Wish

router = APIRouter(prefix="/api/session", tags=["session"], responses=PROBLEMS)


class Login(Wish):
    """The token that was printed when the console started."""

    token: str = Field(max_length=1000)


class Session(BaseModel):
    """Whether the page may ask for data."""

    open: bool


@router.get("")
def session(request: Request) -> Session:
    """Whether this browser is let in."""
    rules: Rules = request.app.state.rules
    return Session(open=rules.knows(request.headers))


@router.post("", response_model=Session)
def login(request: Request, given: Login) -> Response:
    """Give the token; a cookie that scripts cannot read remembers it."""
    rules: Rules = request.app.state.rules
    if rules.token and not rules.accepts(given.token):
        problem = Problem(message="That is not the token.", hint="It was printed when the console started.")
        return JSONResponse(problem.model_dump(), status_code=401)
    answer = JSONResponse(Session(open=True).model_dump())
    if rules.token:
        answer.set_cookie(COOKIE, rules.session, httponly=True, samesite="strict", path="/")
    return answer
