"""A job sends its metrics to a collector: a real endpoint that speaks OTLP over HTTP, in this process."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from runtime.test_exporter import exported, free_port
from slipstream._errors import BadArgument
from slipstream._runtime.watching import otlp
from slipstream._runtime.watching.exporter import Where, export_to
from slipstream._runtime.watching.status import RUNNING

service = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(otlp, "_EVERY_S", 0.1)
    yield
    export_to(None)


@contextmanager
def collector(port: int) -> Iterator[list[Any]]:
    """An endpoint that takes metrics as a collector does; yields the requests."""
    came: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            body = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
            is_metrics = (self.path, self.headers["content-type"]) == ("/v1/metrics", "application/x-protobuf")
            if is_metrics:
                came.append(service.ExportMetricsServiceRequest.FromString(body))
            self.send_response(200 if is_metrics else 400)
            self.send_header("content-type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(service.ExportMetricsServiceResponse().SerializeToString())

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield came
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def by_name(request: Any) -> dict[str, Any]:
    (resource,) = request.resource_metrics
    (scope,) = resource.scope_metrics
    return {metric.name: metric for metric in scope.metrics}


def labels(point: Any) -> dict[str, str]:
    return {one.key: one.value.string_value for one in point.attributes}


def test_a_collector_gets_the_metrics_of_a_job(tmp_path: Path) -> None:
    port = free_port()
    with collector(port) as came:
        with exported(tmp_path, f"otlp:http://127.0.0.1:{port}") as current:
            wait_for(lambda: came)
            current.enter(RUNNING)
            before = len(came)
        assert len(came) > before, "the last values are sent at the end"
    attributes = {one.key: one.value.string_value for one in came[0].resource_metrics[0].resource.attributes}
    assert (attributes["service.name"], attributes["service.instance.id"]) == ("slipstream", "tolls")
    metrics = by_name(came[-1])
    batches = metrics["slipstream_job_batches"].sum
    assert (batches.is_monotonic, batches.aggregation_temporality, batches.data_points[0].as_double) == (True, 2, 2)
    assert batches.data_points[0].start_time_unix_nano <= batches.data_points[0].time_unix_nano
    lag = metrics["slipstream_job_lag_seconds"]
    assert (lag.unit, lag.gauge.data_points[0].as_double) == ("s", 7)
    assert labels(lag.gauge.data_points[0]) == {"job_name": "tolls", "kind": "toll"}
    states = {labels(one)["state"]: one.as_double for one in metrics["slipstream_job_state"].gauge.data_points}
    assert states["running"] == 1
    assert metrics["slipstream_job_stage_seconds"].gauge.data_points[0].as_double == 0.15


def test_a_collector_that_does_not_answer_stops_nothing_and_is_told_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "_TIMEOUT_S", 0.2)
    port = free_port()
    with exported(tmp_path, f"otlp:http://127.0.0.1:{port}/"):
        time.sleep(1)
        with collector(port) as came:
            wait_for(lambda: came)
    said = capsys.readouterr().err
    assert said.count("does not take metrics") >= 1
    assert "takes metrics again" in said
    assert "Traceback" not in said


def test_another_path_is_kept() -> None:
    assert Where.parse("otlp:https://a.example:4318/x/v1/metrics").collector == "https://a.example:4318/x/v1/metrics"


@pytest.mark.parametrize("text", ["otlp:", "otlp:127.0.0.1:4318", "otlp:ftp://a", "otlp:http://", "otlp:http://a b"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadArgument, match="not the address of a collector"):
        Where.parse(text)
