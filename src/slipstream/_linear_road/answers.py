"""The five kinds of answers as stages exchange them; ``tables`` defines them as users read them.

====  ===========  ====  ===================  ==============
kind  answer       id    a                    b
====  ===========  ====  ===================  ==============
0     toll         vid   Lav                  toll
1     alert        vid   accident's segment   -1
2     balance      qid   ResultTime           balance
3     expenditure  qid   tolls of the day     -1
4     travel time  qid   seconds              toll
====  ===========  ====  ===================  ==============
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

TOLL, ALERT, BALANCE, EXPENDITURE, TRAVEL_TIME = range(5)

NAMES = ("toll", "alert", "balance", "expenditure", "travel_time")

#: response time limit of each kind in seconds, in the 2004 edition
LIMITS = (5, 5, 5, 10, 30)

#: one answer; ``qid`` is -1 where it does not apply, ``arrived`` is the arrival time of the request
ANSWER = np.dtype(
    [("kind", "u1"), ("time", "<i4"), ("vid", "<i4"), ("qid", "<i4"), ("a", "<i8"), ("b", "<i8"), ("arrived", "<i8")]
)

Answers = npt.NDArray[np.void]


def make_answers(
    kind: int, time: Any, arrived: Any, *, vid: Any = -1, qid: Any = -1, a: Any = -1, b: Any = -1
) -> Answers:
    """Build answers of one kind from columns."""
    rows = np.empty(np.size(time), dtype=ANSWER)
    rows["kind"], rows["time"], rows["vid"], rows["qid"], rows["a"], rows["b"] = kind, time, vid, qid, a, b
    rows["arrived"] = arrived
    return rows
