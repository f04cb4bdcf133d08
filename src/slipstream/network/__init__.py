"""The stream algebra: networks of boxes over streams of moving things, after Aurora (VLDB Journal 12, 2003).

A network is data (``algebra``), checked before it runs (``schemas``), compiled to one Structured Streaming query
(``compiler``) whose order-sensitive boxes run as vectorised kernels (``kernels``) over Spark's state store (``stage``).

Stands on ``feeds`` and what is below it; knows nothing of tolls or trajectories.
"""

from __future__ import annotations

from slipstream.network.algebra import (
    TUP,
    Aggregate,
    BSort,
    Builder,
    Filter,
    Join,
    Map,
    Network,
    Order,
    Resample,
    Stream,
    Union,
)
from slipstream.network.functions import ScalarFunction, WindowFunction, register

__all__ = [
    "TUP",
    "Aggregate",
    "BSort",
    "Builder",
    "Filter",
    "Join",
    "Map",
    "Network",
    "Order",
    "Resample",
    "ScalarFunction",
    "Stream",
    "Union",
    "WindowFunction",
    "register",
]
