"""The requests that accompany position reports: one report in a hundred has one, of the same vehicle and second.

Whether a report has a request, and which, is a hash of the seed, the trip and the second, so requests can be counted in
one pass and written in another.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slipstream._feeds.tuples import BALANCE, EXPENDITURE, SEGMENTS, TRAVEL_TIME
from slipstream._tools.numba_tools import Bools, Ints, uniform

Keys = npt.NDArray[np.uint64]

BALANCES, EXPENDITURES = 0.5, 0.1  # the rest are travel times


def make_keys(seed: int, xway: int, direction: int, trip: Ints, time: Ints) -> Keys:
    """Return one number per report of a run."""
    with np.errstate(over="ignore"):
        report = (trip.astype(np.uint64) << np.uint64(20)) | time.astype(np.uint64)
        run = np.uint64((seed * 0x9E3779B97F4A7C15 + (2 * xway + direction) * 0xD1B54A32D192ED03) % 2**64)
        return np.asarray(report * np.uint64(0x2545F4914F6CDD1D) + run, dtype=np.uint64)


def has_request(keys: Keys, share: float) -> Bools:
    """Return which reports have a request."""
    return np.asarray(uniform(keys) < share)


def _to_whole(keys: Keys, purpose: int, least: int, most: int) -> Ints:
    """Return integers from ``least`` to ``most``."""
    with np.errstate(over="ignore"):
        share = uniform(keys + np.uint64(purpose))
    return (least + np.floor(share * (most - least + 1))).astype(np.int32)


def fields(keys: Keys, xway: int) -> dict[str, Ints]:
    """Return the fields of requests, except time, vehicle and number."""
    with np.errstate(over="ignore"):
        draw = uniform(keys + np.uint64(7))
    kind = np.where(draw < BALANCES, BALANCE, np.where(draw < BALANCES + EXPENDITURES, EXPENDITURE, TRAVEL_TIME))
    sinit = _to_whole(keys, 8, 0, SEGMENTS - 1)
    send = (sinit + _to_whole(keys, 9, 1, SEGMENTS - 1)) % SEGMENTS

    def only(which: int, values: Ints | int) -> Ints:
        return np.where(kind == which, values, -1).astype(np.int32)

    return {
        "type": kind.astype(np.int32),
        # as in the published files, a balance request has no expressway
        "xway": np.where(kind == BALANCE, -1, xway).astype(np.int32),
        "sinit": only(TRAVEL_TIME, sinit),
        "send": only(TRAVEL_TIME, send),
        "dow": only(TRAVEL_TIME, _to_whole(keys, 10, 1, 7)),
        "tod": only(TRAVEL_TIME, _to_whole(keys, 11, 1, 1440)),
        "day": only(EXPENDITURE, _to_whole(keys, 12, 1, 69)),
    }
