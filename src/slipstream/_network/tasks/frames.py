"""A streaming DataFrame as the feed of a network: a network can read whatever Spark can stream.

Its offsets are the stream's own. So it has no openings, its end is unknown, and it cannot be paused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream._io.named_feeds import Feed
from slipstream._network.tasks.train_intake import to_chunks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from slipstream._io.chunks import Packing


@dataclass(frozen=True)
class FrameFeed(Feed):
    """A streaming DataFrame, with the columns of a source."""

    frame: DataFrame | None = None
    types: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_frame(self) -> bool:
        """Always True."""
        return True

    @property
    def has_no_end(self) -> bool:
        """Always True: its end is unknown."""
        return True

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON, for information: the DataFrame is given again when the job is resumed."""
        return Feed(self.where, self.encoding, follow=True).to_dict()

    def check(self) -> None:
        """Spark has checked it."""

    def open(
        self,
        spark: SparkSession,  # noqa: ARG002
        folder: Path,  # noqa: ARG002
        *,
        openings: int = 0,  # noqa: ARG002
        alone: bool = False,  # noqa: ARG002
        control: str = "",  # noqa: ARG002
        packing: Packing | None = None,  # noqa: ARG002
    ) -> DataFrame:
        """A stream of chunks."""
        assert self.frame is not None
        return to_chunks(self.frame, self.where, dict(self.types))

    def connect(self, folder: Path) -> None:
        """Nothing to connect."""
