"""The interface of the Jobs page."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field

from slipstream._console.overview import Detail, Entry, Jobs, Want
from slipstream._console.pages.network import Tuples
from slipstream._console.problems import PROBLEMS, Wish

router = APIRouter(prefix="/api/jobs", tags=["jobs"], responses=PROBLEMS)

Name = Annotated[str, Query(min_length=1, max_length=300)]


class Steer(Wish):
    """What a job that is at work should do."""

    job: str = Field(min_length=1, max_length=300)
    want: Want


def _jobs(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


@router.get("")
def listed(request: Request) -> list[Entry]:
    """The jobs of the workspace, those at work first."""
    return _jobs(request).listed()


@router.get("/job")
def detail(request: Request, job: Name) -> Detail:
    """A job: its state, what it has committed, its outputs."""
    return _jobs(request).detail(job)


@router.get("/rows")
def rows(request: Request, job: Name, output: Name, last: Annotated[int, Query(ge=1, le=1000)] = 50) -> Tuples:
    """The newest rows of an output, the newest last."""
    found = _jobs(request).rows(job, output, last)
    names = list(found[0]) if found else []
    return Tuples(columns=names, rows=[[row[key] for key in names] for row in found])


@router.post("/want")
def want(request: Request, wanted: Steer) -> Detail:
    """Pause, resume, step or stop a job, as `slipstream job` does."""
    return _jobs(request).want(wanted.job, wanted.want)
