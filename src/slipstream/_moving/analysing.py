"""Checks the arguments of operators while Spark analyses a query, before anything runs.

Of a Python function, Spark knows only what it returns. But it asks a registered function to build the expression of
each call, and the builder here looks at the arguments first: at their number, types and reference systems. So a query
in SQL that cannot be answered, or only with a wrong number, is refused where it is written.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from slipstream._errors import SlipstreamError
from slipstream._moving import columns, mixing, types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: how Py4J knows that a call was refused
REFUSED = "slipstream: refused"
#: the types that parameters are annotated with, as users know them
NAMES = {
    "MPoints": "mpoint",
    "MReals": "mreal",
    "MBools": "mbool",
    "Temporals": "tfloat, tint, tbool or ttext",
    "Periods": "periods",
    "Points": "point",
    "IPoints": "ipoint",
    "Lines": "line or region",
    "Boxes": "stbox",
    "Longs": "timestamp",
    "Floats": "number",
    "Bools": "boolean",
    "str": "string or binary",
}
#: those that have coordinates
PLACES = {"MPoints", "Points", "IPoints", "Lines", "Boxes"}
_NUMBERS = ("byte", "short", "integer", "long", "float", "double", "decimal")
_TEXTS = ("string", "char", "varchar", "binary")
#: what fits every parameter: NULL without a type, and Spark's types of geometry
_ANYTHING = ("void", "geometry", "geography")


@dataclass(frozen=True)
class Signature:
    """An operator's name, and the types that each of its parameters takes; none if it takes any."""

    name: str
    parameters: tuple[tuple[str, ...], ...]
    element: str = ""  # the type of the values over time that it takes first, if its name says so

    def describe(self) -> str:
        """Return the types of all parameters.

        >>> Signature("distance", (("MPoints",), ("MPoints",))).describe()
        '(mpoint, mpoint)'
        """
        first, *others = (_name_all(kinds) for kinds in self.parameters)
        return f"({', '.join([self.element or first, *others])})"

    def find_problem(self, given: list[Any]) -> str:
        """Say what is wrong with the types of arguments, which are as Spark's JSON has them.

        >>> Signature("travelled", (("MPoints",),)).find_problem(["string"])
        'argument 1 is string, not mpoint'
        >>> Signature("travelled", (("MPoints",),)).find_problem([])
        'it takes 1 argument, not 0'
        """
        count = len(self.parameters)
        if len(given) != count:
            return f"it takes {count} argument{'s'[: count != 1]}, not {len(given)}"
        for number, (expected, kind) in enumerate(zip(self.parameters, given, strict=True), 1):
            found = find_kind(kind)
            if expected and found is not None and found not in expected:
                shown = kind if isinstance(kind, str) else NAMES.get(found, found)
                return f"argument {number} is {shown}, not {_name_all(expected)}"
        return self._find_wrong_element(given)

    def _find_wrong_element(self, given: list[Any]) -> str:
        kind = _name_values(given[0]) if self.element and given else ""
        return f"argument 1 is {kind}, not {self.element}" if kind != self.element and kind else ""


def _name_all(kinds: tuple[str, ...]) -> str:
    return " or ".join(NAMES[kind] for kind in kinds) or "anything"


def _name_values(kind: Any) -> str:
    """Return which value over time a type is; nothing for others."""
    if find_kind(kind) != "Temporals":
        return ""
    element = next(field["type"]["elementType"] for field in kind["fields"] if field["name"] == "value")
    names = {"double": types.TFLOAT, "long": types.TINT, "boolean": types.TBOOL, "string": types.TTEXT}
    return names[element].name if element in names else f"one of {element}"


def find_kind(kind: Any) -> str | None:
    """Return what a type is read as, as parameters are annotated; its own name if as nothing, None if as anything.

    >>> find_kind("decimal(3,1)"), find_kind({"type": "array", "elementType": "double"}), find_kind("void")
    ('Floats', 'array', None)
    """
    if isinstance(kind, dict):
        names = tuple(field["name"] for field in kind.get("fields", ()))
        return columns.find_class(names) or str(kind["type"])
    plain = str(kind).split("(")[0].split(" ")[0]
    for kinds, name in ((_NUMBERS, "Floats"), (_TEXTS, "str"), (("timestamp", "timestamp_ntz"), "Longs")):
        if plain in kinds:
            return name
    return None if plain in _ANYTHING else {"boolean": "Bools"}.get(plain, plain)


class CheckedCall:
    """What Spark asks to build the expression of an operator's call."""

    class Java:
        """The interface of Scala's that Spark calls."""

        implements: ClassVar = ["scala.Function1"]

    def __init__(self, jvm: Any, signature: Signature, function: Any) -> None:
        self._jvm = jvm
        self._signature = signature
        self._function = function

    def apply(self, arguments: Any) -> Any:
        """Return the expression of a call, or refuse the call."""
        expressions = [arguments.apply(number) for number in range(arguments.size())]
        given = [json.loads(expression.dataType().json()) for expression in expressions]
        if problem := self._signature.find_problem(given):
            self._refuse(expressions, problem, f"{self._signature.name} takes {self._signature.describe()}")
        if sum(find_kind(kind) in PLACES for kind in given) > 1:
            try:
                mixing.refuse_mixed_expressions(self._signature.name, expressions)
            except SlipstreamError as error:
                self._refuse(expressions, str(error).split("\n")[0].partition(": ")[2].rstrip("."), error.hint)
        return self._function.builder(arguments)

    def _refuse(self, expressions: list[Any], problem: str, hint: str) -> None:
        from py4j.protocol import Py4JJavaError

        call = f"{self._signature.name}({', '.join(expression.sql() for expression in expressions)})"
        # Spark's own AnalysisException is a checked one, which Java does not let through here
        refusal = self._jvm.java.lang.IllegalArgumentException(f"{call}: {problem}.\n{hint.rstrip('.')}.")
        raise Py4JJavaError(REFUSED, refusal)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a record of Py4J's is of something else than a call that was refused, which Spark reports."""
    error = record.exc_info[1] if record.exc_info else None
    return not str(getattr(error, "errmsg", "")).startswith(REFUSED)


def register(spark: SparkSession, operators: dict[Signature, Callable[..., Any]]) -> None:
    """Register operators as SQL functions of a session, whose arguments are checked in analysis."""
    from pyspark.java_gateway import ensure_callback_server_started

    jvm: Any = spark.sparkContext._jvm
    gateway: Any = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    # otherwise Spark would raise an error with the text of Python's traceback
    for parameters in ("callback_server_parameters", "python_parameters"):
        if hasattr(gateway, parameters):
            getattr(gateway, parameters).propagate_java_exceptions = True
    for name in ("py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).addFilter(_is_news)
    registry: Any = spark._jsparkSession.sessionState().functionRegistry()
    for signature, function in operators.items():
        drop_function(spark, signature.name)
        made: Any = spark.udf.register(signature.name, function)
        call = CheckedCall(jvm, signature, made._judf)
        drop_function(spark, signature.name)
        registry.createOrReplaceTempFunction(signature.name, call, "python_udf")


def drop_function(spark: SparkSession, name: str) -> None:
    """Remove a SQL function of a session, if there is one: Spark warns of every function that is replaced."""
    state: Any = spark._jsparkSession.sessionState()
    state.catalog().dropTempFunction(name, True)
