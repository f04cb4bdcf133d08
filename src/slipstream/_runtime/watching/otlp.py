"""Metrics of a job to an OpenTelemetry collector: OTLP over HTTP, every few seconds, with the names of Prometheus.

The metrics are those that ``/metrics`` has. Counters become cumulative sums since the start of the process that counts
for OpenTelemetry as their beginning, gauges remain gauges; the job and the version are attributes of the resource too.
A collector that does not answer never stops a job: what it missed is lost, the next export has the current values.
Headers, certificates and compression are set by OpenTelemetry's own variables, OTEL_EXPORTER_OTLP_HEADERS and others.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from slipstream import __version__
from slipstream._errors import BadArgument
from slipstream._tools.processes.background import Ended, background_task
from slipstream._tools.progress import say

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import Metric as OtelMetric
    from opentelemetry.sdk.metrics.export import MetricsData
    from prometheus_client.core import Metric

PREFIX = "otlp:"
#: seconds between two exports, and until a collector that does not answer is given up for this time
_EVERY_S, _TIMEOUT_S = 10.0, 5.0
_PATH = "/v1/metrics"


def parse_collector(text: str) -> str:
    """Return the address to which metrics are posted.

    >>> parse_collector("otlp:http://127.0.0.1:4318")
    'http://127.0.0.1:4318/v1/metrics'
    """
    address = text.removeprefix(PREFIX)
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not re.fullmatch(r"[\w.:\[\]-]+", parts.netloc):
        raise BadArgument(
            f"--metrics {text}: not the address of a collector.",
            hint="Give otlp:http://HOST:4318; headers go into OTEL_EXPORTER_OTLP_HEADERS.",
            code="malformed-value",
            found=text,
        )
    return address if parts.path not in ("", "/") else address.rstrip("/") + _PATH


def convert(metrics: Iterable[Metric], job: str, start_ns: int, now_ns: int) -> MetricsData:
    """Return Prometheus' metrics of a job as OpenTelemetry's; those without samples are left out."""
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    made = [_convert_one(metric, start_ns, now_ns) for metric in metrics if metric.samples]
    resource = Resource.create(
        {"service.name": "slipstream", "service.version": __version__, "service.instance.id": job}
    )
    scope = InstrumentationScope("slipstream", __version__)
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(scope, made, "")], "")])


def _convert_one(metric: Metric, start_ns: int, now_ns: int) -> OtelMetric:
    from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, NumberDataPoint, Sum
    from opentelemetry.sdk.metrics.export import Metric as OtelMetric

    counts = metric.type == "counter"
    points = [
        NumberDataPoint(dict(one.labels), start_ns if counts else 0, now_ns, float(one.value)) for one in metric.samples
    ]
    data = Sum(points, AggregationTemporality.CUMULATIVE, True) if counts else Gauge(points)
    return OtelMetric(metric.name, metric.documentation, _find_unit(metric.name), data)


def _find_unit(name: str) -> str:
    """Return the unit in a name, as UCUM writes it."""
    return {"seconds": "s", "bytes": "By", "ratio": "1"}.get(name.rpartition("_")[2], "")


@contextmanager
def sending(address: str, job: str, read: Callable[[], Iterable[Metric]]) -> Iterator[None]:
    """Export the metrics of a job while the block runs, and once more at its end."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics.export import MetricExportResult

    # what goes wrong is said once, below, and not for every attempt
    logging.getLogger("opentelemetry.exporter.otlp").setLevel(logging.CRITICAL)
    exporter = OTLPMetricExporter(endpoint=address, timeout=_TIMEOUT_S)
    began, failed = time.time_ns(), False

    def send() -> None:
        nonlocal failed
        result = exporter.export(convert(read(), job, began, time.time_ns()), timeout_millis=_TIMEOUT_S * 1000)
        if (result is not MetricExportResult.SUCCESS) != failed:
            failed = not failed
            say(f"[yellow]note:[/] --metrics: {address} {'does not take metrics' if failed else 'takes metrics again'}")

    def repeat(ended: Ended) -> None:
        send()
        while not ended.wait(_EVERY_S):
            send()

    try:
        with background_task(repeat):
            yield
    finally:
        send()
        exporter.shutdown()
