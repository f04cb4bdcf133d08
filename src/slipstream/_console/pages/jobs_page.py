"""The API of the Jobs page."""

from __future__ import annotations

import shlex
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field, TypeAdapter

from slipstream._console.errors import ERROR_RESPONSES, RequestBody, refusing
from slipstream._console.jobs.overview import Action, JobDetail, JobEntry, Jobs
from slipstream._console.jobs.specification import (
    JobSpecification,
    choose_folder,
    list_inputs,
    make_command,
    read_specification,
)
from slipstream._console.networks import network_files
from slipstream._console.pages.network_page import NewestTuples
from slipstream._console.shared_answers import get_answers, respond_once
from slipstream._console.workspace import Workspace

router = APIRouter(prefix="/api/jobs", tags=["jobs"], responses=ERROR_RESPONSES)

Name = Annotated[str, Query(min_length=1, max_length=300)]
_ENTRIES, _DETAIL, _ROWS = TypeAdapter(list[JobEntry]), TypeAdapter(JobDetail), TypeAdapter(NewestTuples)


class JobAction(RequestBody):
    """An action on a running job."""

    job: str = Field(min_length=1, max_length=300)
    want: Action


class ResumeJob(RequestBody):
    """Resume a job that has stopped or failed."""

    job: str = Field(min_length=1, max_length=300)


class JobYaml(RequestBody):
    """A job as YAML."""

    text: str = Field(max_length=20_000)


class StartedJob(BaseModel):
    """A job that is starting, and the command that does the same."""

    name: str
    command: str


class JobChoices(BaseModel):
    """What a new job can read and run."""

    inputs: list[str]
    networks: list[str]
    folder: str = Field(description="Where new jobs go; empty if there is no such folder.")


class JobLog(BaseModel):
    """The end of a job's log."""

    text: str


def _jobs(request: Request) -> Jobs:
    jobs: Jobs = request.app.state.jobs
    return jobs


def _workspace(request: Request) -> Workspace:
    workspace: Workspace = request.app.state.city.workspace
    return workspace


@router.get("", response_model=list[JobEntry])
def list_jobs(request: Request) -> Response:
    """Return the jobs of the workspace, running ones first."""
    return respond_once(request, _ENTRIES, ("jobs",), _jobs(request).entries)


@router.get("/job", response_model=JobDetail)
def detail(request: Request, job: Name) -> Response:
    """Return a job: its state, its health, what it has committed, its outputs."""
    return respond_once(request, _DETAIL, ("job", job), lambda: _jobs(request).detail(job))


@router.get("/rows", response_model=NewestTuples)
def rows(request: Request, job: Name, output: Name, last: Annotated[int, Query(ge=1, le=1000)] = 50) -> Response:
    """Return the newest rows of an output, newest last."""

    def read() -> NewestTuples:
        found = _jobs(request).rows(job, output, last)
        names = list(found[0]) if found else []
        return NewestTuples(columns=names, rows=[[row[key] for key in names] for row in found])

    return respond_once(request, _ROWS, ("rows", job, output, last), read)


@router.get("/log")
def log(request: Request, job: Name, last: Annotated[int, Query(ge=1, le=1_000_000)] = 65_536) -> JobLog:
    """Return the end of a job's log."""
    return JobLog(text=_jobs(request).log(job, last))


@router.get("/choices")
def choices(request: Request) -> JobChoices:
    """Return what a new job can read and run."""
    workspace = _workspace(request)
    home = workspace.home
    return JobChoices(
        inputs=sorted(list_inputs(workspace)),
        networks=sorted(network_files.networks(workspace)),
        folder=(workspace.name(home) if home != workspace.base else ".") if home else "",
    )


@router.post("/read")
def read(given: JobYaml) -> JobSpecification:
    """Return a job that is written as YAML, for the form."""
    with refusing("The job cannot be read"):
        return read_specification(given.text)


@router.post("/start")
def start(request: Request, wanted: JobSpecification) -> StartedJob:
    """Start a job in a new folder."""
    workspace = _workspace(request)
    with refusing("The job cannot be started"):
        name, out = choose_folder(wanted, workspace)
        arguments = make_command(wanted, out, workspace)
    _jobs(request).launcher.start(name, wanted.job, out, arguments)
    get_answers(request).forget()
    shown = [_jobs(request).show_word(word) for word in arguments]
    return StartedJob(name=name, command=shlex.join(["slipstream", *shown]))


@router.post("/resume")
def resume(request: Request, wanted: ResumeJob) -> JobDetail:
    """Resume a job that has stopped or failed, with the command that started it."""
    get_answers(request).forget()
    return _jobs(request).resume(wanted.job)


@router.post("/want")
def want(request: Request, wanted: JobAction) -> JobDetail:
    """Pause, resume, step or stop a job, as `slipstream job` does."""
    get_answers(request).forget()
    return _jobs(request).act(wanted.job, wanted.want)
