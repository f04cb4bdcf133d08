"""A slow, independent implementation: exact fractions, one instant and one unit at a time."""

from __future__ import annotations

from fractions import Fraction as Fr
from itertools import pairwise

from hypothesis import strategies as st

from slipstream._moving import MovingPoint
from slipstream._moving.value import instant

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
