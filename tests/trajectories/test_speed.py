"""How long trips of ten million positions take."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slipstream as ss

MOVERS, EACH = 2_000, 5_000


@pytest.mark.bench
def test_ten_million_positions(spark, tmp_path: Path):
    """Shuffled positions of 2,000 vehicles, with duplicates and jumps, from Parquet; must take at most a minute."""
    count = MOVERS * EACH
    dice = np.random.default_rng(1)
    order = dice.permutation(count)
    mover, step = order % MOVERS, order // MOVERS
    lon = 13.4 + (mover % 50) / 500 + step * 1e-5 + np.where(dice.random(count) < 1e-3, 0.5, 0.0)
    columns = {
        "id": pa.array(mover).cast(pa.string()),
        "time": pa.array(1_777_881_600_000_000 + step * 5_000_000).view(pa.timestamp("us", tz="UTC")),
        "lon": lon,
        "lat": 52.5 + (mover // 50) / 500 + np.zeros(count),
    }
    pq.write_table(pa.table(columns), tmp_path / "gps.parquet", row_group_size=1 << 19)
    ss.trajectories(tmp_path / "gps.parquet", max_speed="200 km/h")  # starts workers and compiles kernels
    started, used = time.perf_counter(), time.process_time()
    trips = ss.trajectories(tmp_path / "gps.parquet", max_speed="200 km/h")
    built = time.perf_counter()
    trips.write(tmp_path / "data")
    written = time.perf_counter()
    print(
        f"\n{count:,} positions: built in {built - started:.1f} s, written in {written - built:.1f} s; {trips.counts}"
    )
    print(f"CPU of the driver's Python: {time.process_time() - used:.1f} s")
    assert trips.counts["rows"] == count
