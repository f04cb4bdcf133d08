"""Metrics of a job, from the job itself: over HTTP or as a file for Prometheus, or to an OpenTelemetry collector.

A job that is started with ``--metrics`` serves ``/metrics``, ``/healthz`` and ``/readyz`` on a port, writes a file
that is replaced as a whole, or sends what ``/metrics`` has to a collector. It reads what it has committed itself, so
that a watcher of its folder sees the same.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

from slipstream import __version__
from slipstream._errors import BadArgument, SlipstreamError, Unavailable, classify
from slipstream._runtime.watching import otlp, status
from slipstream._runtime.watching.following import FollowedJob
from slipstream._runtime.watching.health import Health, judge
from slipstream._runtime.watching.starts import Start, read_starts
from slipstream._tools.extras import require
from slipstream._tools.files.staging import atomic_write
from slipstream._tools.processes.background import Ended, background_task
from slipstream._tools.progress import say

if TYPE_CHECKING:
    from prometheus_client.core import Metric

#: seconds between two writes of a file
_EVERY = 5.0
_STATES = (status.STARTING, status.READY, status.RUNNING, status.STOPPED)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Where:
    """Where metrics go: an address to serve them at, a file, or a collector."""

    host: str = ""
    port: int = 0
    file: Path | None = None
    collector: str = ""

    @classmethod
    def parse(cls, text: str) -> Where:
        """Read ``--metrics``: a port, an address, a file whose name ends in ``.prom``, or ``otlp:URL``.

        >>> Where.parse("9105").host, Where.parse("0.0.0.0:9105").port, Where.parse("tolls.prom").file.name
        ('127.0.0.1', 9105, 'tolls.prom')
        """
        if text.startswith(otlp.PREFIX):
            return cls(collector=otlp.parse_collector(text))
        if text.endswith(".prom"):
            return cls(file=Path(text))
        found = re.fullmatch(r"(?:([\w.-]+|\[[\da-fA-F:]+\]):)?(\d{1,5})", text)
        if not found or int(found[2]) > 65_535:
            raise BadArgument(
                f"--metrics {text}: neither a port nor a file.",
                hint="Give 9105, 0.0.0.0:9105, a file such as metrics/tolls.prom, or otlp:http://HOST:4318.",
                code="malformed-value",
                found=text,
            )
        return cls((found[1] or "127.0.0.1").strip("[]"), int(found[2]))


_wanted: Where | None = None


def export_to(where: Where | None) -> None:
    """Set where jobs of this process export their metrics; None for nowhere."""
    global _wanted  # noqa: PLW0603  (a process runs one command)
    _wanted = where


@dataclass(frozen=True)
class Observed:
    """A job at one moment."""

    name: str
    kind: str
    state: str
    pace: float
    job: FollowedJob
    starts: Sequence[Start] = ()

    @property
    def health(self) -> Health:
        """Its health over the last minute."""
        runs = self.state in (status.READY, status.RUNNING)
        limits = self.job.limits if runs else {}
        return judge(self.job.timed(self.pace), limits, self.pace, time.time() if runs else None)


def collect(observed: Observed) -> Iterator[Metric]:
    """Return the metrics of a job. What is not known is left out."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    job, labels, values = observed.job, ["job_name", "kind"], [observed.name, observed.kind]

    def gauge(name: str, about: str, value: float | None) -> Iterator[Metric]:
        if value is not None:
            made = GaugeMetricFamily(f"slipstream_job_{name}", about, labels=labels)
            made.add_metric(values, value)
            yield made

    def counter(name: str, about: str, value: float) -> Iterator[Metric]:
        made = CounterMetricFamily(f"slipstream_job_{name}", about, labels=labels)
        made.add_metric(values, value)
        yield made

    info = GaugeMetricFamily(
        "slipstream_job_info", "1, with the version that runs the job", labels=[*labels, "version"]
    )
    info.add_metric([*values, __version__], 1)
    yield info
    states = GaugeMetricFamily("slipstream_job_state", "1 for the state that the job is in", labels=[*labels, "state"])
    for state in dict.fromkeys((*_STATES, observed.state)):
        states.add_metric([*values, state], int(state == observed.state))
    yield states
    starts, costs = observed.starts, job.costs()
    last, cost = (job.recent[-1] if job.recent else None), (costs[max(costs)] if costs else None)
    yield from counter("starts", "Starts of the job", len(starts))
    yield from gauge("last_start_timestamp_seconds", "When the job was last started", starts[-1].at if starts else None)
    yield from counter("batches", "Committed batches", job.batches)
    yield from counter("tuples", "Accepted input", job.counts["tuples"])
    yield from counter("rejects", "Rejected input", job.counts["rejects"])
    yield from gauge(
        "last_commit_timestamp_seconds", "When a batch was last committed", last.committed_ms / 1000 if last else None
    )
    yield from gauge(
        "commit_seconds", "From trigger to commit, of the last batch", cost.commit_ms / 1000 if cost else None
    )
    yield from gauge("state_bytes", "What the job remembers between batches", cost.state_bytes if cost else None)
    yield from _collect_health(observed.health, gauge)
    rows = CounterMetricFamily("slipstream_job_rows", "Committed rows of an output", labels=[*labels, "output"])
    for output, count in job.rows.items():
        rows.add_metric([*values, output], count)
    yield rows
    yield from _collect_responses(observed, [*labels, "result"], values)
    stages = GaugeMetricFamily(
        "slipstream_job_stage_seconds", "Time in a stage, over the tasks of the last batch", labels=[*labels, "stage"]
    )
    for stage, ms in (cost.stages_ms if cost else {}).items():
        stages.add_metric([*values, stage], ms / 1000)
    yield stages


def _collect_health(health: Health, gauge: Callable[[str, str, float | None], Iterator[Metric]]) -> Iterator[Metric]:
    yield from gauge("rate", "Tuples per second, over the last minute", health.rate)
    yield from gauge("busy_ratio", "Share of the time spent on batches, over the last minute", health.busy)
    yield from gauge("lag_seconds", "Longest response time in the last batch, if input arrives by a clock", health.lag)
    yield from gauge("behind", "1 if results are later than their limits, or later and later", int(health.is_behind))


def _collect_responses(observed: Observed, labels: list[str], values: list[str]) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    response = GaugeMetricFamily(
        "slipstream_job_response_seconds",
        "From arrival to commit: the longest in a batch, as the median of recent batches",
        labels=labels,
    )
    longest = GaugeMetricFamily(
        "slipstream_job_longest_response_seconds",
        "From arrival to commit: the longest of the last minute",
        labels=labels,
    )
    limit = GaugeMetricFamily("slipstream_job_response_limit_seconds", "The limit, where one applies", labels=labels)
    for one in observed.health.responses:
        response.add_metric([*values, one.name], one.typical)
        longest.add_metric([*values, one.name], one.longest)
        if one.limit is not None:
            limit.add_metric([*values, one.name], one.limit)
    yield from (response, longest, limit)


def encode(observed: list[Observed]) -> bytes:
    """Return the metrics of jobs in Prometheus' text format; each metric once, with the samples of all jobs."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import generate_latest

    registry = CollectorRegistry(auto_describe=False)
    registry.register(JobCollector(observed))
    return bytes(generate_latest(registry))


class JobCollector:
    """Collects the metrics of several jobs."""

    def __init__(self, observed: list[Observed]) -> None:
        self._observed = observed

    def collect(self) -> Iterator[Metric]:
        """Return each metric with the samples of all jobs."""
        merged: dict[str, Metric] = {}
        for metric in (metric for one in self._observed for metric in collect(one)):
            merged.setdefault(metric.name, metric).samples.extend(
                () if merged[metric.name] is metric else metric.samples
            )
        return iter(merged.values())


@contextmanager
def exporting(folder: Path, kind: str, job: FollowedJob, current: status.Status, pace: float) -> Iterator[None]:
    """Export the metrics of a job while the block runs, if the command asked for it."""
    where = _wanted
    if where is None:
        yield
        return
    require("otel" if where.collector else "metrics", "--metrics")
    lock, name = threading.Lock(), folder.absolute().name

    def observe() -> Observed:
        with suppress(SlipstreamError):  # a damaged journal ends the job with an error of its own
            job.read()
        return Observed(name, kind, current.state, pace, job, read_starts(folder))

    def read() -> bytes:
        with lock:
            return encode([observe()])

    def read_metrics() -> list[Metric]:
        with lock:
            return list(collect(observe()))

    with ExitStack() as stack:
        if where.collector:
            stack.enter_context(otlp.sending(where.collector, name, read_metrics))
        elif where.file is not None:
            stack.enter_context(_writing(where.file, read))
        else:
            stack.enter_context(_serving(where, read, current))
        yield


@contextmanager
def _writing(file: Path, read: Callable[[], bytes]) -> Iterator[None]:
    def write() -> None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(file) as out:
                out.write(read())
        except OSError as error:
            raise Unavailable(
                f"--metrics {file}: {error.strerror or error}.",
                hint="Give a file that can be written.",
                code=classify(error),
            ) from error

    def repeat(ended: Ended) -> None:
        while not ended.wait(_EVERY):
            with suppress(Unavailable):  # a full disk must not end a job that could go on
                write()

    write()
    try:
        with background_task(repeat):
            yield
    finally:
        with suppress(Unavailable):
            write()


@contextmanager
def _serving(where: Where, read: Callable[[], bytes], current: status.Status) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"
        timeout = 10.0

        def do_GET(self) -> None:
            code, body = self._answer(self.path.partition("?")[0])
            self.send_response(code)
            self.send_header("content-type", CONTENT_TYPE)
            self.send_header("content-length", str(len(body)))
            self.send_header("x-content-type-options", "nosniff")
            self.end_headers()
            self.wfile.write(body)

        def _answer(self, path: str) -> tuple[int, bytes]:
            if not _is_known_host(self.headers.get("host", ""), where):
                return 421, b"unknown host name\n"
            if path == "/metrics":
                return 200, read()
            if path == "/healthz":
                return 200, b"ok\n"
            if path == "/readyz":
                is_ready = current.state in (status.READY, status.RUNNING)
                return (200 if is_ready else 503), f"{current.state}\n".encode()
            return 404, b"/metrics, /healthz or /readyz\n"

        def log_message(self, *_: object) -> None:
            """Log nothing: a scrape every few seconds is no news."""

    try:
        server = ThreadingHTTPServer((where.host, where.port), Handler)
    except OSError as error:
        raise Unavailable(
            f"--metrics {where.host}:{where.port}: {error.strerror}.",
            hint="Give another port.",
            code="port-unavailable",
        ) from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    host = f"[{where.host}]" if ":" in where.host else where.host
    say(f"Metrics are at http://{host}:{server.server_address[1]}/metrics")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _is_known_host(host: str, where: Where) -> bool:
    """Whether a request on loopback names this machine, so that no other site can make a name of its own point here."""
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    return where.host not in ("127.0.0.1", "localhost", "::1") or name in ("127.0.0.1", "localhost", "[::1]", "")
