"""Fifty watchers cost little more than one: events and answers are made once for all of them."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from slipstream._console.live.event_feed import EventFeed
from slipstream._console.live.live_city import LiveCity
from slipstream._console.shared_answers import SharedAnswers
from slipstream._console.workspace import Workspace

WATCHERS = 50


async def take(feed: EventFeed, count: int) -> list[bytes]:
    found = []
    async with aclosing(feed.watch()) as events:
        async for event in events:
            found.append(event)
            if len(found) == count:
                break
    return found


def name(event: bytes) -> str:
    return event.split(b"\n")[0].removeprefix(b"event: ").decode()


def test_all_watchers_get_the_same_bytes_of_every_event(workspace: Path) -> None:
    city = LiveCity(Workspace.over([workspace]), "local[2]")
    city.open("tolled")
    feed = EventFeed(city)

    async def watch() -> list[list[bytes]]:
        every = [asyncio.create_task(take(feed, 4)) for _ in range(WATCHERS)]
        await asyncio.sleep(0.3)
        city.look()  # a new state, as the console makes four times per second
        return await asyncio.gather(*every)

    first, *others = asyncio.run(watch())
    assert [name(event) for event in first] == ["state", "grid", "beats", "state"]
    for events in others:
        assert all(mine is theirs for mine, theirs in zip(events, first, strict=True))
    assert json.loads(first[0].split(b"data: ")[1])["result"] == "tolled"


def test_a_watcher_that_comes_later_gets_everything_and_the_last_one_ends_the_reader(workspace: Path) -> None:
    city = LiveCity(Workspace.over([workspace]), "local[2]")
    feed = EventFeed(city)

    async def watch() -> None:
        assert [name(event) for event in await take(feed, 1)] == ["state"]
        city.open("tolled")
        assert [name(event) for event in await take(feed, 3)] == ["state", "grid", "beats"]
        waiting = asyncio.create_task(take(feed, 9))
        await asyncio.sleep(0.2)
        city.closed.set()
        assert [name(event) for event in await asyncio.wait_for(waiting, 60)] == ["state", "grid", "beats"]
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(watch())


def test_requests_at_the_same_time_share_an_answer() -> None:
    answers, made, found = SharedAnswers(), list[int](), list[bytes]()

    def make() -> bytes:
        made.append(1)
        time.sleep(0.2)
        return b"answer"

    threads = [threading.Thread(target=lambda: found.append(answers.get(("job", "a"), make))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, len(made)) == ([b"answer"] * 20, 1)
    answers.forget()
    answers.get(("job", "a"), make)
    assert len(made) == 2


def test_errors_are_not_remembered() -> None:
    answers = SharedAnswers()

    def fail() -> bytes:
        raise ValueError("unreadable")

    for _ in range(2):
        with pytest.raises(ValueError, match="unreadable"):
            answers.get(("job", "a"), fail)
    assert answers.get(("job", "a"), lambda: b"x") == b"x"


def test_an_action_shows_at_once(page: TestClient) -> None:
    def entry() -> Any:
        return next(one for one in page.get("/api/jobs").json() if one["name"] == "tolled")

    assert entry() == entry()
    assert page.get("/api/jobs/job", params={"job": "nothing"}).status_code == 404
    assert page.post("/api/jobs/want", json={"job": "tolled", "want": "pause"}).status_code == 409
