"""A job of every kind for fault injection: input with a few dozen batches, deterministic outputs."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from oracles.streams import report
from slipstream._chaos.subject import Subject
from slipstream._feeds.tuple_text import import_text

NETWORK = Path(__file__).with_name("network.yaml")
SCHEMA = """
CREATE CUBOID stock (stock_id INT KEY, price AST(5));
CREATE QUERY high AS SELECT stock_id, price[0] AS price FROM stock WHERE price[0] > 60;
"""


def toll(run: Path, folder: Path, batches: int) -> Subject:
    """Answers, trips and text."""
    return Subject.of(["toll", str(run), "--archive"], batch_seconds=180 // batches)


def archive(run: Path, folder: Path, batches: int) -> Subject:
    """Trips alone: of vehicles that leave soon, so that most batches have some."""
    return Subject.of(["archive", str(_short_trips(folder, minutes=batches))], batch_seconds=60)


def network(run: Path, folder: Path, batches: int) -> Subject:
    """Joins, windows and a connection point over two recordings."""
    chance = random.Random(7)
    per_batch = 20
    cars = [(chance.randrange(40), n // 10, chance.randrange(8), chance.randrange(80)) for n in range(20 * batches)]
    cameras = [(chance.randrange(8), n // 10, n % 3) for n in range(20 * batches)]
    inputs = (
        _csv(folder / "cars.csv", "id,time,seg,spd", cars),
        _csv(folder / "cameras.csv", "seg,time,camera", cameras),
    )
    command = ["network", "run", str(NETWORK), "--train", str(per_batch)]
    return Subject.of(command + [word for file in inputs for word in ("--input", f"{file.stem}={file}")])


def cuboid(run: Path, folder: Path, batches: int) -> Subject:
    """Seven stocks in files that came one after the other, and a continuous query; a row of each cannot be kept."""
    ticks = folder / "ticks"
    ticks.mkdir()
    for number in range(batches):
        rows = [(stock, (stock * 37 + number * 11 + i * 5) % 97) for i in range(20) for stock in range(7)]
        file = _csv(ticks / f"{number:03d}.csv", "stock_id,price", [*rows, ("", 5)])
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
    return Subject.of(["cuboid", "run", "--input", str(ticks), "--schema", SCHEMA, "--fragments", "2"])


def _short_trips(folder: Path, minutes: int) -> Path:
    """A run in which two vehicles enter in every second and leave 30 s later."""
    seconds = 60 * minutes
    reports = [
        (second, report(second, 2 * entered + k, 528 * (second - entered), lane=0 if second == entered else 4))
        for entered in range(seconds)
        for k in range(2)
        for second in (entered, entered + 30)
        if second < seconds
    ]
    text = folder / "short.dat"
    text.write_text("".join(f"{line}\n" for _, line in sorted(reports)))
    return import_text(text, folder / "short").path


def _csv(file: Path, header: str, rows: Sequence[Sequence[object]]) -> Path:
    file.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return file


#: how to make a job of each kind: from a run of three minutes, in a folder, with so many batches
SUBJECTS: dict[str, Callable[[Path, Path, int], Subject]] = {
    "toll": toll,
    "archive": archive,
    "network": network,
    "cuboid": cuboid,
}
