"""Errors a user can act on, as data: a stable code, the place, what was found, what was expected, and the next step.

Every error that reaches a user is a :class:`SlipstreamError`; the command line prints its message and ``hint`` and
exits with its ``exit_code``. Anything else is a bug and keeps its traceback. Messages are for people: code that has
to tell errors apart reads ``code`` and ``place``, never the message.
"""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from types import FrameType
from typing import Any, ClassVar

# What parsing malformed text or bytes raises, in Python and in the readers we use.
# Keep the try block small: a bug of ours in it would be reported as the user's mistake.
MALFORMED = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    NotImplementedError,
    RecursionError,
    SyntaxError,
)

#: every code, and what it means; codes are stable, sentences are not
CODES = {
    "ambiguous-name": "A name fits more than one thing: a column of both sides of a join, a run in two folders.",
    "arithmetic-error": "An expression overflows or divides by zero for a tuple.",
    "bad-argument": "An argument or option cannot be used as given, for a reason that has no code of its own.",
    "bad-config": "A key or value of slipstream.toml cannot be used.",
    "bad-coordinates": "Coordinates are in degrees where metres are needed, or off the globe, the road or the plane.",
    "bad-expression": "An SQL expression or statement cannot be parsed, or Spark refuses it.",
    "bad-input": "The contents of a file or stream cannot be used, for a reason that has no code of its own.",
    "bad-name": "A name has characters that are not allowed, or is reserved.",
    "bad-network": "Boxes, arcs or their options do not fit together: a loop, no output, a clock with a timeout.",
    "bad-request": "A request to the console is not one that its API describes.",
    "bad-type": "A column or value has a type that cannot be used there, or no known type.",
    "bad-usage": "The command line cannot be parsed: an unknown option, a missing argument, a value of the wrong type.",
    "broker-unreachable": "No Kafka broker answers, or one stopped.",
    "cancelled": "A query was cancelled, or took longer than a query may.",
    "changed-by-others": "Something other than the job has changed its tables or the files it reads.",
    "check-failed": "The work was done, and a check of its result failed.",
    "conflict": "That cannot be done in the present state: something runs, has not finished, or is missing.",
    "conflicting-options": "Options exclude or require each other.",
    "damaged-checkpoint": "A job's checkpoint or stored state is incomplete or was changed.",
    "damaged-file": "A run, a history or a data set is incomplete or was changed.",
    "damaged-output": "A job's tables, journal or snapshot are incomplete or were changed.",
    "different-job": "The folder has another job, or one that was started with other inputs or options.",
    "disk-full": "No space is left on a disk.",
    "disk-read-only": "A disk cannot be written to.",
    "duplicate-name": "A name is used twice, or is taken.",
    "empty-input": "The input has nothing to work on: no tuples, no vehicles, no seconds in the range.",
    "engine-failed": "An engine that was started for a benchmark or a fault campaign ended with an error.",
    "error": "Anything that has no code of its own.",
    "exists": "The output exists already.",
    "invalid-trajectory": "Points or units of a moving point contradict each other.",
    "io-error": "A file or folder cannot be read or written, for a reason that has no code of its own.",
    "job-running": "A job is already running in the folder.",
    "function-too-large": "A user's function is larger than the session sends to stateful stages.",
    "jvm-lost": "Spark's JVM has ended or does not answer.",
    "malformed-value": "A value is not written as its option, field or argument requires.",
    "missing-software": "A program or package is not installed: Java, protoc, GeoPandas.",
    "missing-value": "A required input, option or field is not given.",
    "no-such-file": "A file or folder does not exist.",
    "no-such-topic": "A Kafka topic does not exist.",
    "not-allowed": "A function, a setting or a place that may not be used here.",
    "not-deterministic": "An expression, a source or a box gives different results when it runs again.",
    "not-kept": "The requested past is not committed yet, or is no longer kept.",
    "not-ready": "There is no result yet, or it changes faster than it can be read: try again.",
    "not-signed-in": "The console requires its token.",
    "out-of-memory": "Spark's JVM has run out of memory.",
    "out-of-range": "A number, a time or an order is outside its range.",
    "overload": "The network needs more than the machine has at the given rates.",
    "permission-denied": "A file, a folder or a topic may not be read or written.",
    "port-unavailable": "A port cannot be listened on.",
    "run-void": "A benchmark run does not count: the driver was late, or its client left.",
    "server-unreachable": "A PostgreSQL server or a schema registry does not answer as it should.",
    "spark-not-started": "Spark did not start.",
    "store-unreachable": "S3 or HDFS does not answer, or has refused for too long.",
    "task-failed": "A Spark task failed for a reason that has no code of its own.",
    "too-large": "A limit is exceeded: ids, expressways, words of an expression, units on a page.",
    "too-many-rejects": "More of the input was rejected than --max-rejects allows.",
    "topic-changed": "A Kafka topic was deleted or recreated, or messages that were not read yet were deleted.",
    "unavailable": "Something is missing on the machine, for a reason that has no code of its own.",
    "unknown-column": "A box, an output, a query or an option names a column that does not exist.",
    "unknown-field": "A network file has a field that is not known there.",
    "unknown-name": "A box, an output, a source, a function, a cuboid or a key of that name does not exist.",
    "unknown-value": "A value is not one of those that the option or field takes.",
    "unreadable-file": "A file cannot be read in its format.",
    "unreadable-line": "A line, a row or an element of a file cannot be read, or contradicts the others.",
    "user-code": "A function, a rule set, an operator or a source of yours failed or returned something unusable.",
    "workers-differ": "The Python of Spark's workers cannot import Slipstream.",
    "wrong-file-type": "A file or folder is not of the expected kind: a folder without a job, an unknown extension.",
    "wrong-version": "A file or a job's state was written by another version.",
}

#: codes of errors of the operating system; the others are io-error
_OS_CODES = {
    errno.ENOENT: "no-such-file",
    errno.EACCES: "permission-denied",
    errno.EPERM: "permission-denied",
    errno.EEXIST: "exists",
    errno.ENOTDIR: "wrong-file-type",
    errno.EISDIR: "wrong-file-type",
    errno.ENOSPC: "disk-full",
    errno.EDQUOT: "disk-full",
    errno.EROFS: "disk-read-only",
    errno.ETIMEDOUT: "store-unreachable",
}

#: the prefix of the line in which an error travels from a Python worker of Spark to the driver
MARK = "slipstream-error: "


@dataclass(frozen=True)
class Place:
    """The place of an error, as far as it is known.

    >>> Place(file="run.csv", line=3, field="speed")
    Place(file='run.csv', line=3, column=None, box='', field='speed', words='')
    >>> str(Place(file="run.csv", line=3, field="speed"))
    'run.csv, line 3, field speed'
    """

    file: str = ""  # the path, as it was given
    line: int | None = None  # of the file, from 1
    column: int | None = None  # of the line, from 1
    box: str = ""  # a part of a network, as its file names it: boxes.over, outputs.alerts
    field: str = ""  # of a tuple, a file or a command line
    words: str = ""  # how the sentence names the place; nothing where the sentence does so itself

    def __str__(self) -> str:
        given = (
            ("", self.file),
            ("line ", self.line),
            ("column ", self.column),
            ("", self.box),
            ("field ", self.field),
        )
        return self.words or ", ".join(f"{name}{value}" for name, value in given if value not in ("", None))

    def inside(self, outer: Place) -> Place:
        """Return this place, completed from ``outer``."""
        known = {name: value for name, value in asdict(self).items() if value not in ("", None)}
        words = ", ".join(filter(None, (outer.words, self.words)))
        return replace(outer, **known | {"words": words})

    def to_json(self) -> dict[str, str | int]:
        """Return the known fields."""
        body = asdict(self)
        body.pop("words")
        return {name: value for name, value in body.items() if value not in ("", None)}


class SlipstreamError(Exception):
    """Base of all errors that users can act on.

    The message begins with the place if one is given.

    >>> print(BadInput("14 fields.", place=Place(file="run.csv", line=3), hint="A Linear Road line has 15 integers."))
    run.csv, line 3: 14 fields.
    A Linear Road line has 15 integers.
    >>> BadInput(place=Place(file="run.csv", line=3), found=14, expected=15).message
    'run.csv, line 3: found 14, expected 15.'
    """

    exit_code: ClassVar[int] = 1
    #: the code of an error that is given none
    usual_code: ClassVar[str] = "error"

    def __init__(
        self,
        problem: str = "",
        *,
        hint: str = "",
        code: str = "",
        place: Place | None = None,
        found: Any = None,
        expected: Any = None,
    ) -> None:
        self.code = code or self.usual_code
        if self.code not in CODES:
            raise ValueError(f"{self.code}: no such code of an error; add it to CODES")
        self.place = replace(place, words=str(place)) if place else Place()
        self.problem = problem or f"found {_join(found)}, expected {_join(expected)}."
        self.joint = ": "  # what stands between the place and the problem
        self.found, self.expected, self.hint = found, expected, hint
        self._notes: list[str] = []
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The sentence: where, and what is wrong."""
        return f"{self.place.words}{self.joint}{self.problem}" if self.place.words else self.problem

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), vars(self))

    def to_json(self) -> dict[str, Any]:
        """The error as programs read it: ``slipstream ... --json`` prints this."""
        body = {"code": self.code, "kind": type(self).__name__, "message": self.message, "hint": self.hint}
        data = {"place": self.place.to_json(), "found": _to_plain(self.found), "expected": _to_plain(self.expected)}
        return body | {name: value for name, value in data.items() if value not in (None, {})}

    def within(
        self, where: str | Place = "", kind: type[SlipstreamError] | None = None, hint: str = ""
    ) -> SlipstreamError:
        """Return the same error in a sentence that begins with ``where``, with another ``kind`` or ``hint`` if given.

        >>> cause = BadInput("no column 'sped'.", code="unknown-column", found="sped")
        >>> error = cause.within("boxes.over", BadArgument)
        >>> error.message, error.code, error.found
        ("boxes.over: no column 'sped'.", 'unknown-column', 'sped')
        """
        outer = Place(words=where) if isinstance(where, str) else replace(where, words=str(where))
        made = (kind or type(self))(self.message, hint=hint or self.hint, found=self.found, expected=self.expected)
        made.code = self.code if self.code != self.usual_code else made.code
        made.place = replace(self.place, words="").inside(outer)
        made.args = (made.message,)
        return made

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        """The added notes and, in a traceback that Spark sends from a worker to the driver, the data."""
        return [*self._notes, MARK + json.dumps(_carry(self))] if _is_formatted_by_spark() else self._notes

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows: the message and the hint, without the frames of our own code."""
        return [f"{type(self).__name__}: {self.message}", *([self.hint] if self.hint else [])]


class BadArgument(SlipstreamError):
    """An argument or option that cannot be used as given.

    >>> import slipstream as ss
    >>> try:
    ...     ss.read("nowhere.csv")
    ... except ss.BadArgument as error:
    ...     print(error.message)
    nowhere.csv: no such file or folder.
    """

    exit_code = 2
    usual_code = "bad-argument"


class BadInput(SlipstreamError):
    """A file or stream whose contents cannot be used, or an expression that does not fit them.

    >>> import slipstream as ss
    >>> try:
    ...     ss.read("kafka://broker:9092/positions").filter("sped < 20")
    ... except ss.BadInput as error:
    ...     print(error.code, error.found)
    unknown-column sped
    """

    exit_code = 3
    usual_code = "bad-input"


class Unavailable(SlipstreamError):
    """Something that the machine does not have: Java, disk space, a server, a port.

    >>> import slipstream as ss
    >>> issubclass(ss.Unavailable, ss.SlipstreamError), ss.Unavailable.exit_code
    (True, 4)
    """

    exit_code = 4
    usual_code = "unavailable"


class CheckFailed(SlipstreamError):
    """The work was done, and a check of its result failed.

    >>> import slipstream as ss
    >>> from slipstream import testing
    >>> class Moody(ss.Source):
    ...     schema = {"n": "bigint"}
    ...     numbers = iter(range(9))
    ...     def latest(self, start):
    ...         return 1
    ...     def read(self, start, end):
    ...         return {"n": [next(self.numbers)]}
    >>> try:
    ...     testing.check_source(Moody(), most_batches=1)
    ... except ss.CheckFailed as error:
    ...     print(error.message)
    Moody.read(0, 1) returned other tuples when it was called again.
    """

    exit_code = 5
    usual_code = "check-failed"


@contextmanager
def locate(words: str = "", *, file: str = "", box: str = "", field: str = "") -> Iterator[None]:
    """Add a place to every error that the block raises; what the error knows already is kept.

    With ``words`` its message begins with them, unless it already does.
    """
    try:
        yield
    except SlipstreamError as error:
        outer = Place(file=file, box=box, field=field, words="" if error.place.words.startswith(words) else words)
        if words and not error.place.words and error.problem.startswith(words):
            rest = error.problem.removeprefix(words)
            error.problem = rest.lstrip(":,. ")
            error.joint = rest.removesuffix(error.problem)
        error.place = error.place.inside(outer)
        error.args = (error.message,)
        raise


def classify(error: OSError) -> str:
    """Return the code for an error of the operating system.

    >>> classify(OSError(errno.ENOSPC, "No space left on device"))
    'disk-full'
    """
    return _OS_CODES.get(error.errno or 0, "io-error")


def read_carried(text: str) -> SlipstreamError | None:
    """Return our error that a worker's traceback carries; the last one, as it was caused by the others."""
    _, found, rest = text.rpartition(MARK)
    if not found:
        return None
    try:
        (kind, state), _ = json.JSONDecoder().raw_decode(rest)
    except ValueError:  # cut short by whoever passed it on
        return None
    kinds = {one.__name__: one for one in _list_kinds(SlipstreamError)}
    state["place"] = Place(**state["place"])
    return _rebuild(kinds.get(kind, SlipstreamError), state)


def _carry(error: SlipstreamError) -> tuple[str, dict[str, Any]]:
    state = {name: _to_plain(value) for name, value in vars(error).items() if not name.startswith("_")}
    return type(error).__name__, state | {"place": asdict(error.place)}


def _rebuild(kind: type[SlipstreamError], state: dict[str, Any]) -> SlipstreamError:
    made = kind(state["problem"])
    vars(made).update(state)
    made.args = (made.message,)
    return made


def _list_kinds(kind: type[SlipstreamError]) -> Iterator[type[SlipstreamError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _list_kinds(below)


def _is_formatted_by_spark() -> bool:
    """Whether PySpark or Py4J formats the error: they carry only tracebacks between Python and the JVM."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in ("pyspark", "py4j"):
            return True
        frame = frame.f_back
    return False


def _to_plain(value: Any) -> Any:
    """Convert a value to what JSON can represent."""
    if isinstance(value, dict):
        return {str(name): _to_plain(inner) for name, inner in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return [_to_plain(inner) for inner in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _join(value: Any) -> str:
    several = isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes)
    return ", ".join(map(str, value)) if several else str(value)
