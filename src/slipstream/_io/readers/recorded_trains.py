"""Recorded trains as a Spark streaming source: numbered Parquet files that appear in a folder, read in order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from slipstream._io.chunks import COLUMNS, LAST, Chunk, ChunkReader, Offset, narrow, to_arrow_stream
from slipstream._tools.files.locations import to_path
from slipstream._tools.files.remote_paths import for_arrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPTION = "trains"
#: the file that marks a folder of trains as complete
END = "end"


def train_file(folder: Path, number: int) -> Path:
    """The file of a train."""
    return folder / f"train-{number:08d}.parquet"


@dataclass(frozen=True)
class Folder:
    """A folder that receives numbered trains; sent to Spark as an option."""

    path: str
    per_batch: int
    openings: int = 0

    def to_json(self) -> str:
        """Convert to JSON."""
        return json.dumps(asdict(self))

    def open(self, spark: SparkSession) -> DataFrame:
        """Open a stream of chunks, each a train."""
        spark.dataSource.register(TrainSource)
        return spark.readStream.format(TrainSource.name()).option(OPTION, self.to_json()).load()


@dataclass
class Trains(InputPartition):
    """The trains that a task reads."""

    first: int
    end: int
    last: bool  # nothing follows


class TrainSource(DataSource):
    """The source under the name ``slipstream-trains``."""

    @classmethod
    def name(cls) -> str:
        """Its name for Spark."""
        return "slipstream-trains"

    def schema(self) -> str:
        """Chunks, each a train."""
        return COLUMNS

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """The reader of one query."""
        return TrainReader(Folder(**json.loads(self.options[OPTION])))


class TrainReader(ChunkReader):
    """Reads trains in the order of their numbers."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(folder.openings)
        self._folder = folder

    def first_offset(self) -> Offset:
        """Before the first train."""
        return {"train": 0}

    def next_offset(self, start: Offset) -> Offset:
        """As many trains as there are, up to the size of a batch."""
        end, most = start["train"], start["train"] + self._folder.per_batch
        complete = (to_path(self._folder.path) / END).exists()  # checked before the files: none is added after it
        while end < most and self._locate_file(end).exists():
            end += 1
        return {"train": end, "ended": complete and not self._locate_file(end).exists()}

    def plan_tasks(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """One task reads all trains."""
        last = bool(end["ended"]) and not start["ended"]
        return [Trains(start["train"], end["train"], last)] if last or end["train"] > start["train"] else []

    def read_chunks(self, partition: Trains) -> Iterator[Chunk]:
        """A chunk for each train."""
        for number in range(partition.first, partition.end):
            yield Chunk(number, data=to_arrow_stream(narrow(pq.read_table(for_arrow(self._locate_file(number))))))
        if partition.last:
            yield Chunk(partition.end, LAST)

    def _locate_file(self, number: int) -> Path:
        return train_file(to_path(self._folder.path), number)
