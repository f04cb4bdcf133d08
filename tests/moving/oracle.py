"""A slow, independent implementation: exact fractions, one instant and one unit at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction as Fr
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from slipstream._moving import MovingPoint
from slipstream._moving.moving_point import instant

SECOND = 1_000_000


def moving(sequences: list[list[tuple[int, float, float]]]) -> MovingPoint:
    """A moving point from (second, x, y)."""
    return MovingPoint.of([[(instant(round(t * SECOND)), x, y) for t, x, y in s] for s in sequences])


def position(m: MovingPoint, t: Fr) -> tuple[Fr, Fr] | None:
    """Where it is at microsecond ``t``: the last sequence that covers it counts."""
    found = None
    for s in m.sequences:
        ts = m.t[s].tolist()
        if not ts or t < ts[0] or t > ts[-1]:
            continue
        xs, ys = [Fr(v) for v in m.x[s].tolist()], [Fr(v) for v in m.y[s].tolist()]
        for i, first in enumerate(ts):
            if first == t:
                found = (xs[i], ys[i])
            elif i + 1 < len(ts) and first < t < ts[i + 1]:
                w = Fr(t - first, ts[i + 1] - first) if isinstance(t, int) else (t - first) / (ts[i + 1] - first)
                found = (xs[i] + w * (xs[i + 1] - xs[i]), ys[i] + w * (ys[i + 1] - ys[i]))
    return found


def samples(*points: MovingPoint, parts: int = 8) -> list[Fr]:
    """Every vertex's instant and ``parts`` instants between each two of them."""
    ts = sorted({int(t) for m in points for t in m.t})
    out = [Fr(t) for t in ts]
    for a, b in pairwise(ts):
        out += [a + Fr(b - a) * k / parts for k in range(1, parts)]
    return sorted(out)


def covered(begin: list[int], end: list[int], t: Fr, slack: int = 0) -> bool:
    return any(b - slack <= t <= e + slack for b, e in zip(begin, end, strict=True))


@st.composite
def moving_points(draw: st.DrawFn, most: int = 4) -> MovingPoint:
    """Small moving points on an integer grid: rests, touching sequences, single instants and emptiness included."""
    clock, sequences = draw(st.integers(0, 5)), []
    for _ in range(draw(st.integers(0, 3))):
        sequence = []
        for _ in range(draw(st.integers(1, most))):
            sequence.append((clock, float(draw(st.integers(-6, 6))), float(draw(st.integers(-6, 6)))))
            clock += draw(st.integers(1, 4))
        clock = sequence[-1][0] + draw(st.integers(0, 3))
        if sequences and sequences[-1][-1][0] == sequence[0][0] and len(sequence) == 1:
            continue
        sequences.append(sequence)
    return moving(sequences)


def microsecond(t: datetime) -> int:
    """The microsecond of an instant."""
    return round((t - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))


def sequences_of(row: dict[str, Any]) -> list[list[tuple[int, Any]]]:
    """The sequences of a value over time, a row of an Arrow column: (microsecond, value)."""
    pairs = [(microsecond(t), v) for t, v in zip(row["t"], row["value"], strict=True)]
    ends = [*row["starts"][1:], len(pairs)]
    return [pairs[a:b] for a, b in zip(row["starts"], ends, strict=False)]


def value_over_time(row: dict[str, Any], t: Fr | int) -> Any:
    """What a value over time is at microsecond ``t``, exactly; the last sequence that covers it counts."""
    found = None
    for sequence in sequences_of(row):
        if row["interpolation"] == "discrete":
            found = next((v for at, v in sequence if at == t), found)
            continue
        for (t0, v0), (t1, v1) in pairwise(sequence):
            if t0 <= t < t1:
                found = v0
                if row["interpolation"] == "linear":
                    found = Fr(v0) + (Fr(v1) - Fr(v0)) * Fr(t - t0) / (t1 - t0)
        if sequence[-1][0] == t:
            found = sequence[-1][1]
    return found


@st.composite
def over_time(
    draw: st.DrawFn, values: st.SearchStrategy[Any], kinds: tuple[str, ...] = ("step", "discrete")
) -> dict[str, Any]:
    """Small values over time, as rows: single instants, touching sequences and emptiness included."""
    m, kind = draw(moving_points()), draw(st.sampled_from(kinds))
    row = m.to_row()
    found = {"t": row["t"], "value": [draw(values) for _ in row["t"]], "starts": row["starts"], "interpolation": kind}
    if kind == "discrete":
        once = [i for i, t in enumerate(row["t"]) if i + 1 == len(row["t"]) or row["t"][i + 1] != t]
        found = found | {name: [found[name][i] for i in once] for name in ("t", "value")}
        found["starts"] = [0] if once else []
    return found


def near_instants(*rows: dict[str, Any]) -> list[int]:
    """Instants worth a look: all vertices, the microseconds around them, and some between."""
    ts = sorted({microsecond(t) for row in rows for t in row["t"]})
    between = [a + (b - a) * k // 4 for a, b in pairwise(ts) for k in range(1, 4)]
    return sorted({t + d for t in [*ts, *between] for d in (-1, 0, 1)})
