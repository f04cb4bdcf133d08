"""The API of the Ask page."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from slipstream._console.ask.asking import AskedResult, AskedTable, Asking
from slipstream._console.errors import ERROR_RESPONSES, RequestBody, refusing

router = APIRouter(prefix="/api/ask", tags=["ask"], responses=ERROR_RESPONSES)

Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,40}$", description="Chosen by the page, to cancel the query by.")]


class AskedQuery(RequestBody):
    """A query of a job's outputs or cuboids."""

    job: str = Field(min_length=1, max_length=300)
    sql: str = Field(min_length=1, max_length=10_000)
    id: Id


class CancelQuery(RequestBody):
    """Cancel a query."""

    id: Id


class Cancelled(BaseModel):
    """The query ends soon."""

    id: str


def _asking(request: Request) -> Asking:
    asking: Asking = request.app.state.asking
    return asking


@router.get("/tables")
def tables(request: Request, job: Annotated[str, Query(min_length=1, max_length=300)]) -> list[AskedTable]:
    """Return the tables of a job that a query may read: outputs and cuboids."""
    return _asking(request).tables(job)


@router.post("/query")
def query(request: Request, given: AskedQuery) -> AskedResult:
    """Run a read-only query; the result has at most 1000 rows."""
    with refusing("The query cannot be run"):
        return _asking(request).ask(given.job, given.sql, given.id)


@router.post("/cancel")
def cancel(request: Request, given: CancelQuery) -> Cancelled:
    """Cancel a query that is running."""
    _asking(request).cancel(given.id)
    return Cancelled(id=given.id)
