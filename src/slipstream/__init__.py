"""Slipstream: a stream and trajectory system for moving vehicles, on Apache Spark.

    import slipstream as ss

    reports = ss.read("kafka://broker:9092/positions", columns={"id": "vin", "time": "ts"}, follow=True)
    tolled = reports.toll(rules="2004", lateness="2s")
    slow = reports.filter("speed < 20").window("time", size="1 minute", by="segment").agg(cars="count(*)")
    job = ss.Job("out").write(tolled).write(slow, name="slow").archive(reports).start()

The names in ``__all__`` are the public API: docs/python.md is the tutorial, docs/stability.md says what may change.
Everything else is internal. Names are imported when they are first used, so that importing the package is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from slipstream import functions, testing
    from slipstream.api.jobs import Job, RunningJob
    from slipstream.api.reports import REPORT
    from slipstream.api.results import JobStatus, Output, Results, Trips, open
    from slipstream.api.sources import from_dataframe, read
    from slipstream.api.streams import Kept, Stream, Tolled, Window
    from slipstream.cuboid.snapshot import Cuboid
    from slipstream.errors import BadArgument, BadInput, CheckFailed, SlipstreamError, Unavailable
    from slipstream.io.outputs.destinations import Destination
    from slipstream.io.user_sources import Source
    from slipstream.linear_road.rules import Rules
    from slipstream.moving import MovingPoint, Plane
    from slipstream.network.algebra import Network
    from slipstream.network.flow import Train
    from slipstream.network.operators import KeyedTable
    from slipstream.network.operators import Operator as Box

#: public name -> where it lives, and what it is called there
_PLACES = {
    "BadArgument": ("errors", "BadArgument"),
    "BadInput": ("errors", "BadInput"),
    "Box": ("network.operators", "Operator"),
    "CheckFailed": ("errors", "CheckFailed"),
    "Cuboid": ("cuboid.snapshot", "Cuboid"),
    "Destination": ("io.outputs.destinations", "Destination"),
    "Job": ("api.jobs", "Job"),
    "JobStatus": ("api.results", "JobStatus"),
    "Kept": ("api.streams", "Kept"),
    "KeyedTable": ("network.operators", "KeyedTable"),
    "MovingPoint": ("moving", "MovingPoint"),
    "Network": ("network.algebra", "Network"),
    "Output": ("api.results", "Output"),
    "Plane": ("moving", "Plane"),
    "REPORT": ("api.reports", "REPORT"),
    "Results": ("api.results", "Results"),
    "Rules": ("linear_road.rules", "Rules"),
    "RunningJob": ("api.jobs", "RunningJob"),
    "SlipstreamError": ("errors", "SlipstreamError"),
    "Source": ("io.user_sources", "Source"),
    "Stream": ("api.streams", "Stream"),
    "Tolled": ("api.streams", "Tolled"),
    "Train": ("network.flow", "Train"),
    "Trips": ("api.results", "Trips"),
    "Unavailable": ("errors", "Unavailable"),
    "Window": ("api.streams", "Window"),
    "from_dataframe": ("api.sources", "from_dataframe"),
    "open": ("api.results", "open"),
    "read": ("api.sources", "read"),
}

__all__ = [
    "REPORT",
    "BadArgument",
    "BadInput",
    "Box",
    "CheckFailed",
    "Cuboid",
    "Destination",
    "Job",
    "JobStatus",
    "Kept",
    "KeyedTable",
    "MovingPoint",
    "Network",
    "Output",
    "Plane",
    "Results",
    "Rules",
    "RunningJob",
    "SlipstreamError",
    "Source",
    "Stream",
    "Tolled",
    "Train",
    "Trips",
    "Unavailable",
    "Window",
    "from_dataframe",
    "functions",
    "open",
    "read",
    "testing",
]


def __getattr__(name: str) -> Any:
    if name in ("functions", "testing"):
        return import_module(f"slipstream.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'slipstream' has no attribute {name!r}")
    module, attribute = _PLACES[name]
    found = getattr(import_module(f"slipstream.{module}"), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
