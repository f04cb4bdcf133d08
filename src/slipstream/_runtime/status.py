"""``OUT/status.json``: what an engine is doing, for whoever starts it and waits until it is ready."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slipstream._errors import MALFORMED, SlipstreamError
from slipstream._tools.staging import appearing
from slipstream._tools.strict_json import json_of

FILE = "status.json"

#: what an engine does, in order: Spark starts and warms up; it waits for its input; it answers; it has ended
STARTING, READY, RUNNING, STOPPED = "starting", "ready", "running", "stopped"


#: why an engine stopped: it has answered all its input, or somebody asked it to
FINISHED, ASKED = "finished", "asked to stop"


class Status:
    """The state of one start of an engine; ``until`` is the second before which it ends, of a run."""

    def __init__(self, out: Path, source: str, until: int | None = None) -> None:
        self._file = out / FILE
        self._of = {"source": source, "until": until, "pid": os.getpid()}
        self.state = ""
        self.why = FINISHED  # what is said at the end, unless an error ends it

    def enter(self, state: str, why: str = "") -> None:
        """Let everybody see a new state; ``why`` says what ended an engine."""
        if state == self.state:
            return
        self.state = state
        body = {"state": state, "why": why, "since": round(time.time(), 3), **self._of}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with appearing(self._file) as file:
            file.write(json.dumps(body).encode() + b"\n")


def has_finished(out: Path, source: str, until: int | None = None) -> bool:
    """Whether an engine in ``out`` has answered all of this input already."""
    try:
        body = json_of((out / FILE).read_bytes())
        return all(
            body.get(name) == value
            for name, value in (("state", STOPPED), ("why", FINISHED), ("source", source), ("until", until))
        )
    except (FileNotFoundError, NotADirectoryError, *MALFORMED):
        return False


@contextmanager
def reported(out: Path, source: str, until: int | None = None) -> Iterator[Status]:
    """The status of an engine while it is there: starting first, stopped at the end, however that comes."""
    status = Status(out, source, until)
    status.enter(STARTING)
    why = ""
    try:
        yield status
    except KeyboardInterrupt:
        why = "interrupted"
        raise
    except SlipstreamError as error:
        why = error.message
        raise
    except BaseException as error:
        why = str(error) or type(error).__name__
        raise
    finally:
        status.enter(STOPPED, why or status.why)
