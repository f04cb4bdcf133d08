"""Slipstream: a stream and trajectory system for moving vehicles, on Apache Spark.

    import slipstream as ss

    reports = ss.read("kafka://broker:9092/positions", columns={"id": "vin", "time": "ts"}, follow=True)
    tolled = reports.toll(rules="2004", lateness="2s")
    slow = reports.filter("speed < 20").window("time", size="1 minute", by="segment").agg(cars="count(*)")
    job = ss.Job("out").write(tolled).write(slow, name="slow").archive(reports).start()

    trips = ss.trajectories("gps.csv", id="vin", time="ts", gap="5 minutes", max_speed="200 km/h")

The names in ``__all__`` are the public API; everything else is internal. docs/tutorials/python.md is its tutorial, and
docs/stability.md says what may change. Names are imported when they are first used, so importing the package is quick.
"""

from __future__ import annotations

# Checkers of types take this name for true; importing `typing` for it would be most of the time that the import takes.
TYPE_CHECKING = False

__version__ = "0.1.0"

if TYPE_CHECKING:
    from typing import Any

    from slipstream import functions, testing, udf
    from slipstream._api.streaming.jobs import Job, RunningJob
    from slipstream._api.streaming.reports import REPORT
    from slipstream._api.streaming.results import JobStatus, Output, Results, open
    from slipstream._api.streaming.sources import from_dataframe, read, table
    from slipstream._api.streaming.streams import Kept, Published, Stream, Table, Tolled, Window
    from slipstream._api.trips.joins import convoys, meetings, near, passes
    from slipstream._api.trips.roads import Roads
    from slipstream._api.trips.trajectories import trajectories
    from slipstream._api.trips.trips import Trips
    from slipstream._cuboid.snapshots.snapshot import Cuboid
    from slipstream._errors import BadArgument, BadInput, CheckFailed, SlipstreamError, Unavailable
    from slipstream._io.outputs.destinations import Destination
    from slipstream._io.readers.user_sources import Source
    from slipstream._linear_road.general import RoadSettings, SegmentMinute
    from slipstream._linear_road.rules import Rules
    from slipstream._moving import MovingPoint, Plane
    from slipstream._network.algebra import Network
    from slipstream._network.boxes.operators import KeyedTable
    from slipstream._network.boxes.operators import Operator as Box
    from slipstream._network.flow import Train

#: public modules
_MODULES = ("functions", "testing", "udf")
#: public name -> where it lives, and what it is called there
_PLACES = {
    "BadArgument": ("_errors", "BadArgument"),
    "BadInput": ("_errors", "BadInput"),
    "Box": ("_network.boxes.operators", "Operator"),
    "CheckFailed": ("_errors", "CheckFailed"),
    "Cuboid": ("_cuboid.snapshots.snapshot", "Cuboid"),
    "Destination": ("_io.outputs.destinations", "Destination"),
    "Job": ("_api.streaming.jobs", "Job"),
    "JobStatus": ("_api.streaming.results", "JobStatus"),
    "Kept": ("_api.streaming.streams", "Kept"),
    "KeyedTable": ("_network.boxes.operators", "KeyedTable"),
    "MovingPoint": ("_moving", "MovingPoint"),
    "Network": ("_network.algebra", "Network"),
    "Output": ("_api.streaming.results", "Output"),
    "Plane": ("_moving", "Plane"),
    "Published": ("_api.streaming.streams", "Published"),
    "REPORT": ("_api.streaming.reports", "REPORT"),
    "Results": ("_api.streaming.results", "Results"),
    "RoadSettings": ("_linear_road.general", "RoadSettings"),
    "Roads": ("_api.trips.roads", "Roads"),
    "Rules": ("_linear_road.rules", "Rules"),
    "RunningJob": ("_api.streaming.jobs", "RunningJob"),
    "SegmentMinute": ("_linear_road.general", "SegmentMinute"),
    "SlipstreamError": ("_errors", "SlipstreamError"),
    "Source": ("_io.readers.user_sources", "Source"),
    "Stream": ("_api.streaming.streams", "Stream"),
    "Table": ("_api.streaming.streams", "Table"),
    "Tolled": ("_api.streaming.streams", "Tolled"),
    "Train": ("_network.flow", "Train"),
    "Trips": ("_api.trips.trips", "Trips"),
    "Unavailable": ("_errors", "Unavailable"),
    "Window": ("_api.streaming.streams", "Window"),
    "convoys": ("_api.trips.joins", "convoys"),
    "from_dataframe": ("_api.streaming.sources", "from_dataframe"),
    "meetings": ("_api.trips.joins", "meetings"),
    "near": ("_api.trips.joins", "near"),
    "open": ("_api.streaming.results", "open"),
    "passes": ("_api.trips.joins", "passes"),
    "read": ("_api.streaming.sources", "read"),
    "table": ("_api.streaming.sources", "table"),
    "trajectories": ("_api.trips.trajectories", "trajectories"),
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
    "Published",
    "Results",
    "RoadSettings",
    "Roads",
    "Rules",
    "RunningJob",
    "SegmentMinute",
    "SlipstreamError",
    "Source",
    "Stream",
    "Table",
    "Tolled",
    "Train",
    "Trips",
    "Unavailable",
    "Window",
    "convoys",
    "from_dataframe",
    "functions",
    "meetings",
    "near",
    "open",
    "passes",
    "read",
    "table",
    "testing",
    "trajectories",
    "udf",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"slipstream.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'slipstream' has no attribute {name!r}")
    module, attribute = _PLACES[name]
    found = getattr(import_module(f"slipstream.{module}"), attribute)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
