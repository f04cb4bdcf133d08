"""The accounts of some vehicles, wherever they drive: books charges, returns balances, looks up history.

Input comes in whole seconds, so a balance requested in a second includes everything charged up to that second.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from slipstream._cuboid.fragment import EMPTY, Fragment, Parts, insert, locate, touch_all
from slipstream._cuboid.log import DeltaLog
from slipstream._cuboid.schema import Plain, Schema
from slipstream._feeds import tuples
from slipstream._linear_road.answers import BALANCE, EXPENDITURE, TRAVEL_TIME, Answers, make_answers
from slipstream._linear_road.rules import Rules
from slipstream._linear_road.state.past_queries import Past
from slipstream._linear_road.state.toll_fragment import Charges
from slipstream._runtime.state.store import Store
from slipstream._tools.numba_tools import Ints, Longs, compiled

ACCOUNT = Schema("ACCOUNT", (Plain("charged", "i8"), Plain("credits", "i8")))


@compiled
def settle(accounts: Parts, vid: Ints, amount: Longs, asks: Ints, half_from: int) -> Longs:
    """Book charges and return balances in the given order; an event with ``asks`` set books nothing."""
    balances = np.zeros(vid.size, dtype=np.int64)
    rows, booked = np.empty(vid.size, dtype=np.int32), 0
    for i in range(vid.size):
        row = locate(accounts, vid[i])
        if asks[i]:
            if row != EMPTY:
                balances[i] = accounts.rows[row].charged - accounts.rows[row].credits
            continue
        if row == EMPTY:
            row = insert(accounts, vid[i])
        rows[booked] = row
        booked += 1
        account = accounts.rows[row]
        if amount[i] < 0:
            account.credits -= amount[i]
        elif half_from >= 0 and account.charged >= half_from:
            account.charged += amount[i] // 2
        else:
            account.charged += amount[i]
    touch_all(accounts, rows[:booked])
    return balances


@dataclass
class Accounts:
    """The accounts of some vehicles."""

    rules: Rules
    past: Past
    accounts: Fragment = field(default_factory=lambda: Fragment(ACCOUNT))
    _log: DeltaLog = field(default_factory=DeltaLog)

    def take(self, charges: Charges, requests: dict[str, Ints]) -> Answers:
        """Book the charges and answer the requests of some whole seconds."""
        of_today = self.rules.expenditure_is_today
        kind = requests["type"]
        from_account = (kind == tuples.BALANCE) | ((kind == tuples.EXPENDITURE) & of_today)
        balances = self._settle(charges, requests["time"][from_account], requests["vid"][from_account])
        parts = []
        at = np.flatnonzero(from_account)
        for which, answer in ((tuples.BALANCE, BALANCE), (tuples.EXPENDITURE, EXPENDITURE)):
            mine = kind[at] == which
            time, arrived, qid, vid = (requests[name][at[mine]] for name in ("time", "arrived", "qid", "vid"))
            if answer == BALANCE:
                parts.append(make_answers(BALANCE, time, arrived, qid=qid, vid=vid, a=time, b=balances[mine]))
            else:
                parts.append(make_answers(EXPENDITURE, time, arrived, qid=qid, vid=vid, a=balances[mine]))
        if not of_today:
            parts.append(self._expenditures(requests, np.flatnonzero(kind == tuples.EXPENDITURE)))
        parts.append(self._travel_times(requests, np.flatnonzero(kind == tuples.TRAVEL_TIME)))
        return np.concatenate(parts)

    def _settle(self, charges: Charges, time: Ints, vid: Ints) -> Longs:
        """Book all charges; return the balances of the vehicles as of their times."""
        times = np.concatenate([charges.time, time])
        asks = np.concatenate([np.zeros(charges.time.size, np.int32), np.ones(time.size, np.int32)])
        amounts = np.concatenate([charges.amount, np.zeros(time.size, np.int64)])
        # the order of charges within a second must not depend on their fragments
        order = np.lexsort((amounts, asks, times))
        vids, amounts = np.concatenate([charges.vid, vid])[order], amounts[order]
        self.accounts.make_room(charges.vid.size)
        answers = np.empty(times.size, np.int64)
        answers[order] = settle(self.accounts.parts, vids, amounts, asks[order], self.rules.frequent_traveller)
        return answers[charges.time.size :]

    def _expenditures(self, requests: dict[str, Ints], at: Longs) -> Answers:
        asked = {name: column[at] for name, column in requests.items()}
        spent = self.past.expenditures(asked["vid"], asked["day"], asked["xway"])
        return make_answers(EXPENDITURE, asked["time"], asked["arrived"], qid=asked["qid"], vid=asked["vid"], a=spent)

    def _travel_times(self, requests: dict[str, Ints], at: Longs) -> Answers:
        asked = {name: column[at] for name, column in requests.items()}
        seconds, tolls = self.past.journeys(asked, self.rules.price_means)
        return make_answers(
            TRAVEL_TIME, asked["time"], asked["arrived"], qid=asked["qid"], vid=asked["vid"], a=seconds, b=tolls
        )

    def book(self, charges: Charges) -> None:
        """Book charges without answering requests."""
        self._settle(charges, charges.time[:0], charges.vid[:0])

    def add_copy(self, other: Accounts, vid_shift: int, number: int, shards: int) -> None:
        """Add another's accounts, vehicles shifted, that belong to shard ``number`` of ``shards``."""
        rows = other.accounts.rows.copy()
        rows["key"] += vid_shift
        self.accounts.put(rows.compress(rows["key"] % shards == number))

    def save(self, number: int, store: Store) -> None:
        """Save the changes since the last save; ``number`` increases with every batch."""
        self._log.settle(self.accounts, number, store)

    @classmethod
    def load(cls, rules: Rules, past: Past, store: Store) -> Accounts:
        """Load the accounts as last saved."""
        loaded = cls(rules, past)
        loaded._log.load(loaded.accounts, store)
        return loaded
