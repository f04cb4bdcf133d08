"""Draw the diagrams of the documentation: ``python scripts/website/diagrams.py`` writes docs/images/*.svg.

A diagram is a list of shapes. They are drawn on a card of their own colour, so that they read well on light and dark
pages alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

IMAGES = Path(__file__).parents[2] / "docs" / "images"
INK, FAINT, CARD = "#22313f", "#5d6d7e", "#fbfcfd"
BLUE, TEAL, SAND, ROSE, GREY = "#dbe9f6", "#d5efe8", "#f8ecd3", "#f6dfe0", "#e9edf0"
FONT = "Helvetica, Arial, sans-serif"


def text(x: float, y: float, words: str, *, size: int = 13, anchor: str = "middle", bold: bool = False) -> str:
    """A line of text."""
    weight = ' font-weight="600"' if bold else ""
    colour = INK if bold or size > 12 else FAINT
    where = f'x="{x}" y="{y}" text-anchor="{anchor}"'
    return f'<text {where} font-size="{size}" fill="{colour}"{weight}>{escape(words)}</text>'


def box(x: float, y: float, w: float, h: float, title: str, lines: Sequence[str] = (), fill: str = BLUE) -> str:
    """A rounded rectangle with a title and smaller lines under it."""
    top = y + h / 2 - 8 * len(lines) + 5
    shape = f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="7" fill="{fill}" stroke="{INK}" stroke-width="1.1"/>'
    rest = (text(x + w / 2, top + 17 * (n + 1), line, size=12) for n, line in enumerate(lines))
    return "".join([shape, text(x + w / 2, top, title, bold=True), *rest])


def frame(x: float, y: float, w: float, h: float, title: str) -> str:
    """A dashed frame around other shapes."""
    shape = (
        f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="10" fill="none" stroke="{FAINT}" stroke-dasharray="5 4"/>'
    )
    return shape + text(x + 10, y + 18, title, size=12, anchor="start")


def arrow(x1: float, y1: float, x2: float, y2: float, label: str = "") -> str:
    """An arrow, with a label above its middle."""
    line = f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{INK}" stroke-width="1.3" marker-end="url(#tip)"/>'
    return line + (text((x1 + x2) / 2, (y1 + y2) / 2 - 7, label, size=12) if label else "")


def drawing(width: int, height: int, about: str, shapes: Sequence[str]) -> str:
    """An SVG document."""
    tip = (
        f'<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0 0L10 5L0 10z" fill="{INK}"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'font-family="{FONT}"><title>{escape(about)}</title>{tip}'
        f'<rect width="{width}" height="{height}" rx="12" fill="{CARD}" stroke="{GREY}"/>\n'
        + "\n".join(shapes)
        + "\n</svg>\n"
    )


def overview() -> str:
    """Sources, one job, outputs."""
    sources = ("Kafka topics", "files and folders", "TCP sockets", "recorded runs", "DataFrames")
    boxes = (
        ("filter, map, window, join", "Aurora's boxes", BLUE),
        ("toll", "Linear Road's rules, or yours", BLUE),
        ("keep", "cuboids: state with a past", TEAL),
        ("archive", "trips: moving points", SAND),
    )
    outputs = (
        ("outputs", "Delta Lake tables"),
        ("destinations", "Kafka, text, your own"),
        ("snapshot", "cuboids, queried live"),
        ("trips", "trajectories, in SQL"),
    )
    shapes = [text(105, 34, "sources", bold=True), text(405, 34, "one job on Spark", bold=True)]
    shapes += [text(705, 34, "one commit per batch", bold=True)]
    shapes += [box(30, 50 + 54 * n, 150, 42, name, fill=GREY) for n, name in enumerate(sources)]
    shapes += [frame(250, 50, 310, 268, "boxes")]
    shapes += [box(270, 76 + 59 * n, 270, 49, name, [about], fill) for n, (name, about, fill) in enumerate(boxes)]
    shapes += [box(620, 62 + 65 * n, 170, 52, name, [about], GREY) for n, (name, about) in enumerate(outputs)]
    shapes += [arrow(180, 184, 248, 184, "tuples"), arrow(560, 184, 616, 184)]
    return drawing(820, 340, "Sources feed one job of boxes, whose results are committed together", shapes)


def commit() -> str:
    """How a batch is committed."""
    steps = (
        ("1  tasks write", ["Parquet files into", "OUT/outputs/NAME/:", "invisible so far"], BLUE),
        ("2  driver commits", ["each table, in a", "transaction that names", "the job and the batch"], TEAL),
        ("3  driver sends", ["the batch to Kafka", "and text files,", "idempotent by batch"], TEAL),
        ("4  journal line", ["OUT/batches.jsonl:", "the commit point", "of the whole batch"], SAND),
    )
    shapes = [box(30 + 200 * n, 40, 160, 96, name, about, fill) for n, (name, about, fill) in enumerate(steps)]
    shapes += [arrow(190 + 200 * n, 88, 226 + 200 * n, 88) for n in range(3)]
    shapes += [
        box(
            30,
            190,
            560,
            62,
            "a crash anywhere here",
            ["Spark repeats the batch; tables and topics that have it skip it"],
            ROSE,
        ),
        box(630, 190, 160, 62, "readers", ["see whole batches only"], GREY),
        arrow(310, 188, 310, 140),
        arrow(710, 138, 710, 186),
    ]
    return drawing(820, 280, "The four steps in which a batch is committed", shapes)


def toll_engine() -> str:
    """The stages of the toll engine."""
    shapes = [
        box(24, 90, 130, 84, "source", ["reads, parses,", "stamps arrivals"], GREY),
        frame(200, 26, 230, 216, "by fragment: expressways"),
        box(220, 54, 190, 76, "intake and tolls", ["whole seconds, cars,", "minutes, prices"]),
        box(220, 150, 190, 76, "trips", ["open trips; the same rule", "for where a trip begins"], SAND),
        frame(476, 26, 160, 216, "by shard: vehicles"),
        box(490, 62, 132, 132, "accounts", ["charges, balances,", "expenditures,", "travel times"], TEAL),
        box(684, 90, 122, 84, "commit", ["tables, text,", "topics, journal"], GREY),
        arrow(154, 118, 216, 96),
        arrow(154, 146, 216, 186),
        arrow(410, 96, 486, 116, "charges"),
        arrow(622, 128, 680, 130),
        '<path d="M410 200 C 500 262, 640 262, 716 178" fill="none" stroke="#22313f" stroke-width="1.3" '
        'marker-end="url(#tip)"/>',
    ]
    return drawing(830, 268, "A report's way through the toll engine", shapes)


def cuboid() -> str:
    """A cuboid: rows by key, plain attributes and atomic streams."""
    shapes = [text(410, 30, "CREATE CUBOID car (vid INT KEY, lane INT, speed INT AST(6))", size=14, bold=True)]
    heads = (("vid", 90), ("lane", 190), ("speed[0]", 286), ("[-1]", 366), ("[-2]", 446), ("[-3]", 526), ("[-4]", 606))
    shapes += [text(x + 30, 66, name, size=13) for name, x in (*heads, ("[-5]", 686))]
    rows = (("100", "2", (55, 58, 61, 60, 57, 52)), ("101", "1", (12, 18, 31, 44, 50, 55)), ("107", "3", (66, 65)))
    for n, (key, lane, speeds) in enumerate(rows):
        y = 80 + 52 * n
        shapes += [box(80, y, 80, 40, key, fill=SAND), box(180, y, 80, 40, lane, fill=GREY)]
        shapes += [box(280 + 80 * i, y, 72, 40, str(v), fill=BLUE) for i, v in enumerate(speeds)]
        shapes += [box(280 + 80 * i, y, 72, 40, "", fill=CARD) for i in range(len(speeds), 6)]
    shapes += [text(120, 260, "key: found in O(1)", size=12), text(220, 260, "plain", size=12)]
    shapes += [text(516, 260, "atomic stream: the latest six elements, in a ring, each found in O(1)", size=12)]
    return drawing(820, 284, "A cuboid has a row per key, and short pasts in its rows", shapes)


def stages() -> str:
    """A network cut into stages by the keys of its boxes."""
    shapes = [
        frame(20, 26, 200, 196, "tasks that read"),
        box(40, 60, 160, 60, "filter", ["needs no state"], GREY),
        box(40, 140, 160, 60, "map", ["needs no state"], GREY),
        frame(290, 26, 200, 196, "stage 1, key: vid"),
        box(310, 60, 160, 60, "latest", ["by vid"]),
        box(310, 140, 160, 60, "running", ["by vid"]),
        frame(560, 26, 200, 196, "stage 2, key: seg"),
        box(580, 60, 160, 60, "aggregate", ["by seg, time"], TEAL),
        box(580, 140, 160, 60, "output", ["a Delta Lake table"], SAND),
        arrow(220, 124, 286, 124, "exchange"),
        arrow(490, 124, 556, 124, "exchange"),
        arrow(120, 120, 120, 137),
        arrow(390, 120, 390, 137),
        arrow(660, 120, 660, 137),
    ]
    return drawing(780, 246, "Boxes whose keys agree share a stage; tuples are exchanged where keys change", shapes)


def moving_point() -> str:
    """A moving point: two sequences of vertices, and a gap between them."""
    first = [(70, 190), (150, 150), (230, 158), (330, 90)]
    second = [(470, 120), (560, 70), (690, 84)]
    shapes = [arrow(40, 220, 780, 220), text(770, 242, "time", size=12), arrow(40, 220, 40, 30)]
    shapes += [text(62, 38, "place", size=12)]
    for n, path in enumerate((first, second)):
        line = " ".join(f"{x},{y}" for x, y in path)
        shapes.append(f'<polyline points="{line}" fill="none" stroke="#2471a3" stroke-width="2.4"/>')
        shapes += [f'<circle cx="{x}" cy="{y}" r="5" fill="#2471a3"/>' for x, y in path]
        shapes.append(text(path[0][0] + 30, path[1][1] - 12, f"sequence {n + 1}", bold=True))
    shapes += [
        text(402, 140, "a gap: nowhere", size=12),
        text(250, 200, "between vertices: straight, at constant speed", size=12),
    ]
    shapes.append(f'<line x1="640" y1="220" x2="640" y2="50" stroke="{FAINT}" stroke-dasharray="4 4"/>')
    shapes.append(text(660, 42, "atinstant(Trip, t)", size=12))
    shapes.append('<circle cx="640" cy="78.6" r="6" fill="none" stroke="#b03a2e" stroke-width="2.2"/>')
    return drawing(820, 256, "A moving point is sequences of vertices in time order", shapes)


def map_matching() -> str:
    """Positions beside streets, their candidates, and the way that is best."""
    streets = [[(40, 170), (330, 170), (780, 130)], [(330, 170), (350, 40), (560, 30)], [(330, 170), (345, 274)]]
    shapes = [_line(street, "#c8d0d6", 9) for street in streets]
    way = [(82, 170), (190, 170), (330, 170), (344, 80), (350, 40), (470, 34)]
    shapes.append(_line(way, "#1e8449", 3))
    seen = [((82, 190), (82, 170)), ((190, 150), (190, 170)), ((318, 122), (341, 108)), ((470, 52), (470, 34))]
    for number, ((x, y), (at_x, at_y)) in enumerate(seen, 1):
        shapes.append(f'<line x1="{x}" y1="{y}" x2="{at_x}" y2="{at_y}" stroke="{FAINT}" stroke-dasharray="3 3"/>')
        shapes.append(f'<circle cx="{at_x}" cy="{at_y}" r="4.5" fill="#1e8449"/>')
        shapes.append(f'<circle cx="{x}" cy="{y}" r="6" fill="#2471a3"/>')
        shapes.append(text(x - 14, y + 5, str(number), bold=True))
    other = '<line x1="318" y1="122" x2="318" y2="170" stroke="#b03a2e" stroke-dasharray="3 3"/>'
    shapes += [other, '<circle cx="318" cy="170" r="4.5" fill="none" stroke="#b03a2e" stroke-width="2"/>']
    shapes += [
        text(190, 200, "another candidate of 3:", size=12),
        text(190, 216, "no route from it is as long as 3 to 4", size=12),
        text(640, 120, "a street that nobody drove", size=12),
        text(170, 254, "blue: positions; green: the roads that were driven", size=12),
    ]
    return drawing(820, 284, "Positions are matched to the way that explains all of them best", shapes)


def _line(places: Sequence[tuple[int, int]], colour: str, width: int) -> str:
    line = " ".join(f"{x},{y}" for x, y in places)
    joined = 'stroke-linejoin="round" stroke-linecap="round"'
    return f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="{width}" {joined}/>'


def trains() -> str:
    """Rows against trains, and trains to their fragments."""
    shapes = [text(150, 32, "a row per tuple", bold=True), text(560, 32, "a train per fragment and second", bold=True)]
    for n in range(5):
        shapes.append(box(60, 46 + 30 * n, 180, 24, "vid  spd  xway  lane  pos", fill=GREY))
    for n, name in enumerate(("fragment 0", "fragment 1")):
        y = 52 + 76 * n
        shapes.append(frame(380, y - 6, 230, 66, ""))
        for i, column in enumerate(("vid", "spd", "xway", "lane", "pos")):
            shapes.append(box(388 + 44 * i, y + 4, 40, 46, column, fill=BLUE))
        shapes += [arrow(612, y + 27, 664, y + 27), box(668, y, 120, 54, name, ["one task"], TEAL)]
    shapes.append(arrow(246, 120, 372, 120, "columns of bytes"))
    return drawing(820, 216, "A train carries the tuples of one fragment and second as columns of bytes", shapes)


DIAGRAMS: dict[str, Callable[[], str]] = {
    "overview": overview,
    "commit": commit,
    "toll-engine": toll_engine,
    "cuboid": cuboid,
    "stages": stages,
    "moving-point": moving_point,
    "trains": trains,
    "map-matching": map_matching,
}

if __name__ == "__main__":
    for name, draw in DIAGRAMS.items():
        (IMAGES / f"{name}.svg").write_text(draw(), encoding="utf-8")
