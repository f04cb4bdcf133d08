"""Drawing a network as SVG: boxes in columns by their distance from the sources, groups as frames.

The layout is simple arithmetic rather than a layout engine: columns are the longest distance from a source, rows follow
the mean row of a box's inputs, so arcs run left to right and cross little.
"""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from slipstream._network.algebra import (
    Aggregate,
    Arc,
    Box,
    BSort,
    Filter,
    Join,
    Latest,
    Map,
    Network,
    Order,
    Resample,
    Running,
)
from slipstream._network.boxes.cuboids import CuboidLookup, CuboidQuery, Keep
from slipstream._network.boxes.operators import Operator, list_parameters

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 176, 52, 64, 30, 32
_COLOURS = {
    "source": "#d9e8f5", "table": "#e8e2d4", "output": "#dcefdc",
    "filter": "#fdf3d7", "map": "#fdf3d7", "union": "#fdf3d7",
    "operator": "#d5ece8", "keep": "#d5ece8", "query": "#d5ece8", "lookup": "#d5ece8", "toll": "#d5ece8",
    "bsort": "#f6dfd5", "aggregate": "#f6dfd5", "running": "#f6dfd5",
    "join": "#ead9f0", "resample": "#ead9f0", "latest": "#ead9f0",
}  # fmt: skip
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.kind{font-size:10px;fill:#555}.what{font-size:10px}"
    "path{fill:none;stroke:#777;stroke-width:1.3}.frame{fill:#f4f4f6;stroke:#aaa;stroke-dasharray:4 3}"
)


@dataclass
class _Spot:
    """Something drawn as a box."""

    name: str
    kind: str
    what: str
    inputs: tuple[Arc, ...] = ()
    group: str = ""
    note: str = ""
    column: int = 0
    row: float = 0

    @property
    def x(self) -> float:
        return MARGIN + self.column * (WIDTH + GAP_X)

    @property
    def y(self) -> float:
        return MARGIN + 20 + self.row * (HEIGHT + GAP_Y)


def draw(network: Network) -> str:
    """The network as SVG text."""
    spots = _place_spots(network)
    _place(spots)
    width = max(spot.x for spot in spots.values()) + WIDTH + MARGIN
    height = max(spot.y for spot in spots.values()) + HEIGHT + MARGIN
    parts = [*_frames(spots), *_arcs(spots), *(_draw_spot(spot) for spot in spots.values())]
    parts += [_dot(spots, point.arc, point.name) for point in network.points]
    title = f'<text x="{MARGIN}" y="22" font-weight="bold">{escape(network.name)}</text>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" role="img">'
    arrow = (
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" style="fill:#777;stroke:none"/></marker></defs>'
    )
    paper = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, f"<style>{_STYLE}</style>", arrow, paper, title, *parts, "</svg>", ""])


def _place_spots(network: Network) -> dict[str, _Spot]:
    spots = [_Spot(s.name, "source", ", ".join(s.schema)) for s in network.sources]
    spots += [_Spot(t.name, "table", ", ".join(t.schema)) for t in network.tables]
    spots += [_Spot(n.name, n.box.kind, describe_box(n.box), n.inputs, n.group, n.note) for n in network.nodes]
    spots += [_Spot(f"→ {o.name}", "output", "view" if o.view else "", (o.arc,)) for o in network.outputs]
    return {spot.name: spot for spot in spots}


def describe_box(box: Box) -> str:
    """A box's arguments in a few words."""
    words = ""
    match box:
        case Filter():
            words = " | ".join(box.predicates)
        case Map():
            words = ", ".join(name if name == text else f"{name} = {text}" for name, text in box.columns.items())
        case BSort():
            words = _describe_order(box.order)
        case Aggregate():
            window = f"size {box.size:g} advance {box.advance:g}"
            words = f"{', '.join(box.functions.values())} {window} {_describe_order(box.order)}"
        case Join():
            words = box.predicate + ("" if box.size is None else f" within {box.size:g}")
        case Latest():
            words = f"by {', '.join(box.on)}" + (", before it" if box.before else "")
        case Running():
            per = f" per {', '.join(box.group_by)}" if box.group_by else ""
            words = ", ".join(box.functions.values()) + per
        case Resample():
            words = f"{', '.join(box.functions.values())} within {box.size:g}"
        case Keep():
            words = box.cuboid
        case CuboidQuery():
            words = box.select
        case CuboidLookup():
            words = f"{', '.join(box.columns.values())} of {box.by}"
        case Operator():
            words = " ".join([box.name, *(f"{name} {value}" for name, value in list_parameters(box).items())]).strip()
    return words


def _describe_order(order: Order) -> str:
    groups = f" per {', '.join(order.group_by)}" if order.group_by else ""
    return f"on {order.on}{groups}" + (f" slack {order.slack}" if order.slack else "")


def _place(spots: dict[str, _Spot]) -> None:
    """Assign columns by distance from the sources, a band of rows to each group, and other boxes near their inputs."""
    for _ in spots:
        for spot in spots.values():
            before = [spots[arc.origin].column for arc in spot.inputs]
            spot.column = max(before) + 1 if before else 0
    last = max(spot.column for spot in spots.values())
    for spot in spots.values():
        if spot.kind == "output":
            spot.column = last
    top = 0.0
    for group in dict.fromkeys(spot.group for spot in spots.values() if spot.group):
        members = [spot for spot in spots.values() if spot.group == group]
        _stack(spots, members, top)
        top = max(spot.row for spot in members) + 1.5
    loose = [spot for spot in spots.values() if not spot.group]
    for spot in loose:
        if not spot.inputs and top:
            taking = [s.row for s in spots.values() if any(arc.origin == spot.name for arc in s.inputs)]
            spot.row = sum(taking) / max(len(taking), 1)
    _stack(spots, loose, 0.0)


def _stack(spots: dict[str, _Spot], members: list[_Spot], top: float) -> None:
    """Assign rows from ``top`` down, in each column near the rows of the inputs, without overlaps."""
    for column in sorted({spot.column for spot in members}):
        here = [spot for spot in members if spot.column == column]
        wish = {
            s.name: sum(_preferred_row(spots, arc) for arc in s.inputs) / len(s.inputs) if s.inputs else s.row
            for s in here
        }
        taken = top - 1
        for spot in sorted(here, key=lambda s: wish[s.name]):
            spot.row = max(taken + 1, wish[spot.name])
            taken = spot.row


def _preferred_row(spots: dict[str, _Spot], arc: Arc) -> float:
    return spots[arc.origin].row + 0.3 * arc.port


def _frames(spots: dict[str, _Spot]) -> list[str]:
    """A dashed frame around the boxes of each group."""
    frames = []
    for group in dict.fromkeys(spot.group for spot in spots.values() if spot.group):
        members = [spot for spot in spots.values() if spot.group == group]
        x, y = min(s.x for s in members) - 12, min(s.y for s in members) - 20
        width = max(s.x for s in members) + WIDTH + 12 - x
        height = max(s.y for s in members) + HEIGHT + 10 - y
        size = f'x="{x}" y="{y}" width="{width}" height="{height}" rx="8"'
        frames.append(f'<rect class="frame" {size}/><text class="kind" x="{x + 8}" y="{y + 13}">{escape(group)}</text>')
    return frames


def _arcs(spots: dict[str, _Spot]) -> list[str]:
    drawn = []
    for spot in spots.values():
        for side, arc in enumerate(spot.inputs):
            x1, y1 = _exit(spots[arc.origin], arc.port)
            x2, y2 = spot.x, spot.y + HEIGHT * (side + 1) / (len(spot.inputs) + 1)
            bend = max((x2 - x1) / 2, 24)
            curve = f"M{x1:.0f} {y1:.0f}C{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f} {x2 - 1:.0f} {y2:.0f}"
            drawn.append(f'<path d="{curve}" marker-end="url(#a)"/>')
            if arc.port:
                drawn.append(f'<text class="kind" x="{x1 + 4:.0f}" y="{y1 - 3:.0f}">{arc.port}</text>')
    return drawn


def _exit(spot: _Spot, port: int) -> tuple[float, float]:
    return spot.x + WIDTH, spot.y + HEIGHT * (0.5 + min(port, 2) * 0.2)


def _draw_spot(spot: _Spot) -> str:
    box = f'x="{spot.x}" y="{spot.y:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="5"'
    tip = escape(" ".join(part for part in (spot.name, spot.kind, spot.what, spot.note) if part))
    return (
        f'<g id={quoteattr(spot.name)}><title>{tip}</title><rect {box} fill="{_COLOURS[spot.kind]}" stroke="#888"/>'
        f'<text x="{spot.x + 8}" y="{spot.y + 18:.0f}">{escape(_shorten(spot.name, 22))}</text>'
        f'<text class="kind" x="{spot.x + WIDTH - 8}" y="{spot.y + 18:.0f}" text-anchor="end">{_label(spot)}</text>'
        f'<text class="what" x="{spot.x + 8}" y="{spot.y + 38:.0f}">{escape(_shorten(spot.what, 30))}</text></g>'
    )


def _label(spot: _Spot) -> str:
    return "" if spot.kind == "output" or spot.name.startswith(spot.kind) else spot.kind


def _dot(spots: dict[str, _Spot], arc: Arc, name: str) -> str:
    """A connection point: a dark dot on its arc."""
    x, y = _exit(spots[arc.origin], arc.port)
    label = f'<text class="kind" x="{x + 14}" y="{y + 14:.0f}">{escape(name)}</text>'
    return f'<circle cx="{x + 10}" cy="{y:.0f}" r="5" fill="#333"/>{label}'


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
