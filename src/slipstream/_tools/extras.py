"""Packages that only some users need: which extra installs each, and the error if it is missing.

A small installation reads files, sockets and runs, and has the toll engine, networks, cuboids and trajectories.
Brokers, the console and formats of others are extras, so that the machines of a cluster install what they run.
"""

from __future__ import annotations

from importlib.util import find_spec

from slipstream._errors import Unavailable

#: the modules that each extra brings; pyproject.toml has their versions
EXTRAS: dict[str, tuple[str, ...]] = {
    "s3": ("obstore",),
    "hdfs": ("hdfs_native",),
    "kafka": ("confluent_kafka", "fastavro"),
    "console": ("fastapi", "starlette", "uvicorn", "h11", "prometheus_client"),
    "metrics": ("prometheus_client",),
    "otel": ("prometheus_client", "opentelemetry.exporter.otlp.proto.http"),
    "osm": ("osmium",),
    "gis": ("geopandas", "movingpandas"),
    "gtfs": ("google.transit",),
    "meos": ("pymeos",),
    "bench": ("psycopg",),
}


def require(extra: str, purpose: str) -> None:
    """Check that an extra is installed, before anything expensive is started.

    >>> require("osm", "OpenStreetMap files")
    """
    for module in EXTRAS[extra]:
        if not _is_installed(module):
            raise _refuse_missing(module, extra, purpose)


def explain_import(error: ImportError) -> Unavailable | None:
    """Say which extra brings a module that could not be imported; None if it is not of an extra.

    >>> explain_import(ModuleNotFoundError("No module named 'osmium'", name="osmium")).hint
    "Install it with: pip install 'slipstream[osm]' (in a clone: pip install '.[osm]')."
    """
    missing = error.name or ""
    for extra, modules in EXTRAS.items():
        for module in modules:
            if missing == module or missing.startswith(f"{module}."):
                return _refuse_missing(module, extra, "This")
    return None


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def _refuse_missing(module: str, extra: str, purpose: str) -> Unavailable:
    return Unavailable(
        f"{purpose} requires {module}, which is not installed.",
        hint=f"Install it with: pip install 'slipstream[{extra}]' (in a clone: pip install '.[{extra}]').",
        code="missing-software",
        found=None,
        expected=[module],
    )
