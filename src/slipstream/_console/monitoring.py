"""Monitoring: the health check, and metrics in Prometheus format."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector
from pydantic import BaseModel

from slipstream import __version__
from slipstream._console.errors import ERROR_RESPONSES
from slipstream._console.jobs.overview import Jobs
from slipstream._console.live.live_city import CityState, LiveCity
from slipstream._console.pages.city_page import get_city
from slipstream._errors import Unavailable
from slipstream._runtime.watching.exporter import JobCollector

router = APIRouter(tags=["monitor"], responses=ERROR_RESPONSES)


class HealthCheck(BaseModel):
    """The console is running."""

    status: Literal["ok"] = "ok"
    version: str = __version__
    engine: str = ""


@router.get("/healthz")
def healthz(request: Request) -> HealthCheck:
    """Return whether the console is running, and the status of its engine."""
    return HealthCheck(engine=get_city(request).state.status)


@router.get("/readyz")
def readyz(request: Request) -> HealthCheck:
    """Return whether the console can show something: its folders must be readable."""
    city = get_city(request)
    for root in city.workspace.roots:
        if not os.access(root, os.R_OK | os.X_OK):
            raise Unavailable(
                f"{root.name}: cannot be read.",
                hint="Mount it, or start the console with another folder.",
                code="not-ready",
            )
    return HealthCheck(engine=city.state.status)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(request: Request) -> Response:
    """Return metrics for Prometheus: of all jobs of the workspace, and of the stream on display."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(StreamCollector(get_city(request)))
    jobs: Jobs = request.app.state.jobs
    registry.register(JobCollector(jobs.observe()))
    return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})


class StreamCollector(Collector):
    """Collects metrics of the result on display."""

    def __init__(self, city: LiveCity) -> None:
        self._city = city

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics."""
        state = self._city.state
        yield GaugeMetricFamily(
            "slipstream_engine_up", "Whether an engine of the console is running", int(self._city.engine_runs)
        )
        yield from _gauges(state)
        yield from _collect_by_kind(state)


def _gauges(state: CityState) -> Iterator[Metric]:
    health = state.health
    for name, what, value in (
        ("committed_second", "Newest second of the run with answers", state.committed),
        ("cars", "Cars on the road at the displayed second", state.cars),
        ("accidents", "Accidents with alerts", len(state.accidents)),
        ("arrival_rate", "Tuples per second of the run, over the last minute", health.arrival_rate),
        ("commit_seconds", "Mean time to commit a batch, over the last minute", health.commit),
        ("query_time_capacity_seconds", "Mean time left per batch for queries, over the last minute", health.capacity),
        ("stable", "Whether commits take less than the time between batches", health.stable),
        ("lag_seconds", "Time from the end of a second to its answers", health.lag),
    ):
        if value is not None:
            yield GaugeMetricFamily(f"slipstream_{name}", what, float(value))


def _collect_by_kind(state: CityState) -> Iterator[Metric]:
    answers = CounterMetricFamily("slipstream_answers", "Number of answers", labels=["kind"])
    response = GaugeMetricFamily(
        "slipstream_response_seconds", "Response times over the last minute", labels=["kind", "quantile"]
    )
    limit = GaugeMetricFamily(
        "slipstream_response_limit_seconds", "Response time limits of the benchmark", labels=["kind"]
    )
    for kind in state.health.kinds:
        answers.add_metric([kind.kind], kind.answers)
        limit.add_metric([kind.kind], kind.limit)
        if kind.recent:
            for quantile, value in (("0.5", kind.recent.p50), ("0.99", kind.recent.p99), ("1", kind.recent.most)):
                response.add_metric([kind.kind, quantile], value)
    yield from (answers, response, limit)
