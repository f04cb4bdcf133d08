"""The city from an engine's snapshot: for feeds other than recorded runs, whose reports cannot be read again.

All data come from the snapshot of the engine's cuboids, so only the newest second is available.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slipstream._console.errors import NotFound
from slipstream._console.live.live_roads import SegmentTraffic
from slipstream._console.live.notices import MinuteNotices
from slipstream._console.live.vehicles import PlottedMinute, Report, VehicleDetail
from slipstream._cuboid.snapshots.snapshot import Snapshot
from slipstream._feeds.tuples import MILE, REPORT_EVERY, SEGMENTS
from slipstream._linear_road.state.cars import CELLS
from slipstream._tools.numba_tools import Longs


class PublishedCity:
    """The cuboids of an engine's folder, as of the last refresh."""

    def __init__(self, out: Path) -> None:
        self._snapshot = Snapshot.open(out, refresh=False)
        self.xways: list[int] = []

    def refresh(self, batch: int) -> None:
        """Read the state as of a committed batch."""
        self._snapshot.refresh(batch)
        self.xways = np.unique(self._snapshot["segment"].scan(["xway"])["xway"]).tolist()

    def traffic(self, second: int) -> SegmentTraffic:
        """Return cars and speeds from each car's last report in the last 30 seconds."""
        cars = self._snapshot["car"].scan(["time", "xway", "dir", "pos", "speed"])
        here = (cars["time"] > second - REPORT_EVERY) & np.isin(cars["xway"], self.xways)
        cell = self._cell(cars["xway"][here], cars["dir"][here], cars["pos"][here] // MILE)
        cells = len(self.xways) * CELLS
        count = np.bincount(cell, minlength=cells)
        total = np.bincount(cell, weights=cars["speed"][here, 0], minlength=cells)
        speed = np.where(count > 0, np.rint(total / np.maximum(count, 1)), -1)
        return SegmentTraffic(count.astype(np.int32), speed.astype(np.int32))

    def notices(self) -> MinuteNotices:
        """Return tolls and accidents of the minute."""
        notices = MinuteNotices.empty(len(self.xways) * CELLS)
        known = self._snapshot["segment"].scan(["xway", "dir", "segment", "lav", "toll"])
        cell = self._cell(known["xway"], known["dir"], known["segment"])
        notices.toll[cell], notices.lav[cell] = known["toll"], known["lav"]
        hit = self._snapshot["accident"].scan(["xway", "dir", "segment"])
        notices.accident[self._cell(hit["xway"], hit["dir"], hit["segment"])] = True
        return notices

    def vehicle(self, vid: int, second: int) -> VehicleDetail:
        """Return a vehicle's last report and balance; its trip and notices are not published."""
        with self._snapshot.locked():
            car, account = self._snapshot["car"].get(vid), self._snapshot["account"].get(vid)
        if car is None:
            raise NotFound(
                f"Vehicle {vid} is not on the road.", hint="For a feed, only vehicles on the road can be found."
            )
        seg = car["pos"] // MILE
        last = Report(car["time"], car["xway"], car["dir"], car["lane"], seg, car["pos"], car["speed"][0])
        return VehicleDetail(
            vid=vid,
            second=second,
            on_the_road=second - last.time < REPORT_EVERY,
            last=last,
            trips=1,
            since=last.time,
            entered=seg,
            exit=None,
            notices=(),
            balance=account["charged"] - account["credits"] if account else 0,
            balance_from="snapshot",
        )

    def segment(self, xway: int, direction: int, seg: int) -> list[PlottedMinute]:
        """Return the minutes of a segment that the engine keeps, oldest first; the last one has its toll."""
        found = self._snapshot["segment"].get(xway * CELLS + direction * SEGMENTS + seg)
        if found is None:
            raise NotFound(f"There is no expressway {xway}.", hint="Choose one on the map.")
        hit = self._snapshot["accident"].get(xway * CELLS + direction * SEGMENTS + seg) is not None
        before = [
            PlottedMinute(
                found["minute"] - 1 - back, int(cars), round(float(speed), 1) if cars else None, None, None, False
            )
            for back, (cars, speed) in enumerate(zip(found["cars"], found["speed"], strict=True))
        ]
        now = PlottedMinute(found["minute"], 0, None, found["lav"], found["toll"], hit)
        return [*reversed(before), now]

    def _cell(self, xway: Longs, direction: Longs, seg: Longs) -> Longs:
        place = np.searchsorted(np.array(self.xways, np.int64), xway)
        return np.asarray(place * CELLS + direction.astype(np.int64) * SEGMENTS + seg, np.int64)
