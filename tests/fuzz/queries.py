"""What people write: network files and the SQL in them, Streamonas-SQL, and recordings for networks.

Of what type an expression is, Spark says; here a stand-in says it, so that the rest can be fuzzed quickly.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from fuzz.campaign import ACCEPTED, Reader
from slipstream._cli.common.user_functions import load_functions
from slipstream._cuboid import declare
from slipstream._cuboid.fragment import Fragment
from slipstream._cuboid.query.relations import Rows, append_rows
from slipstream._cuboid.query.sql import Query
from slipstream._errors import BadInput
from slipstream._network import box_functions, schemas, yaml_files
from slipstream._network.algebra import Aggregate, Builder, Order
from slipstream._network.running.recordings import read_table
from slipstream._network.sql import box_expressions
from slipstream._sql.allowed import FUNCTIONS, find_called_functions

NETWORKS = Path(__file__).parents[2] / "examples" / "networks"
SOLDIERS = {"sid": "integer", "time": "integer", "pos": "float", "name": "text", "armed": "boolean"}
EXPRESSIONS = (
    "left.pos = right.place and left.time > 3",
    "near_school(lon, lat) and abs(speed) > 3",
    "case when a > 3 then left(b, 1) else cast(c as string) end in ('1', '2', 'x')",
    "`a b` like '%x' or not d between 1 and 2e3",
    "reflect('java.lang.System', 'exit', 1) or a in (select 1)",
    "replace(lpad(a, 10, 'x'), 'x', \"yy\") || round(b, 2) <=> -.5",
)
CALLS = ("avg(price * 2)", "count(distinct vid)", "count(*)", "nearest(minute, abs(seg), coalesce(accident, 0))")
SCRIPT = """CREATE CUBOID car (vid INT KEY, speed UTINYINT AST(5), heat FLOAT AST(3), lane TINYINT, pos INT);
CREATE PATTERN w AS (9, 3, -6.5);
CREATE QUERY w1 AS SELECT vid, correlation(speed, w) AS r FROM car WHERE correlation(speed, w) > 0.95;
SELECT lane, count(*), avg(speed[0]) FROM car GROUP BY lane HAVING count(*) > 1 ORDER BY 3 DESC LIMIT 5"""
QUERIES = (
    "SELECT vid, speed[0], pos FROM car WHERE speed[0] < 100",
    "SELECT vid, avg(speed), correlation(speed, w) AS r FROM car WHERE correlation(speed, w) > 0.95 AND speed[-1] < 20",
    "SELECT lane, count(*), avg(speed[0]), max(pos) FROM car GROUP BY lane HAVING count(*) > 1 ORDER BY 3 DESC LIMIT 5",
    "SELECT * FROM car WHERE lane IN (1, 2) OR NOT pos BETWEEN 3 AND 2000 OR heat[0] IS NULL",
    "SELECT vid, -(pos + 1.5) * 2 / lane % 3, slope(speed), delta(speed, 2), heat[:] FROM car ORDER BY pos, 1",
    "SELECT min(avg(speed)), sum(pos), max(ticks(heat)) FROM car",
)


def _types(_: Any, where: str, schema: dict[str, str], texts: list[str]) -> list[str]:
    """A stand-in for Spark: comparisons are conditions, the rest are whole numbers."""
    if any("refuse" in text for text in texts):
        raise BadInput(f"{where}: refused.", hint="It was asked for.")
    return ["boolean" if any(c in text for c in ("<", ">", "=", "near")) else "integer" for text in texts]


def without_spark() -> Any:
    """A patch that puts the stand-in in the place of Spark's word on types."""
    return patch.object(schemas._Checker, "_spark_types", _types)


def read_network(data: bytes) -> str:
    """A network file: what is accepted says the same when written and read again."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput("network: not UTF-8.", hint="Save it as UTF-8.") from error
    network = yaml_files.loads(text)
    assert yaml_files.loads(yaml_files.dumps(network)) == network, "changed by a round trip"
    with without_spark():
        checked = schemas.check(network, None)  # type: ignore[arg-type]
    assert {node.name for node in checked.nodes} == {node.name for node in network.nodes}
    for node in checked.nodes:
        if isinstance(node.box, Aggregate):
            sizes = (node.box.size, node.box.advance)
            assert all(np.isfinite(size) and size > 0 for size in sizes), f"a window of {sizes}"
    return ACCEPTED


class NetworkFile:
    """A network file on disk, whose bytes may be no text."""

    def __init__(self, scratch: Path) -> None:
        self._file = scratch / "network.yaml"

    def read(self, data: bytes) -> str:
        """Load it."""
        self._file.write_bytes(data)
        yaml_files.load(self._file)
        return ACCEPTED


def read_expression(data: bytes) -> str:
    """The SQL in a box."""
    text = data.decode("utf-8", "replace")
    names = {name for _, name in box_expressions.columns(text)}
    own = box_functions.scalars()
    assert find_called_functions(text) <= FUNCTIONS | own, "a function that is not listed"
    assert box_expressions.user_calls(text) <= own
    assert set(box_expressions.mentions(text)) == names
    box_expressions.equalities(text)
    box_expressions.rename_columns(text, lambda _, name: f"x_{name}")
    box_expressions.is_column(text)
    return ACCEPTED


def read_call(data: bytes) -> str:
    """A window function in a box: what its arguments call is listed, whatever it is called itself."""
    text = data.decode("utf-8", "replace")
    call = box_expressions.parse_call(text)
    for argument in call.arguments:
        assert find_called_functions(argument) <= FUNCTIONS | box_functions.scalars(), "a function that is not listed"
    return ACCEPTED


def read_script(data: bytes) -> str:
    """Declarations and queries."""
    script = declare.parse(data.decode("utf-8", "replace"))
    for schema in script.cuboids.values():
        assert schema.dtype.itemsize < 1 << 30
    for pattern in script.patterns.values():
        assert len(pattern.values) >= 2
        assert np.isfinite(pattern.values).all(), "a pattern that nothing can be like"
    for text in (*script.queries.values(), *script.selects):
        if script.cuboids:
            Query.parse(text, script.cuboids, script.patterns)
    return ACCEPTED


def _cars() -> tuple[declare.Script, Fragment]:
    script = declare.parse(SCRIPT)
    fragment = Fragment(script.cuboids["car"])
    keys = np.array([1, 2, 3, 1, 2, 1], np.int64)
    values = np.arange(6)
    columns = {name: values.astype(script.cuboids["car"].dtype[name].base) for name in ("speed", "heat", "lane", "pos")}
    append_rows(fragment, keys, columns, show=False)
    return script, fragment


_SCRIPT, _FRAGMENT = _cars()


def read_query(data: bytes) -> str:
    """A question; what is accepted has an answer of whole columns, and the same in two parts as in one."""
    query = Query.parse(data.decode("utf-8", "replace"), _SCRIPT.cuboids, _SCRIPT.patterns)
    view = Rows.of(_FRAGMENT)
    answer = query.compute(view)
    assert len({len(column) for column in answer.values()}) <= 1, "columns of different lengths"
    parts = [query.compute_part(view.take(np.array(rows, np.int64))) for rows in ([0, 1], [2])]
    halves = query.merge(parts)
    assert {name: len(c) for name, c in halves.items()} == {name: len(c) for name, c in answer.items()}
    return ACCEPTED


class Recordings:
    """Recordings that stream into a network."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch

    def _read(self, name: str, data: bytes) -> str:
        place = self._scratch / name
        place.write_bytes(data)
        table = read_table(place, SOLDIERS)
        assert table.column_names == list(SOLDIERS)
        assert [str(field.type) for field in table.schema] == ["int64", "int64", "double", "string", "bool"]
        return ACCEPTED

    def csv(self, data: bytes) -> str:
        """A CSV file."""
        return self._read("soldiers.csv", data)

    def jsonl(self, data: bytes) -> str:
        """JSON lines."""
        return self._read("soldiers.jsonl", data)


def _small_network() -> bytes:
    net = Builder("small")
    reports = net.source("reports", vid="integer", time="integer", spd="integer")
    slow = reports.filter("spd < 40")
    counted = slow.aggregate({"n": "count(*)", "v": "avg(spd)"}, Order("time", 1, ("vid",)), size=60, advance=30)
    counted.map({"vid": "vid", "n": "n + 1"}).to("counts")
    slow.to("slow")
    return yaml_files.dumps(net.build()).encode()


def readers(scratch: Path) -> list[Reader]:
    """The readers of what people write."""
    load_functions(NETWORKS / "speeding.py")
    examples = [path.read_bytes() for path in (NETWORKS / "border.yaml", NETWORKS / "speeding.yaml")]
    networks = [_small_network(), *examples]
    rows = [{"sid": n, "time": 30 * n, "pos": 1.5 * n, "name": "x", "armed": n > 1} for n in range(4)]
    jsonl = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    table = b"sid,time,pos,name,armed\n" + b"".join(b"%d,%d,1.5,x,true\n" % (n, 30 * n) for n in range(4))
    recordings = Recordings(scratch)
    return [
        Reader("network", "yaml", networks, read_network, 5),
        Reader("network file", "bytes", networks, NetworkFile(scratch).read, 1),
        Reader("SQL in boxes", "text", [text.encode() for text in EXPRESSIONS], read_expression, 3),
        Reader("window functions in boxes", "text", [text.encode() for text in CALLS], read_call, 1),
        Reader("Streamonas-SQL declarations", "text", [SCRIPT.encode()], read_script, 3),
        Reader("Streamonas-SQL queries", "text", [text.encode() for text in QUERIES], read_query, 5),
        Reader("recording as CSV", "text", [table], recordings.csv, 1),
        Reader("recording as JSON lines", "jsonl", [jsonl], recordings.jsonl, 1),
    ]
