"""Maps as SVG, for notebooks: paths and places in a plane, drawn without a background or scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TypeAlias

Path: TypeAlias = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT, _MARGIN, _LINE = 640, 400, 12, 16
#: a map that is this many times as wide as high, or as high as wide, has a scale for each
_NARROW = 20
_COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#17becf")


def format_metres(length: float) -> str:
    """Return a length in words.

    >>> format_metres(152_000.0), format_metres(17.6)
    ('152 km', '18 m')
    """
    return f"{length / 1000:,.0f} km" if length >= 10_000 else f"{length:,.0f} m"


def format_degrees(angle: float) -> str:
    """Return an angle in words.

    >>> format_degrees(0.25)
    '0.25 degrees'
    """
    return f"{angle:.3g} degrees"


def draw_map(paths: Sequence[Path], title: str, width: Callable[[float], str] = format_metres) -> str:
    """Draw paths, the first coordinate to the right and the second upwards, and write what the map measures.

    A path of one place is a dot. Both directions have the same scale, unless one would be too narrow to be seen, as the
    lanes of a long road are.

    >>> svg = draw_map([[(0.0, 0.0), (10.0, 5.0)], [(3.0, 4.0)]], "trips")
    >>> svg.count("<polyline"), "trips" in svg, "10 m by 5 m" in svg
    (2, True, True)
    """
    xs, ys = [x for path in paths for x, _ in path], [y for path in paths for _, y in path]
    left, low, wide, high = min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)
    across, up = (_WIDTH - 2 * _MARGIN) / (wide or 1), (_HEIGHT - 2 * _MARGIN) / (high or 1)
    if max(across, up) < _NARROW * min(across, up) or not (wide and high):
        across = up = min(across, up)

    def place(path: Path) -> str:
        ends = [*path] * (2 if len(path) == 1 else 1)  # a line of one point is drawn as a dot if it has two ends
        return " ".join(
            f"{_MARGIN + (x - left) * across:.1f},{_HEIGHT - _MARGIN - (y - low) * up:.1f}" for x, y in ends
        )

    drawn = "".join(
        f'<polyline fill="none" stroke="{_COLOURS[number % len(_COLOURS)]}" points="{place(path)}"/>'
        for number, path in enumerate(paths)
    )
    stretched = "" if across == up else ", not to scale"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT + _LINE}" role="img">'
        f'<title>{escape(title)}</title><g stroke-width="2" stroke-linecap="round">{drawn}</g>'
        f'<text x="{_MARGIN}" y="{_HEIGHT + _LINE - 4}" font-family="sans-serif" font-size="12" fill="#888">'
        f"{width(wide)} by {width(high)}{stretched}</text></svg>"
    )
