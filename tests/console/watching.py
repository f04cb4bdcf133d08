"""Watchers of the live city in a process of their own: ``python watching.py PORT COUNT`` prints the bytes they got."""

from __future__ import annotations

import asyncio
import signal
import sys


async def watch(port: int, counts: list[int]) -> None:
    """Read the stream to its end, as a page does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /api/city/stream HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    number = len(counts)
    counts.append(0)
    while part := await reader.read(1 << 20):
        counts[number] += len(part)


async def watch_all(port: int, count: int) -> list[int]:
    """Watch until SIGTERM; returns the bytes of each watcher."""
    counts: list[int] = []
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    watching = [asyncio.create_task(watch(port, counts)) for _ in range(count)]
    await ended.wait()
    for one in watching:
        one.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    return counts


if __name__ == "__main__":
    print(*asyncio.run(watch_all(int(sys.argv[1]), int(sys.argv[2]))))
