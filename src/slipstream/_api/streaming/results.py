"""What a job has committed: its outputs, its cuboids and its trips, now and in the past."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slipstream._api import html
from slipstream._api.streaming.committed import batch_at, own_columns, quote_columns
from slipstream._api.streaming.streams import Published
from slipstream._api.trips.trip_origins import Archived
from slipstream._api.trips.trips import Trips
from slipstream._archive.trip_tables import TRIPS
from slipstream._cuboid.query.one_off import run_query
from slipstream._cuboid.snapshots.snapshot import Cuboid, Snapshot
from slipstream._cuboid.snapshots.snapshot_files import FILE as CATALOGUE
from slipstream._cuboid.snapshots.snapshot_files import FOLDER as SNAPSHOT
from slipstream._errors import MALFORMED, BadArgument
from slipstream._io import outputs
from slipstream._io.outputs import BATCH
from slipstream._network.running import output_results
from slipstream._runtime import job
from slipstream._runtime.watching import status
from slipstream._spark import session
from slipstream._tools.files.locations import to_path
from slipstream._tools.html_table import table
from slipstream._tools.strict_json import parse_json
from slipstream._trajectories.data import Data

if TYPE_CHECKING:
    from pandas import DataFrame as PandasFrame
    from pyspark.sql import DataFrame, SparkSession

#: rows that a notebook shows
_SHOWN = 20


@dataclass(frozen=True)
class JobStatus:
    """What a job is doing, and how much it has done.

    >>> JobStatus("running", batches=3, tuples=1200, outputs={"slow": 7}).is_active
    True
    """

    state: str  # new, starting, ready, running, stopped or failed
    why: str = ""  # why it stopped: "finished", "asked to stop", or what went wrong
    batches: int = 0  # that are committed
    tuples: int = 0  # that were read
    rejects: int = 0  # lines that are not tuples
    outputs: dict[str, int] = field(default_factory=dict)  # the rows of each output

    @property
    def is_active(self) -> bool:
        """Whether the job is starting, ready or running."""
        return self.state in (status.STARTING, status.READY, status.RUNNING)

    @property
    def has_finished(self) -> bool:
        """Whether the job has processed all of its input."""
        return (self.state, self.why) == (status.STOPPED, status.FINISHED)

    def _repr_html_(self) -> str:
        return html.status(None, self)


def read_status(folder: Path) -> JobStatus:
    """Return the status of the job in a folder."""
    try:
        body = parse_json((folder / status.FILE).read_bytes())
        state, why = str(body["state"]), str(body["why"])
    except (FileNotFoundError, NotADirectoryError, *MALFORMED):
        state, why = "new", ""
    batches = outputs.read_journal(folder)
    rows: dict[str, int] = {}
    for batch in batches:
        for name, count in batch.outputs.items():
            rows[name] = rows.get(name, 0) + count
    tuples, rejects = sum(batch.tuples for batch in batches), sum(batch.rejects for batch in batches)
    return JobStatus(state, why, len(batches), tuples, rejects, rows)


def open(folder: str | Path) -> Results:
    """Open the folder of a job, of whatever kind, while it runs or afterwards.

    >>> import slipstream as ss
    >>> ss.open("nowhere")
    Traceback (most recent call last):
        ...
    slipstream._errors.BadArgument: nowhere: not the folder of a job.
    Give the --out folder of a job.
    """
    place = to_path(folder)
    if Data.is_at(place):
        raise BadArgument(
            f"{place}: trajectories, not the folder of a job.", hint="ss.Trips.read opens them.", code="wrong-file-type"
        )
    job.JobFile.read(place)
    return Results(place)


@dataclass(frozen=True)
class Results:
    """The results of a job: outputs by name, cuboids, trips. ``slipstream.open`` returns them.

    >>> import slipstream as ss
    >>> cars = ss.read("positions.csv")
    >>> kept = cars.keep("CREATE CUBOID car (id BIGINT KEY, speed AST(6))")
    >>> job = ss.Job("out").write(cars.filter("speed < 20"), name="slow").archive(cars)
    >>> out = job.write(kept.query("SELECT id, max(speed) AS most FROM car"), name="most").run()
    >>> out.status().has_finished, out.names
    (True, ['most', 'rejects', 'slow', 'trips', 'trips_rejects'])
    >>> len(out["slow"]), len(out.trips()), out.cuboid("car")[1].speed[0]
    (2, 2, 50.0)
    >>> ss.open("out").status() == out.status()
    True
    """

    folder: Path
    _until: int | None = field(default=None, repr=False)

    @property
    def names(self) -> list[str]:
        """The names of the outputs."""
        return outputs.output_names(self.folder)

    def __getitem__(self, output: str) -> Output:
        if output not in self.names:
            raise BadArgument(
                f"{self.folder}: no output {output!r}.",
                hint=f"It has: {', '.join(self.names)}.",
                code="unknown-name",
                found=output,
                expected=[*self.names],
            )
        return Output(self.folder, output, self._until)

    def __contains__(self, output: object) -> bool:
        return output in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def status(self) -> JobStatus:
        """What the job is doing and how much it has done."""
        return read_status(self.folder)

    def as_of(self, moment: int | datetime) -> Results:
        """Return the results as of a committed batch, or as of an instant (UTC, unless it names its zone)."""
        return replace(self, _until=batch_at(self.folder, moment))

    def trips(self, name: str = TRIPS) -> Trips:
        """Return the trips that the job has archived."""
        if name not in self.names:
            raise BadArgument(
                f"{self.folder}: no archived {name}.", hint="Job.archive(stream) archives trips.", code="unknown-name"
            )
        return Trips(Archived(self.folder, name, self._until))

    @property
    def cuboids(self) -> list[str]:
        """The names of the cuboids that the job publishes."""
        return self._snapshot().names if (self.folder / SNAPSHOT / CATALOGUE).exists() else []

    def cuboid(self, name: str | Published) -> Cuboid:
        """Return a cuboid as of the last commit: ``results.cuboid("car")[100].speed[0]``.

        ``as_of`` reaches back some batches: old states of cuboids are removed while a job runs.
        """
        return self._snapshot()[name.name if isinstance(name, Published) else name]

    def sql(self, select: str) -> PandasFrame:
        """Answer a query in Streamonas-SQL over the cuboids, as of the last commit."""
        import pandas as pd

        found = run_query(self._snapshot(), select)
        return pd.DataFrame({name: column.tolist() if column.ndim > 1 else column for name, column in found.items()})

    def _snapshot(self) -> Snapshot:
        if not (self.folder / SNAPSHOT / CATALOGUE).exists():
            raise BadArgument(
                f"{self.folder}: no cuboids are published there.",
                hint="Stream.keep and Stream.toll(publish=True) publish them.",
                code="unknown-name",
            )
        return Snapshot.open(self.folder, batch=self._until)

    def __repr__(self) -> str:
        return f"<Results {self.folder}: {', '.join(self.names) or 'no outputs yet'}>"

    def _repr_html_(self) -> str:
        return html.status(self.folder, self.status())


@dataclass(frozen=True)
class Output:
    """An output of a job: a table of all tuples that were committed, in their order.

    >>> import slipstream as ss
    >>> slow = ss.open("out")["slow"]
    >>> slow.columns
    ['id', 'time', 'speed', 'x', 'y']
    >>> slow.to_pandas()[["id", "speed"]]
       id  speed
    0   2   15.0
    1   2   10.0
    """

    folder: Path
    name: str
    _until: int | None = field(default=None, repr=False)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return own_columns(outputs.visible_files(self.folder, self.name).schema.names)

    def as_of(self, moment: int | datetime) -> Output:
        """Return the output as of a committed batch, or as of an instant (UTC, unless it names its zone)."""
        return replace(self, _until=batch_at(self.folder, moment))

    def to_spark(self, spark: SparkSession | None = None) -> DataFrame:
        """Return a Spark DataFrame; in ``spark``, in the session that is active, or in a new local one."""
        rows = outputs.to_frame(session.adopt(spark), self.folder, self.name, until=self._until)
        keys = output_results.order_columns(rows.columns)
        return (rows.orderBy(*keys) if keys else rows).select(*quote_columns(own_columns(rows.columns)))

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table; needs no Spark."""
        rows = outputs.read(self.folder, self.name, until=self._until)
        return output_results.own_columns(rows).drop_columns(BATCH)

    def to_pandas(self) -> PandasFrame:
        """Return a pandas DataFrame; needs no Spark."""
        found: PandasFrame = self.to_arrow().to_pandas()
        return found

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return a list of dictionaries; needs no Spark."""
        return list(self.to_arrow().to_pylist())

    def tail(self, rows: int = _SHOWN) -> list[dict[str, Any]]:
        """Return the newest tuples, the newest last, without reading the rest."""
        return output_results.newest_results(self.folder, self.name, rows, until=self._until)

    def __len__(self) -> int:
        return int(outputs.read(self.folder, self.name, [BATCH], until=self._until).num_rows)

    def __repr__(self) -> str:
        return f"<Output {self.name} of {self.folder}: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        return table(self.tail(), self.columns)
