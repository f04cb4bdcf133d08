"""Rejects of boxes: tuples from an unconnected port ``rejects`` go to the job's output of that name.

There they have the form of a feed's rejected lines: the box, the reason, and the tuple as JSON. So no tuple is lost
because a port is not connected.
"""

from __future__ import annotations

import json

import numpy as np

from slipstream._io.outputs import REJECTS
from slipstream._network.algebra import Arc, Network
from slipstream._network.boxes.operators import Operator
from slipstream._network.flow import Train, split_keys
from slipstream._network.planning.plan import Plan
from slipstream._network.tasks.sink import Tuples
from slipstream._network.tasks.train_intake import REJECT_TYPES

REASON = "reason"


def find_unconnected(network: Network) -> dict[str, Arc]:
    """Return the unconnected arcs of rejects, by names that no output has.

    >>> from slipstream._network import Builder, Keep
    >>> net = Builder("n")
    >>> kept = net.source("s", vid="integer").through(Keep("CREATE CUBOID car (vid INT KEY)"), name="car")
    >>> kept.to("kept")
    >>> find_unconnected(net.build())
    {'car.rejects': Arc(origin='car', port=1)}
    """
    if any(end.name == REJECTS for end in network.ends):
        return {}  # the network has rejects of its own
    taken = {arc for node in network.nodes for arc in node.inputs} | {end.arc for end in network.ends}
    found = {}
    for node in network.nodes:
        if isinstance(node.box, Operator) and REJECTS in node.box.ports:
            found[f"{node.name}.{REJECTS}"] = Arc(node.name, node.box.ports.index(REJECTS))
    return {name: arc for name, arc in found.items() if arc not in taken}


def is_rejects(name: str) -> bool:
    """Whether a name is one that :func:`find_unconnected` gives to rejects; names of outputs have no dots."""
    return name.endswith(f".{REJECTS}")


def convert_rejects(name: str, train: Train, plan: Plan) -> Tuples:
    """Convert what a box rejected to rows of the output."""
    types = {column: type_ for column, type_ in plan.outputs[name].layout.types.items() if column != REASON}
    tuples = Tuples(train.ts, {}, {column: train.columns[column] for column in types}, types)
    values = {column: array.to_pylist() for column, array in tuples.arrays().items()}
    lines = [json.dumps(dict(zip(values, row, strict=True))) for row in zip(*values.values(), strict=True)]
    columns = {
        "source": np.full(len(train), name.removesuffix(f".{REJECTS}"), object),
        REASON: train.columns[REASON],
        "line": np.array(lines, object),
    }
    keys = dict(zip(plan.keys, split_keys(train.order), strict=True))
    return Tuples(train.ts, keys, columns, REJECT_TYPES)
