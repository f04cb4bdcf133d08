"""Translates a failed query: the network, its tuples or the machine is the cause, without Spark's stack trace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slipstream._errors import BadInput, SlipstreamError, Unavailable
from slipstream._network.algebra import Network
from slipstream._spark import session

_RESUMES = "`slipstream network run FILE --out {}` without --input resumes"


@contextmanager
def query_errors(network: Network, folder: Path | None = None, again: str = "") -> Iterator[None]:
    """Translate a failed query into a SlipstreamError, without Spark's stack trace.

    ``folder`` has the committed output, if there is any; ``again`` is the hint on how to resume, if not by `network
    run`.
    """
    from pyspark.errors import StreamingQueryException

    again = again or _resume_hint(folder)
    try:
        yield
    except StreamingQueryException as error:
        raise _failure(network, folder, error, again) from error
    except Exception as error:
        if (found := session.translate_error(error, again, folder and folder / "checkpoint")) is None:
            raise
        raise found from error


def _failure(network: Network, folder: Path | None, error: Exception, again: str) -> SlipstreamError:
    found = session.translate_error(error, again, folder and folder / "checkpoint")
    if isinstance(found, BadInput):
        return found.within(f"network {network.name} stopped")
    if found is not None and found.code != session.TASK_FAILED:
        return found
    causes = re.findall(r"\w+(?:Error|Exception): [^\n]+", str(error))
    if not causes:
        what = re.sub(r"\[STREAM_FAILED\].*?terminated with exception: ", "", str(error)).splitlines()[0][:300]
        return Unavailable(f"network {network.name} stopped: {what}", hint=again, code="task-failed")
    fixed = f" If you fixed only a function, keep the folder. {again}" if folder else ""
    return BadInput(
        f"network {network.name} stopped: {causes[-1][:300]}",
        hint=f"Fix the expression, the function or the tuples, and run it in another folder.{fixed}",
        code="task-failed",
    )


def _resume_hint(folder: Path | None) -> str:
    return f"Committed output is safe: {_RESUMES.format(folder)} there." if folder else session.NOTHING_KEPT
