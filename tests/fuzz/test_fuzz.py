"""No input breaks a reader: it is accepted and right, rejected with a reason, or refused with advice.

``SLIPSTREAM_FUZZ_INPUTS`` is how many inputs `make test-long` makes in all, ``SLIPSTREAM_FUZZ_SEED`` which ones.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fuzz import bodies, folders, lines, places, queries
from fuzz.campaign import ACCEPTED, REFUSED, Reader, Tally, fuzz, outcome_of, table

SMOKE = 5_000
CAMPAIGN = 100_000


@contextmanager
def all_readers(scratch: Path) -> Iterator[list[Reader]]:
    made = [part.readers(scratch) for part in (lines, queries, places)]
    made.append(folders.readers(scratch / "folders"))
    with bodies.readers(scratch / "workspace") as routes:
        yield [reader for part in (*made, routes) for reader in part]


def campaign(scratch: Path, inputs: int, seed: int) -> list[Tally]:
    """Share inputs out among all readers, by their weights; every input can be made again from the seed."""
    with all_readers(scratch) as readers:
        whole = sum(reader.weight for reader in readers)
        return [fuzz(reader, math.ceil(inputs * reader.weight / whole), seed) for reader in readers]


def check(tallies: list[Tally], seed: int, inputs: int) -> None:
    print(table(tallies, seed))
    bugs = [bug for tally in tallies for bug in tally.bugs]
    assert not bugs, "\n".join(map(str, bugs[:50]))
    assert sum(tally.inputs for tally in tallies) >= inputs


def test_valid_inputs_are_accepted(tmp_path: Path) -> None:
    with all_readers(tmp_path) as readers:
        outcomes = {(r.name, n): outcome_of(r, data) for r in readers for n, data in enumerate(r.corpus)}
    # routes that need a run, a recording or an engine say that it is not there; not every expression is a call
    refused = {key: outcome for key, outcome in outcomes.items() if outcome != ACCEPTED}
    assert {name for name, _ in refused if not name.startswith(("POST", "PUT"))} <= {"SQL in boxes"}, refused


def test_a_few_mutated_inputs_of_every_kind(tmp_path: Path) -> None:
    check(campaign(tmp_path, SMOKE, 1), 1, SMOKE)


@pytest.mark.long
def test_a_hundred_thousand_mutated_inputs(tmp_path: Path) -> None:
    inputs = int(os.environ.get("SLIPSTREAM_FUZZ_INPUTS", CAMPAIGN))
    seed = int(os.environ.get("SLIPSTREAM_FUZZ_SEED", random.SystemRandom().randrange(10**9)))
    check(campaign(tmp_path, inputs, seed), seed, inputs)


def broken(data: bytes) -> str:
    """A reader with the faults that the harness must see."""
    if data == b"hang":
        while True:
            pass
    if data == b"crash":
        raise KeyError("field")
    if data == b"wrong":
        raise AssertionError("a wrong tuple was let in")
    from slipstream._errors import BadInput

    raise BadInput("no", hint="" if data == b"silent" else "Give another.")


@pytest.mark.parametrize("data", [b"hang", b"crash", b"wrong", b"silent"])
def test_the_harness_sees_what_it_is_for(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.campaign.LONGEST_S", 0.05)
    assert outcome_of(Reader("broken", "bytes", [b""], broken), data) != REFUSED
    assert outcome_of(Reader("broken", "bytes", [b""], broken), b"fine") == REFUSED
