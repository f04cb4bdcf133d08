"""Stock-like series for examples: random walks with occasional W patterns, as in the thesis' experiment."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pc

from slipstream._tools.numba_tools import Floats

STOCKS = 7
#: the pattern of the thesis' figure, as cuboids compare with it
W = (9.0, 3.0, 6.0, 3.0, 9.0)


def walk(rng: np.random.Generator, ticks: int) -> Floats:
    """One price: a random walk around 100, with a W added about every hundred ticks."""
    prices = 100.0 + np.cumsum(rng.normal(0.0, 0.05, ticks))
    shape = np.array(W) - np.mean(W)
    for start in np.flatnonzero(rng.random(ticks) < 1 / 100):
        piece = prices[start : start + shape.size]
        piece += 0.3 * shape[: piece.size]
    return prices.round(2)


def make(ticks: int, seed: int, stocks: int = STOCKS) -> dict[str, npt.NDArray[np.generic]]:
    """Generate ticks of each stock, in the order of arrival: time, stock_id, price.

    >>> make(2, seed=1, stocks=2)["stock_id"].tolist()
    [0, 1, 0, 1]
    """
    rng = np.random.default_rng(seed)
    prices = np.stack([walk(rng, ticks) for _ in range(stocks)], axis=1)
    return {
        "time": np.repeat(np.arange(ticks, dtype=np.int64), stocks),
        "stock_id": np.tile(np.arange(stocks, dtype=np.int64), ticks),
        "price": prices.reshape(-1),
    }


def write(folder: Path, ticks: int, seed: int, files: int = 1) -> None:
    """Write ticks as CSV, in several files to be read in order."""
    table = pa.table(make(ticks, seed))
    folder.mkdir(parents=True, exist_ok=True)
    each = -(-table.num_rows // files)
    for number in range(files):
        file = folder / f"ticks-{number:05d}.csv"
        pc.write_csv(table.slice(number * each, each), file)
        # Spark reads files in the order of their times, which would be equal
        written = file.stat().st_mtime - files + number
        os.utime(file, (written, written))
