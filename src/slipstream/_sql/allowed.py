"""The SQL an expression may use: the one list of allowed functions, and the check against it.

Expressions may come from untrusted files and pages, and Spark runs them. So an expression may only call functions on
this list: built in, deterministic, without side effects, with no access to the JVM, files or tables. Left out are
functions that make much of little (``repeat``, ``sequence``), that may take unbounded time (regular expressions), and
that take or return arrays, maps, structs or times, which no column has.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NoReturn

from sqlglot import exp, parse_one

from slipstream._errors import BadInput
from slipstream._sql.parsing import (
    NAME,
    NUMBER,
    QUOTED,
    TEXT,
    UNREADABLE,
    Word,
    check_depth,
    find_closing_bracket,
    quote,
    split_arguments,
    split_words,
    suggest,
)

DIALECT = "spark"


def _split_names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


#: functions whose result is a number or a truth value
NUMBERS = _split_names(
    """
    abs acos acosh asin asinh atan atan2 atanh bround cbrt ceil ceiling cos cosh cot csc degrees e exp expm1 factorial
    floor hypot ln log log10 log1p log2 mod negative pi pmod positive pow power radians rint round sec sign signum sin
    sinh sqrt tan tanh try_add try_divide try_mod try_multiply try_subtract width_bucket
    bit_count bit_get getbit shiftleft shiftright shiftrightunsigned
    isnan isnotnull isnull equal_null
    ascii bit_length char_length character_length contains endswith find_in_set instr length len locate octet_length
    position startswith crc32 hash xxhash64 to_unix_timestamp
    """
)
#: functions whose result is text
TEXTS = _split_names(
    """
    bin btrim char chr concat concat_ws conv from_unixtime hex initcap lcase left lower lpad ltrim md5 replace reverse
    right rpad rtrim sha sha1 sha2 soundex split_part substr substring substring_index translate trim ucase upper
    """
)
#: functions that return one of their arguments, or state the result type themselves
CHOICES = _split_names("coalesce greatest if ifnull least nanvl nullif nullifzero nvl nvl2 zeroifnull cast try_cast")
FUNCTIONS = NUMBERS | TEXTS | CHOICES
#: functions over many tuples, by their SQL names: these belong in an aggregate box
AGGREGATES = _split_names("any avg bool_and bool_or count every first last max mean min some stddev sum")
KEYWORDS = _split_names("and as between case div else end false ilike in is like not null or then true when")
TYPES = _split_names(
    "bigint boolean byte dec decimal double float int integer long numeric real short smallint string tinyint"
)

#: function -> the argument that must be a literal number, as the cost grows with it, and its largest value
_BOUNDED = {
    **dict.fromkeys(("lpad", "rpad"), (1, 1000)),
    **dict.fromkeys(("round", "bround", "ceil", "ceiling", "floor"), (1, 18)),
}
#: wildcards in a LIKE pattern; each additional one multiplies the time by the length of the text
_MAX_WILDCARDS = 2
#: a result may be this many times as long as the longest input text, or this many thousand characters
MAX_GROWTH = 1000

_OPERANDS = (NAME, QUOTED, NUMBER, TEXT)
_VALUES, _BEGINNINGS = {"null", "true", "false", "end"}, {"null", "true", "false", "case"}
_AFTER_PATTERN = {"and", "or", "then", "when", "else", "end"}
_NODES: tuple[type[exp.Expr], ...] = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Var),
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.GT, exp.GTE),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.DPipe),
    *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift),
    *(exp.Between, exp.In, exp.Is, exp.Like, exp.ILike, exp.DataType, exp.DataTypeParam, exp.Func),
)


def parse_expression(text: str, own: Collection[str] = ()) -> exp.Expr:
    """Parse an expression and check that it may be run; ``own`` are functions the user has registered.

    >>> parse_expression("speed > 3 and upper(plate) like 'B%'").sql()
    "speed > 3 AND UPPER(plate) LIKE 'B%'"
    >>> parse_expression("reflect('java.lang.System', 'exit', 1)")
    Traceback (most recent call last):
        ...
    slipstream._errors.BadInput: "reflect('java.lang.System', 'exit', 1)": the function 'reflect' may not be used.
    docs/reference/expressions.md lists the allowed functions; register your own in the file given by --functions.
    """
    found = split_words(text)
    _check_words(text, found, own)
    tree = _parse_tree(text)
    if isinstance(tree, exp.Query | exp.DDL | exp.Command):
        raise BadInput(
            f"{quote(text)} is a statement.",
            hint="A box takes an expression over its input's columns.",
            code="bad-expression",
        )
    for node in tree.walk():
        if not isinstance(node, _NODES) or (isinstance(node, exp.In) and not node.expressions):
            raise BadInput(
                f"{quote(text)}: {node.key.upper()} may not be used.",
                hint="An expression consists of columns, constants, operators, CASE, CAST and function calls.",
                code="not-allowed",
            )
    _check_columns(text, found, tree)
    check_depth(text, tree)
    return tree


def find_called_functions(text: str) -> set[str]:
    """The functions an expression calls.

    >>> sorted(find_called_functions("abs(speed) > 3 and not (near_school(lon, lat))"))
    ['abs', 'near_school']
    """
    return {word.lower for _, word in _find_calls(split_words(text))}


def bound_growth(text: str, schema: Mapping[str, str]) -> float:
    """An upper bound on the length of an expression's result, as a multiple of the longest input text.

    >>> bound_growth("concat(plate, plate, cast(speed as string))", {"plate": "text", "speed": "float"})
    2.0
    >>> bound_growth("replace(plate, 'a', 'aaaaaaaaaa')", {"plate": "text"})
    10.0
    """
    return _bound_growth(split_words(text), {name for name, type_ in schema.items() if type_ == "text"})


def _bound_growth(found: Sequence[Word], texts: Collection[str]) -> float:
    total, place = 0.0, 0
    while place < len(found):
        word = found[place]
        if _is_call(found, place):
            end = find_closing_bracket(found, place + 1)
            total += _call_growth(word.lower, split_arguments(found[place + 2 : end]), texts)
            place = end
        elif word.kind == TEXT:
            total += len(word.text) / 1000
        elif word.text.strip("`") in texts:
            total += 1
        place += 1
    return total


def _call_growth(name: str, arguments: list[list[Word]], texts: Collection[str]) -> float:
    if name in NUMBERS:
        return 0.0
    parts = [_bound_growth(argument, texts) for argument in arguments]
    if name == "replace" and len(arguments) == 3:
        return parts[0] * max(1, len(arguments[2][0].text) - 2)
    if name == "concat_ws" and parts:
        return parts[0] * len(parts) + sum(parts[1:])
    return sum(parts) * (2 if name == "hex" else 1) + (name in _BOUNDED)


#: how the parser reports a missing operand
_MISSING = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]+'>\.")


def _parse_tree(text: str) -> exp.Expr:
    try:
        return parse_one(text, dialect=DIALECT)
    except UNREADABLE as error:
        said = [_MISSING.sub("Something is missing.", line) for line in str(error).splitlines()] or [
            "Write an expression."
        ]
        raise BadInput(f"{quote(text)} is not an SQL expression.", hint=said[0], code="bad-expression") from error


# --- words


def _is_call(found: Sequence[Word], place: int) -> bool:
    word, is_open = found[place], place + 1 < len(found) and found[place + 1].text == "("
    return is_open and word.kind == NAME and word.lower not in KEYWORDS and not _is_type(found, place)


def _is_type(found: Sequence[Word], place: int) -> bool:
    return place > 0 and found[place - 1].lower == "as"


def _find_calls(found: Sequence[Word]) -> Iterator[tuple[int, Word]]:
    return ((place, word) for place, word in enumerate(found) if _is_call(found, place))


def _check_words(text: str, found: list[Word], own: Collection[str]) -> None:
    """Refuse words other than allowed functions, keywords, columns and constants: Spark gets nothing else."""
    if found and found[0].lower in ("select", "with", "from"):
        raise BadInput(
            f"{quote(text)} is a statement.",
            hint="A box takes an expression over its input's columns.",
            code="bad-expression",
        )
    if len(split_arguments(found)) > 1:
        raise BadInput(
            f"{quote(text)}: a comma outside brackets.", hint="A box takes one expression.", code="bad-expression"
        )
    casts = sum(word.lower in ("cast", "try_cast") for _, word in _find_calls(found))
    if casts != sum(word.lower == "as" for word in found):
        raise BadInput(f"{quote(text)}: AS outside a CAST.", hint="The box names its columns.", code="bad-expression")
    for place, word in _find_calls(found):
        _check_call(text, found, place, word, own)
    for place, word in enumerate(found):
        _check_neighbour(text, found, place, word)
        if word.lower in ("like", "ilike"):
            _check_pattern(text, found[place + 1 : place + 3])


def _check_call(text: str, found: list[Word], place: int, word: Word, own: Collection[str]) -> None:
    if place and found[place - 1].text == ".":
        raise BadInput(
            f"{quote(text)}: {word.text[:60]!r} is called on something.",
            hint="Call functions by one name.",
            code="bad-expression",
        )
    if not word.text.isascii() or word.lower not in FUNCTIONS | {name.lower() for name in own}:
        refuse_function(quote(text), word.text, own)
    arguments = split_arguments(found[place + 2 : find_closing_bracket(found, place + 1)])
    position, most = _BOUNDED.get(word.lower, (0, 0))
    if most and len(arguments) > position and not _is_number_to(arguments[position], most):
        raise BadInput(
            f"{quote(text)}: argument {position + 1} of {word.lower} must be a literal number of at most {most:,}.",
            hint="Write it as a number.",
            code="bad-expression",
        )
    if word.lower == "replace" and len(arguments) > 2 and [part.kind for part in arguments[2]] != [TEXT]:
        raise BadInput(
            f"{quote(text)}: argument 3 of replace must be a quoted text.",
            hint="Write it in quotes.",
            code="bad-expression",
        )


def refuse_function(where: str, name: str, own: Collection[str] = ()) -> NoReturn:
    """Raise an error for a function that is not on the list, with a suggestion."""
    guess = suggest(name, {*FUNCTIONS, *own})
    if name.lower() in AGGREGATES:
        guess = "Use an aggregate box to count or sum tuples. "
    raise BadInput(
        f"{where}: the function {name[:60]!r} may not be used.",
        hint=f"{guess}docs/reference/expressions.md lists the allowed functions; register your own in the "
        "file given by --functions.",
        code="not-allowed",
    )


def _is_number_to(argument: list[Word], most: int) -> bool:
    digits = [word.text for word in argument if word.text != "-"]
    return len(argument) <= 2 and len(digits) == 1 and digits[0].isdecimal() and int(digits[0]) <= most


def _check_neighbour(text: str, found: list[Word], place: int, word: Word) -> None:
    """Refuse two values without an operator between them: an alias, ``date '...'``, ``interval 1 day``, ``x '41'``."""
    if not place:
        return
    before = found[place - 1]
    is_value = before.text == ")" or (before.kind in _OPERANDS and before.lower not in KEYWORDS - _VALUES)
    begins = word.kind in _OPERANDS and word.lower not in KEYWORDS - _BEGINNINGS
    is_argued = word.text == "(" and (_is_call(found, place - 1) or _is_type(found, place - 1))
    if is_value and (begins or word.text == "(") and not is_argued:
        raise BadInput(
            f"{quote(text)}: no operator before {word.text[:40]!r}.",
            hint="Put one there, or leave it out.",
            code="bad-expression",
        )
    if before.lower == "as" and word.lower not in TYPES:
        raise BadInput(
            f"{quote(text)}: cannot cast to {word.text[:40]!r}.",
            hint=f"Types: {', '.join(sorted(TYPES))}.",
            code="bad-expression",
        )


def _check_pattern(text: str, after: list[Word]) -> None:
    """Spark turns LIKE into a regular expression: a constant pattern with few wildcards is never slow."""
    plain = bool(after) and after[0].kind == TEXT and after[0].text.count("%") <= _MAX_WILDCARDS
    if plain and (len(after) < 2 or after[1].text in (")", ",") or after[1].lower in _AFTER_PATTERN):
        return
    raise BadInput(
        f"{quote(text)}: the pattern of LIKE must be a quoted text with at most {_MAX_WILDCARDS} %.",
        hint="Use two conditions, or contains, startswith, endswith.",
        code="bad-expression",
    )


def _check_columns(text: str, found: list[Word], tree: exp.Expr) -> None:
    """Both parsers must agree on which words are columns; Spark takes others, such as current_user, for functions."""
    columns = [part.name for column in tree.find_all(exp.Column) for part in column.parts]
    ours = [word for place, word in enumerate(found) if _is_column(found, place)]
    names = [word.text.strip("`") for word in ours]
    if any(len(column.parts) > 2 for column in tree.find_all(exp.Column)) or sorted(columns) != sorted(names):
        odd = sorted({*columns} ^ {*names})
        raise BadInput(
            f"{quote(text)}: {(odd or names or [text])[0][:60]!r} cannot be a column here.",
            hint="Columns are plain names or, in a join, left.name and right.name.",
            code="bad-expression",
        )


def _is_column(found: Sequence[Word], place: int) -> bool:
    word = found[place]
    if word.kind not in (NAME, QUOTED) or word.lower in KEYWORDS or _is_call(found, place):
        return False
    return not _is_type(found, place)
