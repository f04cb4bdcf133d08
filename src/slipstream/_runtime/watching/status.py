"""``OUT/status.json``: the state of a job, for whoever starts it and waits until it is ready."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from slipstream._errors import MALFORMED, SlipstreamError, Unavailable, classify
from slipstream._tools.files.staging import atomic_write
from slipstream._tools.strict_json import parse_json

FILE = "status.json"

#: the states of a job, in order: Spark starts and warms up; it waits for input; it processes input; it has ended
STARTING, READY, RUNNING, STOPPED = "starting", "ready", "running", "stopped"


#: why a job stopped: it has processed all its input, or it was asked to
FINISHED, ASKED = "finished", "asked to stop"


class Status:
    """The state of one start of a job.

    ``until`` is the second of a recorded run before which it ends, ``pace`` how fast its input arrives: 1 in real time,
    0 as fast as it is processed.
    """

    def __init__(self, out: Path, source: str, until: int | None = None, pace: float | None = None) -> None:
        self._file = out / FILE
        self._of: dict[str, Any] = {"source": source, "until": until, "pid": os.getpid(), "pace": pace}
        self.ui = ""  # the address of Spark's own page, if it is on
        self.state = ""
        self.why = FINISHED  # reported at the end, unless an error ends it

    def enter(self, state: str, why: str = "", error: SlipstreamError | None = None) -> None:
        """Publish a new state; ``why`` is the reason the job ended, and ``error`` is what ended it, as data."""
        if state == self.state:
            return
        self.state = state
        body: dict[str, Any] = {"state": state, "why": why, "since": round(time.time(), 3), **self._of}
        body |= {"ui": self.ui} if self.ui else {}
        body |= {"error": error.to_json()} if error else {}
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(self._file) as file:
                file.write(json.dumps(body).encode() + b"\n")
        except OSError as cause:
            raise Unavailable(
                f"{self._file}: {cause.strerror or cause}.",
                hint="Make room or make it writable, and run the same command again: it resumes.",
                code=classify(cause),
            ) from cause


def has_finished(out: Path, source: str, until: int | None = None) -> bool:
    """Whether a job in ``out`` has already processed all of this input."""
    try:
        body = parse_json((out / FILE).read_bytes())
        return all(
            body.get(name) == value
            for name, value in (("state", STOPPED), ("why", FINISHED), ("source", source), ("until", until))
        )
    except (FileNotFoundError, NotADirectoryError, *MALFORMED):
        return False


@contextmanager
def report_status(out: Path, source: str, until: int | None = None, pace: float | None = None) -> Iterator[Status]:
    """Publish the status of a job while the block runs: starting first, stopped at the end, however it ends."""
    status = Status(out, source, until, pace)
    status.enter(STARTING)
    why, failure = "", None
    try:
        yield status
    except KeyboardInterrupt:
        why = "interrupted"
        raise
    except SlipstreamError as error:
        why, failure = error.message, error
        raise
    except BaseException as error:
        why = str(error) or type(error).__name__
        raise
    finally:
        # a status that cannot be written must not hide the error that ended the job
        with suppress(Unavailable) if why else nullcontext():
            status.enter(STOPPED, why or status.why, failure)
