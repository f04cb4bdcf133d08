"""The events of the live city for all pages that watch it: one reader notices changes, and encodes each event once.

So fifty screens cost little more than one, and the engine beside them keeps its cores.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from dataclasses import dataclass

from slipstream._console.live.live_city import CityState, LiveCity, batches_json, format_event, state_json

#: seconds between two looks at the city
_PACE = 0.1
#: a comment after this many idle seconds keeps the connection open
_HEARTBEAT = 5.0
_COMMENT = b": still here\n\n"


@dataclass
class _Seen:
    """What a watcher has received."""

    state: CityState | None = None
    grid: int = -1
    batch: int = -1


class EventFeed:
    """The events of one city; its reader runs while somebody watches."""

    def __init__(self, city: LiveCity) -> None:
        self._city = city
        self._watchers = 0
        self._state: CityState | None = None
        self._events: dict[str, bytes] = {}
        self._grid = self._newest = -1
        self._beats: dict[int, bytes] = {}  # by the batch after which they begin

    async def watch(self) -> AsyncGenerator[bytes, None]:
        """Yield events until the console ends: first everything, then changes."""
        if not self._watchers:
            self._changed = asyncio.Condition()
            self._look()
            self._reader = asyncio.create_task(self._read())
        self._watchers += 1
        seen = _Seen()
        try:
            while not self._city.closed.is_set():
                news = list(self._list_news(seen)) or [_COMMENT]
                for event in news:
                    yield event
                await self._wait(seen)
        finally:
            self._watchers -= 1
            if not self._watchers:
                self._reader.cancel()

    async def _wait(self, seen: _Seen) -> None:
        """Wait for news, or for the time of a comment."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_HEARTBEAT), self._changed:
                while not self._has_news(seen) and not self._city.closed.is_set():
                    await self._changed.wait()

    async def _read(self) -> None:
        while not self._city.closed.is_set():
            if self._look():
                async with self._changed:
                    self._changed.notify_all()
            await asyncio.sleep(_PACE)
        async with self._changed:
            self._changed.notify_all()

    def _look(self) -> bool:
        """Look at the city, and encode what is new; returns whether anything is."""
        city, state = self._city, self._city.state
        batches = city.batches_after(-1)
        newest = batches[-1].batch if batches else -1
        if (state, city.grid_version, newest) == (self._state, self._grid, self._newest):
            return False
        if state is not self._state:
            self._state = state
            self._events["state"] = format_event("state", state_json(state)).encode()
        if city.grid_version != self._grid:
            self._grid = city.grid_version
            self._events["grid"] = format_event("grid", city.grid).encode() if city.grid else b""
        self._newest = newest
        self._beats.clear()
        return True

    def _has_news(self, seen: _Seen) -> bool:
        has_grid = seen.grid != self._grid and bool(self._events["grid"])
        return seen.state is not self._state or has_grid or seen.batch < self._newest

    def _list_news(self, seen: _Seen) -> Iterator[bytes]:
        """Yield what a watcher has not received."""
        if seen.state is not self._state:
            if seen.state is None or self._state is None or seen.state.result != self._state.result:
                seen.batch = -1
            seen.state = self._state
            yield self._events["state"]
        if seen.grid != self._grid and self._events["grid"]:
            seen.grid = self._grid
            yield self._events["grid"]
        if seen.batch < self._newest:
            if seen.batch not in self._beats:
                beats = batches_json(self._city.batches_after(seen.batch))
                self._beats[seen.batch] = format_event("beats", beats).encode()
            event, seen.batch = self._beats[seen.batch], self._newest
            yield event
