"""The answers that snapshots must have, computed again from all events in plain batch operations.

Nothing here uses the boxes or their kernels: distances are GeographicLib's, states are searched in sorted events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyproj

from slipstream._bench.berlinmod.position_events import Events
from slipstream._bench.berlinmod.query_parameters import Parameters
from slipstream._tools.numba_tools import Bools, Floats, Longs

Array: TypeAlias = npt.NDArray[Any]

_GLOBE = pyproj.Geod(ellps="WGS84")
#: answers agree if their distances differ by no more, in metres
TOLERANCE = 1e-3
_MEASURES = ("metres", "distance")
#: farther apart in degrees of latitude than any limit is in metres
_METRES_PER_DEGREE = 110_000.0


def _measure_metres(lon1: Array, lat1: Array, lon2: Array | float, lat2: Array | float) -> Floats:
    """Return distances; a float stands for the same point every time."""
    lon2, lat2 = np.broadcast_to(lon2, lon1.shape), np.broadcast_to(lat2, lon1.shape)
    return np.asarray(_GLOBE.inv(lon1, lat1, np.array(lon2), np.array(lat2))[2])


def _are_within(lon: Floats, lat: Floats, at: tuple[float, float], metres: float) -> Bools:
    """Return who is within a distance of a point; only those at about its latitude are measured."""
    found = np.abs(lat - at[1]) <= metres / _METRES_PER_DEGREE
    found[found] = _measure_metres(lon[found], lat[found], *at) <= metres
    return found


def _place_on_sphere(lon: Array | float, lat: Array | float) -> Floats:
    lon, lat = np.radians(lon), np.radians(lat)
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)


def _are_near_edge(lon: Floats, lat: Floats, edge: tuple[float, float, float, float], metres: float) -> Bools:
    """Return who is within a distance of the closest point of an edge on the sphere."""
    first, last, here = _place_on_sphere(*edge[:2]), _place_on_sphere(*edge[2:]), _place_on_sphere(lon, lat)
    near = _are_within(lon, lat, edge[:2], metres) | _are_within(lon, lat, edge[2:], metres)
    pole = np.cross(first, last)
    if not pole.any():
        return near
    pole = pole / np.linalg.norm(pole)
    foot = here - np.outer(here @ pole, pole)
    foot_lon, foot_lat = np.degrees(np.arctan2(foot[:, 1], foot[:, 0])), np.degrees(np.arcsin(_normalise(foot)[:, 2]))
    # the foot is on the edge if it is between the ends as seen from the centre of the globe
    is_on = (np.cross(first, foot) @ pole >= 0) & (np.cross(foot, last) @ pole >= 0)
    return np.where(is_on, _measure_metres(lon, lat, foot_lon, foot_lat) <= metres, near)


def _normalise(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1)[:, None])


@dataclass(frozen=True)
class Evaluation:
    """All events, and what is asked of them."""

    events: Events
    given: Parameters
    complete: bool = False

    def answer(self, query: int) -> pd.DataFrame:
        """Return the rows of a query's snapshots."""
        return _SNAPSHOTS[query](self)

    def agrees(self, query: int, found: pa.Table) -> bool:
        """Return whether these are the same rows, in any order, with the same distances."""
        return have_same_rows(found.to_pandas(), self.answer(query))

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The events, each with the tick that it announces."""
        found = self.events
        tick = (found.t // self.given.tick + 1) * self.given.tick
        return pd.DataFrame({"vehicle": found.vehicle, "t": found.t, "lon": found.lon, "lat": found.lat, "T": tick})

    @cached_property
    def places(self) -> dict[int, Longs]:
        """The numbers of each vehicle's events, in order."""
        vehicle = self.events.vehicle
        return {int(one): np.flatnonzero(vehicle == one) for one in np.unique(vehicle)}

    @cached_property
    def ticks(self) -> Longs:
        """Every tick from the first event to the last."""
        first, last = int(self.frame["T"].min()), int(self.frame["T"].max())
        return np.arange(first, last + 1, self.given.tick)

    def last_known(self, vehicle: int, ticks: Array) -> tuple[Longs, Longs]:
        """Return the ticks at which a vehicle is known, and the number of its last event up to each."""
        rows = self.places[vehicle]
        place = np.searchsorted(self.events.t[rows], ticks, side="right") - 1
        return np.asarray(ticks[place >= 0]), rows[place[place >= 0]]

    def states(self, vehicles: list[int], ticks: Array | None = None) -> pd.DataFrame:
        """The last known events of vehicles at given ticks, or at those that each of them announces."""
        parts = []
        for vehicle in vehicles:
            mine = self.ticks if self.complete else ticks
            if mine is None:
                mine = np.unique(self.frame["T"].to_numpy()[self.places[vehicle]])
            at, place = self.last_known(vehicle, mine)
            parts.append(self.frame.iloc[place].assign(T=at, event=place))
        return pd.concat(parts, ignore_index=True)

    @property
    def everyone(self) -> list[int]:
        """All vehicles."""
        return list(self.places)

    def steps(self) -> Floats:
        """The distance of each event from the one before of its vehicle, 0 for the first."""
        out = np.zeros(len(self.events))
        for rows in self.places.values():
            lon, lat = self.events.lon[rows], self.events.lat[rows]
            out[rows[1:]] = _measure_metres(lon[:-1], lat[:-1], lon[1:], lat[1:])
        return out


def _seen(every: Evaluation) -> pd.DataFrame:
    return every.states(every.everyone)[["T", "vehicle"]]


def _target(every: Evaluation) -> pd.DataFrame:
    return every.states([every.given.target])[["T", "lon", "lat", "t"]].rename(columns={"t": "t_last"})


def _near_point(every: Evaluation) -> pd.DataFrame:
    states = every.states(every.everyone)
    near = _are_within(states["lon"].to_numpy(), states["lat"].to_numpy(), every.given.point, every.given.metres)
    return states.loc[near, ["T", "vehicle"]]


def _near_segment(every: Evaluation) -> pd.DataFrame:
    states = every.states(every.everyone)
    near = _are_near_edge(states["lon"].to_numpy(), states["lat"].to_numpy(), every.given.segment, every.given.metres)
    return states.loc[near, ["T", "vehicle"]]


def _pair_with_past(every: Evaluation, happened: pd.DataFrame, time: str) -> pd.DataFrame:
    """Pair each vehicle's ticks with all that had happened to it by then."""
    pairs = _seen(every).merge(happened, on="vehicle")
    return pairs[pairs[time] <= pairs["T"]]


def _entries(every: Evaluation) -> pd.DataFrame:
    west, south, east, north = every.given.area
    frame = every.frame
    inside = frame["lon"].between(west, east) & frame["lat"].between(south, north)
    before = inside.groupby(frame["vehicle"]).shift(fill_value=False)
    entered = frame.loc[inside & ~before, ["vehicle", "t"]].rename(columns={"t": "t_entry"})
    return _pair_with_past(every, entered, "t_entry")


def _passages(every: Evaluation) -> pd.DataFrame:
    frame, parts = every.frame, []
    for number, lon, lat, metres in every.given.points:
        near = _are_within(every.events.lon, every.events.lat, (lon, lat), metres)
        first = frame[near].groupby("vehicle", as_index=False)["t"].min()
        parts.append(first.assign(poi=int(number)).rename(columns={"t": "t_first"}))
    return _pair_with_past(every, pd.concat(parts), "t_first")[["T", "vehicle", "poi", "t_first"]]


def _travelled(every: Evaluation) -> pd.DataFrame:
    total = pd.Series(every.steps()).groupby(every.events.vehicle).cumsum().to_numpy()
    states = every.states(every.everyone)
    return states[["T", "vehicle"]].assign(metres=total[states["event"].to_numpy()])


def _pairs(states: pd.DataFrame) -> pd.DataFrame:
    """Pair the vehicles of each tick, a < b, with their distance."""
    parts = []
    for tick, known in states.sort_values(["T", "vehicle"]).groupby("T"):
        a, b = np.triu_indices(len(known), 1)
        vehicle, lon, lat = (known[name].to_numpy() for name in ("vehicle", "lon", "lat"))
        apart = _measure_metres(lon[a], lat[a], lon[b], lat[b])
        parts.append(pd.DataFrame({"T": tick, "a": vehicle[a], "b": vehicle[b], "distance": apart}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["T", "a", "b", "distance"])


def _meetings(every: Evaluation) -> pd.DataFrame:
    states = every.states(every.everyone, np.unique(every.frame["T"]))
    near = _are_within(states["lon"].to_numpy(), states["lat"].to_numpy(), every.given.point, every.given.metres)
    pairs = _pairs(states[near])
    return pairs[pairs["distance"] <= every.given.meet]


def _distance(every: Evaluation) -> pd.DataFrame:
    both = sorted({every.given.other, every.given.target})
    announced = every.frame.loc[every.frame["vehicle"].isin(both), "T"]
    return _pairs(every.states(both, np.unique(announced)))[["T", "distance"]]


_SNAPSHOTS: dict[int, Callable[[Evaluation], pd.DataFrame]] = {
    1: _seen,
    2: _target,
    3: _near_point,
    4: _entries,
    5: _meetings,
    6: _travelled,
    7: _passages,
    8: _near_segment,
    9: _distance,
}


def have_same_rows(found: pd.DataFrame, wanted: pd.DataFrame) -> bool:
    """Return whether two tables have the same rows in any order; distances may differ by ``TOLERANCE``.

    >>> have_same_rows(pd.DataFrame({"T": [2, 1]}), pd.DataFrame({"T": [1, 2]}))
    True
    """
    if len(found) != len(wanted) or set(found.columns) != set(wanted.columns):
        return False
    measured = [name for name in found.columns if name in _MEASURES]
    exact = [name for name in found.columns if name not in _MEASURES]
    one, two = (table.sort_values([*exact, *measured])[[*exact, *measured]] for table in (found, wanted))
    if not all(np.array_equal(one[name].to_numpy(), two[name].to_numpy()) for name in exact):
        return False
    return all(np.allclose(one[m].to_numpy(float), two[m].to_numpy(float), rtol=0, atol=TOLERANCE) for m in measured)
