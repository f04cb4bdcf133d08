"""The API of the Jobs page."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field

from slipstream._console.errors import ERROR_RESPONSES, RequestBody
from slipstream._console.overview import Action, JobDetail, JobEntry, Jobs
from slipstream._console.pages.network import Tuples

router = APIRouter(prefix="/api/jobs", tags=["jobs"], responses=ERROR_RESPONSES)

Name = Annotated[str, Query(min_length=1, max_length=300)]


class JobAction(RequestBody):
    """An action on a running job."""

    job: str = Field(min_length=1, max_length=300)
    want: Action


def _jobs(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


@router.get("")
def list_jobs(request: Request) -> list[JobEntry]:
    """Return the jobs of the workspace, running ones first."""
    return _jobs(request).entries()


@router.get("/job")
def detail(request: Request, job: Name) -> JobDetail:
    """Return a job: its state, what it has committed, its outputs."""
    return _jobs(request).detail(job)


@router.get("/rows")
def rows(request: Request, job: Name, output: Name, last: Annotated[int, Query(ge=1, le=1000)] = 50) -> Tuples:
    """Return the newest rows of an output, newest last."""
    found = _jobs(request).rows(job, output, last)
    names = list(found[0]) if found else []
    return Tuples(columns=names, rows=[[row[key] for key in names] for row in found])


@router.post("/want")
def want(request: Request, wanted: JobAction) -> JobDetail:
    """Pause, resume, step or stop a job, as `slipstream job` does."""
    return _jobs(request).act(wanted.job, wanted.want)
