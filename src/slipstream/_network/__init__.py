"""The stream algebra: networks of boxes over streams of moving things, after Aurora (VLDB Journal 12, 2003).

A network is data (``algebra``) that is checked before it runs (``schemas``) and compiled to one Structured Streaming
query (``planning.compiler``). Boxes run in few stateful operators (``planning.stages``, ``tasks.superbox``):
expressions over columns (``sql.vector``), order-sensitive boxes as vectorised kernels (``boxes.kernels``).
"""

from __future__ import annotations

from slipstream._network.algebra import (
    TUP,
    Aggregate,
    BSort,
    Builder,
    Filter,
    Join,
    Latest,
    Map,
    Network,
    NetworkStream,
    Order,
    Resample,
    Running,
    Union,
)
from slipstream._network.box_functions import ScalarFunction, VectorFunction, WindowFunction, register
from slipstream._network.boxes.cuboids import CuboidLookup, CuboidQuery, Keep
from slipstream._network.boxes.movement.match import Match
from slipstream._network.boxes.operators import KeyedTable, Operator, require
from slipstream._network.boxes.windows.window_functions import Windows
from slipstream._network.flow import Train

__all__ = [
    "TUP",
    "Aggregate",
    "BSort",
    "Builder",
    "CuboidLookup",
    "CuboidQuery",
    "Filter",
    "Join",
    "Keep",
    "KeyedTable",
    "Latest",
    "Map",
    "Match",
    "Network",
    "NetworkStream",
    "Operator",
    "Order",
    "Resample",
    "Running",
    "ScalarFunction",
    "Train",
    "Union",
    "VectorFunction",
    "WindowFunction",
    "Windows",
    "register",
    "require",
]
