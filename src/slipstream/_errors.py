"""Errors a user can act on, as data: a stable code, the place, what was found, what was expected, and the next step.

Every error that reaches a user is a :class:`SlipstreamError`; the command line prints its message and ``hint`` and
exits with its ``exit_code``. Anything else is a bug and keeps its traceback. Sentences are for people: code that has
to tell errors apart reads ``code`` and ``place``, never the message.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from types import FrameType
from typing import Any, ClassVar

# What taking text or bytes apart raises when they are not as they should be, in Python and in the readers we use.
# Keep the reader in the try small: a mistake of ours in it would be called the user's.
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
    "bad-argument": "An argument or option cannot be used as given.",
    "bad-config": "A key or value of slipstream.toml cannot be used.",
    "bad-expression": "An SQL expression cannot be parsed, or Spark refuses it.",
    "bad-input": "The contents of a file or stream cannot be used.",
    "bad-usage": "The command line cannot be parsed: an unknown option, a missing argument, a value of the wrong type.",
    "check-failed": "The work was done, and a check of its result failed.",
    "damaged-checkpoint": "Files of a job's checkpoint are incomplete or were changed.",
    "disk-full": "No space is left on a disk.",
    "disk-read-only": "A disk cannot be written to.",
    "error": "Anything that has no code of its own.",
    "exists": "The output exists already; --overwrite replaces it.",
    "jvm-lost": "Spark's JVM has ended or does not answer.",
    "no-such-file": "A file or folder does not exist.",
    "out-of-memory": "Spark's JVM has run out of memory.",
    "permission-denied": "A file or folder may not be read or written.",
    "task-failed": "A Spark task failed for a reason that has no code of its own.",
    "too-many-rejects": "More of the input was rejected than --max-rejects allows.",
    "unavailable": "The machine lacks something: Java, memory, a server, a port.",
    "unknown-column": "A box, an output or a query names a column that does not exist.",
    "unknown-name": "A name of a box, a function, a source or a table that does not exist.",
    "workers-differ": "The Python of Spark's workers cannot import Slipstream.",
}

#: how the line begins with which an error crosses from a Python worker of Spark to the driver
MARK = "slipstream-error: "


@dataclass(frozen=True)
class Place:
    """Where something is wrong, as far as it is known.

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
        """This place with what ``outer`` knows besides."""
        known = {name: value for name, value in asdict(self).items() if value not in ("", None)}
        words = ", ".join(filter(None, (outer.words, self.words)))
        return replace(outer, **known | {"words": words})

    def to_json(self) -> dict[str, str | int]:
        """What is known of it."""
        body = asdict(self)
        body.pop("words")
        return {name: value for name, value in body.items() if value not in ("", None)}


class SlipstreamError(Exception):
    """Base of all errors meant for people.

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
        self.problem = problem or f"found {_listed(found)}, expected {_listed(expected)}."
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
        return _rebuilt, (type(self), vars(self))

    def to_json(self) -> dict[str, Any]:
        """The error as programs read it: ``slipstream ... --json`` prints this."""
        body = {"code": self.code, "kind": type(self).__name__, "message": self.message, "hint": self.hint}
        data = {"place": self.place.to_json(), "found": _plain(self.found), "expected": _plain(self.expected)}
        return body | {name: value for name, value in data.items() if value not in (None, {})}

    def within(self, words: str, kind: type[SlipstreamError] | None = None) -> SlipstreamError:
        """The same error in a sentence that begins with ``words``; of another ``kind`` if that is given."""
        made = (kind or type(self))(self.message, hint=self.hint, found=self.found, expected=self.expected)
        made.code = self.code if self.code != self.usual_code else made.code
        made.place = replace(self.place, words=words)
        return made

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        """Notes that were added; and for a traceback that Spark sends from a worker to the driver, the data."""
        return [*self._notes, MARK + json.dumps(_carried(self))] if _is_formatted_by_spark() else self._notes

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the message and the hint, without the frames of our own code."""
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
    """Something the machine lacks: Java, disk space, a server, a port.

    >>> import slipstream as ss
    >>> issubclass(ss.Unavailable, ss.SlipstreamError), ss.Unavailable.exit_code
    (True, 4)
    """

    exit_code = 4
    usual_code = "unavailable"


class CheckFailed(SlipstreamError):
    """The work was done and a check of its result said no.

    >>> import slipstream as ss
    >>> from slipstream import testing
    >>> class Counter(ss.Source):
    ...     schema = {"n": "bigint"}
    ...     def latest(self, start):
    ...         return start + 1
    ...     def read(self, start, end):
    ...         return {"n": [id(object())] if start else []}
    >>> try:
    ...     testing.check_source(Counter(), most_batches=1)
    ... except ss.CheckFailed as error:
    ...     print(error.code)
    check-failed
    """

    exit_code = 5
    usual_code = "check-failed"


@contextmanager
def locate(words: str = "", *, file: str = "", box: str = "", field: str = "") -> Iterator[None]:
    """Add to every error that the block raises where it is; what the error knows itself is kept.

    With ``words`` its sentence begins with them; one that does so already stays as it is.
    """
    try:
        yield
    except SlipstreamError as error:
        outer = Place(file=file, box=box, field=field, words=words)
        if words and not error.place.words and error.problem.startswith(words):
            rest = error.problem.removeprefix(words)
            error.problem = rest.lstrip(":,. ")
            error.joint = rest.removesuffix(error.problem)
        error.place = error.place.inside(outer)
        error.args = (error.message,)
        raise


def carried_in(text: str) -> SlipstreamError | None:
    """The error of ours that a traceback of a worker carries; the last one, which is what the others led to."""
    _, found, rest = text.rpartition(MARK)
    if not found:
        return None
    try:
        (kind, state), _ = json.JSONDecoder().raw_decode(rest)
    except ValueError:  # cut short by whoever passed it on
        return None
    kinds = {one.__name__: one for one in _kinds(SlipstreamError)}
    state["place"] = Place(**state["place"])
    return _rebuilt(kinds.get(kind, SlipstreamError), state)


def _carried(error: SlipstreamError) -> tuple[str, dict[str, Any]]:
    state = {name: _plain(value) for name, value in vars(error).items() if not name.startswith("_")}
    return type(error).__name__, state | {"place": asdict(error.place)}


def _rebuilt(kind: type[SlipstreamError], state: dict[str, Any]) -> SlipstreamError:
    made = kind(state["problem"])
    vars(made).update(state)
    made.args = (made.message,)
    return made


def _kinds(kind: type[SlipstreamError]) -> Iterator[type[SlipstreamError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)


def _is_formatted_by_spark() -> bool:
    """Whether PySpark or Py4J asks: tracebacks are all that they take from Python to the JVM and back."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] in ("pyspark", "py4j"):
            return True
        frame = frame.f_back
    return False


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return [_plain(inner) for inner in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _listed(value: Any) -> str:
    several = isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes)
    return ", ".join(map(str, value)) if several else str(value)
