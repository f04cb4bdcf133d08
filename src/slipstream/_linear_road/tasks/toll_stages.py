"""The stages of the toll engine and the rows they exchange, without Spark.

    trains --> tolls, by fragment (expressway modulo fragments) --> accounts, by shard (vehicle modulo shards) --> files
               trips, by fragment

All rows have one form, ``Hop``, so that one query carries trains, answers, charges, requests, trips and rejects. A
stage takes whole seconds and passes on whole seconds. The arrival time of a tuple is passed on to its answer: in
milliseconds, rounded down to a tenth of a second, so that no response time is understated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slipstream._archive.linear_road_trips import ReportTrips
from slipstream._feeds import trains
from slipstream._feeds.lane_parcels import Reject
from slipstream._feeds.parse import Columns
from slipstream._io.chunks import ARRIVALS_MS, read_arrow_stream, to_arrow_stream
from slipstream._io.report_packing import assign_fragments, reject_lines
from slipstream._linear_road.answers import ALERT, TOLL, Answers, make_answers
from slipstream._linear_road.schedule import Irregular
from slipstream._linear_road.state.accounts import Accounts
from slipstream._linear_road.state.cars import NOWHERE
from slipstream._linear_road.state.toll_fragment import Charges, Entries, TollFragment
from slipstream._tools.numba_tools import Ints, Longs

TRAIN, ANSWERS, CHARGES, REQUESTS, REJECTS, OPENING, COUNTED, TRIPS, END, MATCHES, NAMES = range(11)
#: of rejects, in ``requests``: their lines are tuples, with the number of a vehicle identified by text
NUMBERED = 1

#: metadata key of matches: the name of the query
_QUERY = b"query"

#: the Spark columns of a hop
COLUMNS = "key int, what int, second int, arrived long, reports int, requests int, payload binary"


#: The keys of the fragments or shards in Spark, in order. Any numbers would do; ``layout`` chooses them so that Spark's
#: hash distributes them evenly over partitions.
Labels = tuple[int, ...]


class Hop(NamedTuple):
    """One row between stages."""

    key: int  # fragment or shard
    what: int
    second: int
    arrived: int  # of trains: in milliseconds; of names: the part that assigned their numbers
    reports: int  # of names: the first one's number in its part
    requests: int  # of trips and names: their count
    payload: bytes


_SIZES = ("reports", "requests")
_WIDE = {"arrived": pa.int64(), "payload": pa.binary()}
ARROW = pa.schema([(name, _WIDE.get(name, pa.int32())) for name in Hop._fields])


def to_arrow(hops: list[Hop]) -> pa.RecordBatch:
    """Convert hops to Spark's form."""
    return pa.record_batch(list(map(list, zip(*hops, strict=True))), schema=ARROW)


CHARGE = np.dtype([("vid", "<i4"), ("time", "<i4"), ("amount", "<i8")])
REQUEST = np.dtype([*((name, "<i4") for name in ("time", *trains.REQUEST_FIELDS)), ("arrived", "<i8")])


def divide_by_fragment(tuples: Columns, fragments: Labels, arrived: Longs | None = None) -> Iterator[Hop]:
    """Return trains of whole seconds, one per second, fragment and arrival: reports by expressway, requests by vehicle.

    Without ``arrived``, tuples count as arrived at the start of their second.
    """
    if not tuples["type"].size:
        return
    fragment = assign_fragments(tuples, len(fragments))
    moment = 1000 * tuples["time"].astype(np.int64) if arrived is None else arrived // ARRIVALS_MS * ARRIVALS_MS
    order = np.lexsort((moment, fragment, tuples["time"]))
    time, fragment, moment = tuples["time"][order], fragment[order], moment[order]
    cuts = np.flatnonzero((np.diff(time) != 0) | (np.diff(fragment) != 0) | (np.diff(moment) != 0)) + 1
    for start, end in zip([0, *cuts], [*cuts, time.size], strict=True):
        train = {name: column[order[start:end]] for name, column in tuples.items()}
        yield Hop(fragments[fragment[start]], TRAIN, int(time[start]), int(moment[start]), *trains.encode(train))


def decode_trains(hops: Iterable[Hop]) -> list[trains.FeedTrain]:
    """Decode the trains among some hops."""
    return [
        trains.decode(hop.second, hop.reports, hop.requests, hop.payload, hop.arrived)
        for hop in hops
        if hop.what == TRAIN
    ]


def rejects_hop(key: int, second: int, rejects: list[Reject]) -> Iterator[Hop]:
    """Encode rejected tuples."""
    if rejects:
        yield Hop(key, REJECTS, second, 0, len(rejects), NUMBERED, reject_lines(rejects))


def toll_stage(state: TollFragment, hops: Iterable[Hop], shards: Labels, number: int = 0) -> Iterator[Hop]:
    """Apply trains to fragment ``number``; return notifications and alerts, charges and requests."""
    hops = list(hops)
    shard = shards[number % len(shards)]
    arrived = decode_trains(hops)
    last = max(hop.second for hop in hops)
    entries, charges = state.take(arrived)
    answers = answer_entries(entries)
    if answers.size:
        yield Hop(shard, ANSWERS, last, 0, answers.size, 0, answers.tobytes())
    yield from _count_tuples(hops, shard, state.take_irregular())
    booked = np.empty(charges.vid.size, CHARGE)
    booked["vid"], booked["time"], booked["amount"] = charges.vid, charges.time, charges.amount
    yield from _divide_by_shard(CHARGES, booked, last, shards)
    yield from _divide_by_shard(REQUESTS, _requests(arrived), last, shards)
    for hop in hops:
        if hop.what == NAMES:
            # every fragment receives all names: one of them passes them on
            yield from (hop._replace(key=key) for key in shards if number == 0)
        elif hop.what != TRAIN:
            yield hop._replace(key=shard)


def _count_tuples(hops: list[Hop], key: int, irregular: Irregular) -> Iterator[Hop]:
    """Count the tuples in trains, for the journal."""
    carried = [hop for hop in hops if hop.what == TRAIN]
    if carried:
        reports, requests = (sum(getattr(hop, name) for hop in carried) for name in _SIZES)
        yield Hop(key, COUNTED, max(hop.second for hop in hops), 0, reports, requests, irregular.to_bytes())


def trip_stage(state: ReportTrips, hops: Iterable[Hop], key: int, *, alone: bool = False) -> Iterator[Hop]:
    """Apply trains to the open trips; return those that have ended, for ``key``.

    Only a stage that runs ``alone`` passes on counts, rejects and names: otherwise the toll stage does.
    """
    hops = list(hops)
    last = max(hop.second for hop in hops)
    over = state.take(decode_trains(hops), last=any(hop.what == END for hop in hops))
    for piece in over.pieces():
        yield Hop(key, TRIPS, last, 0, piece.time.size, piece.vid.size, piece.to_bytes())
    if alone:
        yield from _count_tuples(hops, key, Irregular())
        yield from (hop for hop in hops if hop.what in (REJECTS, NAMES))


def encode_matches(key: int, second: int, query: str, rows: pa.Table) -> Hop:
    """Encode what a continuous query found."""
    named = rows.replace_schema_metadata({_QUERY: query})
    return Hop(key, MATCHES, second, 0, rows.num_rows, 0, to_arrow_stream(named))


def decode_matches(hop: Hop) -> tuple[str, pa.Table]:
    """Return the name of a query and what it found."""
    rows = read_arrow_stream(hop.payload)
    return rows.schema.metadata[_QUERY].decode(), rows.replace_schema_metadata(None)


def end_hops(fragments: Labels, second: int) -> Iterator[Hop]:
    """Tell all fragments that their input has ended."""
    return (Hop(fragment, END, second, 0, 0, 0, b"") for fragment in fragments)


def answer_entries(entries: Entries) -> Answers:
    """Return toll notifications, followed by alerts."""
    alerted = entries.alert != NOWHERE
    tolls = make_answers(TOLL, entries.time, entries.arrived, vid=entries.vid, a=entries.lav, b=entries.toll)
    warned = Entries(*(column[alerted] for column in entries))
    alerts = make_answers(ALERT, warned.time, warned.arrived, vid=warned.vid, a=warned.alert)
    return np.concatenate([tolls, alerts])


def _requests(arrived: list[trains.FeedTrain]) -> npt.NDArray[np.void]:
    """Return the requests of all trains."""
    counts = [train.requests["vid"].size for train in arrived]
    asked = np.empty(sum(counts), REQUEST)
    asked["time"] = np.repeat(np.array([train.second for train in arrived], np.int32), counts)
    asked["arrived"] = np.repeat(np.array([train.arrived for train in arrived], np.int64), counts)
    for name in trains.REQUEST_FIELDS:
        asked[name] = np.concatenate([np.empty(0, np.int32), *(train.requests[name] for train in arrived)])
    return asked


def _divide_by_shard(what: int, rows: npt.NDArray[np.void], second: int, shards: Labels) -> Iterator[Hop]:
    shard = rows["vid"] % len(shards)
    for number in np.unique(shard):
        mine = rows[shard == number]
        yield Hop(shards[number], what, second, 0, mine.size, 0, mine.tobytes())


def account_stage(state: Accounts, hops: Iterable[Hop]) -> Iterator[Hop]:
    """Book charges and answer requests; return these answers, and everything else to be written as it is."""
    hops = list(hops)
    booked = _gather(hops, CHARGES, CHARGE)
    asked = _gather(hops, REQUESTS, REQUEST)
    charges = Charges(*(np.ascontiguousarray(booked[name]) for name in ("vid", "time", "amount")))
    requests: dict[str, Ints] = {name: np.ascontiguousarray(asked[name]) for name in REQUEST.names or ()}
    answers = state.take(charges, requests)
    if answers.size:
        last = max(hop.second for hop in hops)
        yield Hop(hops[0].key, ANSWERS, last, 0, answers.size, 0, answers.tobytes())
    yield from (hop for hop in hops if hop.what in (ANSWERS, REJECTS, COUNTED, TRIPS, MATCHES, NAMES))


def _gather(hops: list[Hop], what: int, dtype: np.dtype[Any]) -> npt.NDArray[np.void]:
    return np.frombuffer(b"".join(hop.payload for hop in hops if hop.what == what), dtype)
