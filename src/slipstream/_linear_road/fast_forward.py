"""Start in the middle of a run: a batch job computes the state as of second T.

Copies of a multiplied run do not interact. So the state is computed once for the stored expressways, at full speed, and
every fragment and shard derives from it the state of the copies it holds, with shifted ids. It enters the query as its
first batch, in place of all the seconds before T.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from slipstream import __version__
from slipstream._errors import BadArgument
from slipstream._feeds import trains
from slipstream._feeds.run import MINUTE, Run
from slipstream._feeds.tuples import POSITION
from slipstream._linear_road.replay import read_minute, select_second
from slipstream._linear_road.rules import find_rules
from slipstream._linear_road.state.accounts import Accounts
from slipstream._linear_road.state.past_queries import Past
from slipstream._linear_road.state.toll_fragment import Charges, TollFragment
from slipstream._spark.session import task_errors
from slipstream._tools.files.locations import to_path
from slipstream._tools.progress import bar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DONE = "computed"


@dataclass(frozen=True)
class FastForward:
    """The state of a run's stored expressways as of second ``until``, in a folder; passed to Spark as JSON."""

    folder: str
    run: str
    copies: int
    rules: str
    until: int

    def to_json(self) -> str:
        """Encode as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> FastForward:
        """Decode from JSON."""
        return cls(**json.loads(text))

    @property
    def identity(self) -> str:
        """What the state depends on: a folder with another identity has another state."""
        manifest = hashlib.sha256((Path(self.run) / "manifest.json").read_bytes()).hexdigest()
        return json.dumps({"run": manifest, "rules": self.rules, "until": self.until, "version": __version__})

    def compute(self, spark: SparkSession) -> None:
        """Compute the state once, with one Spark task per stored expressway."""
        folder = to_path(self.folder)
        if (folder / _DONE).exists() and (folder / _DONE).read_text(encoding="utf-8") == self.identity:
            return
        check_minute(self.until)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _DONE).unlink(missing_ok=True)
        stored = Run.open(self.run).stored
        with task_errors(), bar("fast-forward", 2) as advance:
            spark.range(0, stored, 1, stored).mapInArrow(self._drive, "id long").collect()
            advance(1)
            spark.range(0, 1, 1, 1).mapInArrow(self._settle, "id long").collect()
            advance(1)
        (folder / _DONE).write_text(self.identity, encoding="utf-8")

    def fragment(self, number: int, fragments: int, *, keeps_past: bool = False) -> TollFragment:
        """Return the state of fragment ``number`` of ``fragments``; cars start with empty pasts."""
        run = Run.open(self.run)
        parts: list[TollFragment] = [self._load(stored) for stored in range(run.stored)]
        made = TollFragment(find_rules(self.rules), keeps_past=keeps_past)
        made.cars.make_room(sum(len(part.cars) for part in parts) * self.copies // fragments)
        for copy in range(self.copies):
            for part, expressway in zip(parts, run.manifest.expressways, strict=True):
                xway = expressway.xway + copy * run.xway_stride
                if xway % fragments == number:
                    made.add_copy(part, xway, copy * run.manifest.vid_stride)
        return made

    def accounts(self, number: int, shards: int, past: Past) -> Accounts:
        """Return the state of shard ``number`` of ``shards``."""
        run = Run.open(self.run)
        made, stored = Accounts(find_rules(self.rules), past), self._load("accounts")
        made.accounts.make_room(len(stored.accounts) * self.copies // shards)
        for copy in range(self.copies):
            made.add_copy(stored, copy * run.manifest.vid_stride, number, shards)
        return made

    def _file(self, name: object) -> Path:
        return to_path(self.folder) / f"{name}.pickle"

    def _load(self, name: object) -> Any:
        return pickle.loads(self._file(name).read_bytes())

    def _drive(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Task: compute the cars, segments and charges of stored expressways."""
        for batch in batches:
            for stored in batch.column(0).to_pylist():
                fragment, charges = TollFragment(find_rules(self.rules)), []
                for minute in range(self.until // MINUTE):
                    charges.append(fragment.take(list(_trains(self.run, stored, minute)))[1])
                fragment.advance_to(self.until)
                self._file(stored).write_bytes(pickle.dumps(fragment))
                with self._file(stored).with_suffix(".npy").open("wb") as file:
                    np.save(file, _columns(charges))
            yield batch

    def _settle(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Task: compute the accounts after all charges."""
        for batch in batches:
            files = sorted(to_path(self.folder).glob("*.npy"))
            charged = np.concatenate([np.load(io.BytesIO(file.read_bytes())) for file in files], axis=1)
            vid, time, amount = charged[:, np.argsort(charged[1], kind="stable")]
            accounts = Accounts(find_rules(self.rules), Past(None))
            accounts.book(Charges(vid.astype(np.int32), time.astype(np.int32), amount))
            self._file("accounts").write_bytes(pickle.dumps(accounts))
            yield batch


def check_minute(second: int) -> None:
    """Refuse a second at which no state can be computed."""
    if second % MINUTE:
        raise BadArgument(
            f"--fast-forward-to {second} is not the start of a minute.",
            hint=f"Give a multiple of {MINUTE}, such as {second // MINUTE * MINUTE}.",
            code="out-of-range",
            found=second,
        )


def _columns(charges: list[Charges]) -> Any:
    return np.concatenate([np.stack([c.astype(np.int64) for c in part]) for part in charges], axis=1)


def _trains(path: str, stored: int, minute: int) -> Iterator[trains.FeedTrain]:
    columns = read_minute(path, stored, minute)
    for second in range(minute * MINUTE, (minute + 1) * MINUTE):
        tuples = select_second(columns, second)
        reports = {name: column[tuples["type"] == POSITION] for name, column in tuples.items()}
        yield trains.decode(second, *trains.encode(reports))
