"""Methods of streams of positions: entering and leaving zones, being near places, the distance travelled.

The functions of the same names in :mod:`slipstream.functions` find the same in trips.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

from slipstream._api.trips.joins import parse_metres
from slipstream._network.boxes.movement.encounters import Convoys, MeetingPeriods
from slipstream._network.boxes.movement.fences import Arrivals, Dwelling, Entering, Near, Travelled
from slipstream._network.boxes.movement.in_order import InOrder
from slipstream._network.boxes.movement.stopping import Stopping
from slipstream._tools import durations

if TYPE_CHECKING:
    from slipstream._api.streaming.streams import Duration, Stream
    from slipstream._api.trips.joins import Distance
    from slipstream._network.boxes.movement.zones import Zone
    from slipstream._network.boxes.operators import Operator


class Fences(ABC):
    """Methods of streams that have an ``id``, a ``time`` and a position ``x``, ``y`` in columns of these names.

    Positions are in metres of a plane or, with ``degrees``, longitudes and latitudes of WGS84. Times are whole numbers;
    the tuples of an id must be in their order (:meth:`in_order`). Only the positions that arrive count, not the path
    between them.
    """

    @abstractmethod
    def _watch(self, box: Operator, port: str = "") -> Stream:
        """Send the stream through a box; returns one of its outputs."""

    def in_order(self, time: str, then: str, *, slack: int = 0) -> Stream:
        """Put tuples in the order of time, of equal times by ``then``; they may be ``slack`` late.

        ``output("rejects")`` has those that are later.

        >>> import slipstream as ss
        >>> cars = ss.read("kafka://broker:9092/positions", {"id": "bigint", "time": "bigint"})
        >>> cars.in_order("time", "id", slack=5).output("rejects").columns
        ['id', 'time']
        """
        return self._watch(InOrder(time, then, slack))

    def enters(
        self, zone: Zone, *, id: str = "id", time: str = "time", x: str = "x", y: str = "y", degrees: bool = False
    ) -> Stream:
        """Return the tuples at which an id enters a zone: it is inside, and was not at the tuple before.

        A zone is a polygon in WKT or GeoJSON, or the least x and y and the greatest x and y of a box.

        >>> import slipstream as ss
        >>> columns = {"id": "string", "time": "bigint", "x": "double", "y": "double"}
        >>> cars = ss.read("kafka://broker:9092/positions", columns)
        >>> cars.enters("POLYGON((0 0, 100 0, 100 100, 0 0))").columns
        ['id', 'time', 'x', 'y']
        """
        return self._watch(Entering(x, y, id, time, zone=zone, plane=not degrees))

    def leaves(
        self, zone: Zone, *, id: str = "id", time: str = "time", x: str = "x", y: str = "y", degrees: bool = False
    ) -> Stream:
        """Return the tuples at which an id has left a zone: it is outside, and was inside at the tuple before.

        >>> import slipstream as ss
        >>> columns = {"id": "string", "time": "bigint", "x": "double", "y": "double"}
        >>> ss.read("kafka://broker:9092/positions", columns).leaves((0, 0, 100, 100)).columns
        ['id', 'time', 'x', 'y']
        """
        return self._watch(Entering(x, y, id, time, zone=zone, plane=not degrees), "left")

    def dwells(
        self,
        zone: Zone,
        least: int,
        *,
        id: str = "id",
        time: str = "time",
        x: str = "x",
        y: str = "y",
        degrees: bool = False,
    ) -> Stream:
        """Return the tuples at which an id has been in a zone for ``least`` since it entered, one for each stay.

        >>> import slipstream as ss
        >>> columns = {"id": "string", "time": "bigint", "x": "double", "y": "double"}
        >>> ss.read("kafka://broker:9092/positions", columns).dwells((0, 0, 100, 100), 300).columns
        ['id', 'time', 'x', 'y']
        """
        return self._watch(Dwelling(x, y, id, time, zone=zone, least=least, plane=not degrees))

    def stops(
        self, metres: float, least: int, *, id: str = "id", time: str = "time", x: str = "x", y: str = "y"
    ) -> Stream:
        """Return the tuples at which an id has stayed within ``metres`` for ``least``, and ``since`` when.

        ``output("ended")`` has the first tuples after stops, and ``until`` when each lasted. Positions are in metres.

        >>> import slipstream as ss
        >>> columns = {"id": "string", "time": "bigint", "x": "double", "y": "double"}
        >>> ss.read("kafka://broker:9092/positions", columns).stops(20, 300).columns
        ['id', 'time', 'x', 'y', 'since']
        """
        return self._watch(Stopping(x, y, id, time, metres=float(metres), least=least, plane=True))

    def meetings(
        self,
        distance: Distance,
        *,
        duration: Duration = 0,
        gap: Duration = 300,
        id: str = "id",
        time: str = "time",
        x: str = "x",
        y: str = "y",
    ) -> Stream:
        """Return the meetings of ids: times without a break during which two are within ``distance`` of each other.

        A meeting is told when it has lasted for ``duration``. ``output("ended")`` has meetings that are over, with the
        smallest distance, when ``gap`` has passed: a longer silence ends a trip. Positions are in metres and times in
        seconds, and all of them in order (:meth:`in_order`). :func:`slipstream.meetings` finds the same in trips.

        >>> import slipstream as ss
        >>> columns = {"id": "string", "time": "bigint", "x": "double", "y": "double"}
        >>> met = ss.read("kafka://broker:9092/positions", columns).meetings("50 m", duration="1 minute")
        >>> met.columns, met.output("ended").columns[2:]
        (['id', 'other_id', 'begin', 'time'], ['begin', 'end', 'nearest', 'nearest_at'])
        """
        least, silence = float(durations.seconds(duration, "duration")), float(durations.seconds(gap, "gap"))
        return self._watch(MeetingPeriods(id, time, x, y, parse_metres(distance), silence, least))

    def convoys(
        self,
        distance: Distance,
        *,
        duration: Duration,
        size: int = 2,
        gap: Duration = 300,
        id: str = "id",
        time: str = "time",
        x: str = "x",
        y: str = "y",
    ) -> Stream:
        """Return who travels together: at least ``size`` ids that stay connected for ``duration`` without a break.

        Two ids are connected while they are within ``distance`` of each other. A convoy is a tuple for each of its ids,
        told ``gap`` after it has lasted long enough, when all positions of that time are known; ``output("ended")`` has
        those that are over. Positions are in metres and times in seconds, and all of them in order (:meth:`in_order`).
        :func:`slipstream.convoys` finds the same in trips.

        >>> import slipstream as ss
        >>> columns = {"id": "string", "time": "bigint", "x": "double", "y": "double"}
        >>> cars = ss.read("kafka://broker:9092/positions", columns)
        >>> cars.convoys("50 m", duration="10 minutes", size=3).output("ended").columns
        ['convoy', 'id', 'begin', 'end']
        """
        least, silence = float(durations.seconds(duration, "duration")), float(durations.seconds(gap, "gap"))
        return self._watch(Convoys(id, time, x, y, parse_metres(distance), silence, least, size))

    def arrives(
        self,
        places: Iterable[tuple[float, float, float, float]],
        *,
        id: str = "id",
        time: str = "time",
        x: str = "x",
        y: str = "y",
        degrees: bool = False,
    ) -> Stream:
        """Return when ids are first near places, each (number, x, y, metres).

        >>> import slipstream as ss
        >>> columns = {"id": "string", "time": "bigint", "x": "double", "y": "double"}
        >>> ss.read("kafka://broker:9092/positions", columns).arrives([(1, 600, 0, 50)]).columns
        ['id', 'place', 'time']
        """
        points = tuple((float(n), float(at_x), float(at_y), float(metres)) for n, at_x, at_y, metres in places)
        return self._watch(Arrivals(x, y, id, time, points=points, column="place", plane=not degrees))

    def travelled(
        self,
        column: str = "metres",
        *,
        id: str = "id",
        time: str = "time",
        x: str = "x",
        y: str = "y",
        degrees: bool = False,
    ) -> Stream:
        """Add how far each id has travelled so far, in metres.

        >>> import slipstream as ss
        >>> columns = {"id": "string", "time": "bigint", "x": "double", "y": "double"}
        >>> ss.read("kafka://broker:9092/positions", columns).travelled().columns
        ['id', 'time', 'x', 'y', 'metres']
        """
        return self._watch(Travelled(x, y, id, time, column=column, plane=not degrees))

    def near(
        self,
        place: tuple[float, float],
        metres: float,
        column: str = "near",
        *,
        x: str = "x",
        y: str = "y",
        degrees: bool = False,
    ) -> Stream:
        """Add whether each position is at most ``metres`` from a place.

        >>> import slipstream as ss
        >>> columns = {"id": "string", "time": "bigint", "x": "double", "y": "double"}
        >>> ss.read("kafka://broker:9092/positions", columns).near((600, 0), 50).schema["near"]
        'boolean'
        """
        return self._watch(Near(x, y, place, metres, column, plane=not degrees))
