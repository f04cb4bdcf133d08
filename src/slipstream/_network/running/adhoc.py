"""Ad hoc queries: networks that are attached to a connection point or a view of another one while it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from slipstream._errors import BadArgument, BadInput
from slipstream._network.algebra import Network
from slipstream._network.running.run_folder import ATTACHED, Execution
from slipstream._network.schemas import check
from slipstream._tools.files.locations import to_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def attach(spark: SparkSession, execution: Execution, point: str, query: Network, folder: Path) -> Execution:
    """Attach an ad hoc query to a connection point or a view: a network whose only source is the point.

    The history of the point arrives at once, new tuples as they pass, each exactly once.
    """
    history = execution.history(point)
    schema = execution.checked(spark).schemas[history.point.arc]
    if [list(source.schema.items()) for source in query.sources] != [list(schema.items())]:
        raise BadInput(
            f"network {query.name}: its source must be the connection point {point}.",
            hint="Its one source needs exactly: " + ", ".join(f"{n}: {t}" for n, t in schema.items()) + ".",
            code="bad-network",
        )
    checked = check(query, spark)
    made = Execution.lay_out(folder, query)
    made.known = checked
    where = {"folder": str(execution.folder.resolve()), "point": point, "source": query.sources[0].name}
    (folder / ATTACHED).write_text(json.dumps(where), encoding="utf-8")
    history.attach(folder / "in" / query.sources[0].name)
    return made


def detach(query: Execution) -> None:
    """Disconnect an ad hoc query: it keeps what has arrived, and nothing more will."""
    place = query.folder / ATTACHED
    if not place.exists():
        raise BadArgument(
            f"{query.folder}: not attached to anything.",
            hint="Give the folder of an attached query.",
            code="wrong-file-type",
        )
    where = json.loads(place.read_text(encoding="utf-8"))
    Execution.open(to_path(where["folder"])).history(where["point"]).detach(query.folder / "in" / where["source"])
