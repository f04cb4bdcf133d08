"""User-defined sources as feeds of jobs."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from slipstream._io.named_feeds import Feed
from slipstream._io.readers.user_sources import OPTION, Source, UserDataSource, UserSource

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql.datasource import DataSource

    from slipstream._io.chunks import Packing


@dataclass(frozen=True)
class UserFeed(Feed):
    """A user-defined source as the feed of a job."""

    own: Source | None = None
    types: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON, for information: the source itself is given again when the job is resumed."""
        return Feed(self.where, self.encoding, self.follow).to_dict()

    @property
    def has_no_end(self) -> bool:
        """Whether the source is live: it does not define ``has_ended``."""
        return self.own is None or type(self.own).has_ended is Source.has_ended

    def check(self) -> None:
        """Nothing can be checked before it is read."""

    def source(
        self,
        folder: Path,  # noqa: ARG002
        *,
        openings: int = 0,
        alone: bool = False,  # noqa: ARG002
        control: str = "",
        packing: Packing | None = None,  # noqa: ARG002
    ) -> DataSource:
        """A stream of chunks."""
        pickled = base64.b64encode(cloudpickle.dumps(self.own)).decode()  # type: ignore[no-untyped-call]
        given = UserSource(pickled, dict(self.types), openings, control)
        return UserDataSource({OPTION: json.dumps(asdict(given))})

    def connect(self, folder: Path) -> None:
        """Nothing to connect."""
