"""A whole SELECT that strangers may write: read-only, over named tables, made of listed functions and nothing else.

Spark never gets the text itself. It is parsed, every node of the tree must be of a known kind, and the tree is written
as SQL again with every name in backquotes. So the words that remain bare are keywords and functions, and each of them
must be on a list: a parser that reads the text differently than Spark cannot let anything through.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp, parse

from slipstream._errors import BadInput
from slipstream._sql.allowed import AGGREGATES, DIALECT, FUNCTIONS, KEYWORDS, TYPES, refuse_function
from slipstream._sql.parsing import NAME, QUOTED, UNREADABLE, check_depth, quote, split_words, suggest

_HINT = "docs/how-to/console.md#ask has what a query may use."

#: functions beside those of expressions: over groups, windows, arrays and times
MORE_FUNCTIONS = frozenset(
    [
        "approx_count_distinct",
        "any_value",
        "bool_and",
        "bool_or",
        "count_if",
        "corr",
        "covar_pop",
        "covar_samp",
        "kurtosis",
        "max_by",
        "median",
        "min_by",
        "mode",
        "percentile",
        "percentile_approx",
        "skewness",
        "stddev_pop",
        "stddev_samp",
        "var_pop",
        "var_samp",
        "variance",
        "cume_dist",
        "dense_rank",
        "first_value",
        "lag",
        "last_value",
        "lead",
        "ntile",
        "percent_rank",
        "rank",
        "row_number",
        "array_contains",
        "array_max",
        "array_min",
        "array_position",
        "cardinality",
        "element_at",
        "size",
        "date",
        "date_add",
        "date_diff",
        "date_sub",
        "date_trunc",
        "datediff",
        "day",
        "dayofmonth",
        "dayofweek",
        "dayofyear",
        "hour",
        "last_day",
        "minute",
        "month",
        "quarter",
        "second",
        "timestamp",
        "timestamp_micros",
        "timestamp_millis",
        "timestamp_seconds",
        "to_date",
        "to_timestamp",
        "trunc",
        "unix_date",
        "unix_micros",
        "unix_millis",
        "unix_seconds",
        "unix_timestamp",
        "weekday",
        "weekofyear",
        "year",
    ]
)
_STRUCTURE = frozenset(
    [
        "all",
        "anti",
        "any",
        "asc",
        "by",
        "cross",
        "current",
        "date",
        "day",
        "desc",
        "distinct",
        "escape",
        "except",
        "exists",
        "fetch",
        "first",
        "following",
        "from",
        "full",
        "group",
        "having",
        "hour",
        "inner",
        "intersect",
        "interval",
        "join",
        "last",
        "left",
        "limit",
        "minute",
        "month",
        "natural",
        "nulls",
        "offset",
        "on",
        "order",
        "outer",
        "over",
        "partition",
        "preceding",
        "range",
        "right",
        "row",
        "rows",
        "second",
        "select",
        "semi",
        "set",
        "table",
        "timestamp",
        "unbounded",
        "union",
        "using",
        "week",
        "where",
        "with",
        "year",
    ]
)
#: words before a bracket that is no call
_OPENING = frozenset(
    [
        "all",
        "and",
        "any",
        "as",
        "between",
        "by",
        "case",
        "distinct",
        "else",
        "except",
        "exists",
        "from",
        "group",
        "having",
        "in",
        "intersect",
        "is",
        "join",
        "like",
        "limit",
        "not",
        "on",
        "or",
        "order",
        "over",
        "select",
        "then",
        "union",
        "using",
        "values",
        "when",
        "where",
        "with",
    ]
)
_NODES: tuple[type[exp.Expr], ...] = (
    *(exp.Select, exp.From, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Offset),
    *(exp.Distinct, exp.Alias, exp.Table, exp.TableAlias, exp.Subquery, exp.CTE, exp.With, exp.Join, exp.Star),
    *(exp.Union, exp.Intersect, exp.Except, exp.Window, exp.WindowSpec, exp.Interval, exp.Exists, exp.Tuple),
    *(exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Var, exp.Dot),
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.GT, exp.GTE),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.DPipe),
    *(exp.Between, exp.In, exp.Is, exp.Like, exp.ILike, exp.DataType, exp.DataTypeParam, exp.Func),
)


@dataclass(frozen=True)
class CheckedQuery:
    """A query that may be run: the SQL for Spark, and the tables that it reads."""

    sql: str
    tables: frozenset[str]


def check_select(text: str, tables: Collection[str], own: Collection[str] = ()) -> CheckedQuery:
    """Check a SELECT over ``tables``; ``own`` are functions that the session has besides Spark's.

    >>> check_select("select vid, count(*) as n from alerts group by vid order by n desc", ["alerts"]).sql
    'SELECT `vid`, COUNT(*) AS `n` FROM `alerts` GROUP BY `vid` ORDER BY `n` DESC'
    >>> check_select("select * from parquet.`/etc/passwd`", ["alerts"])
    Traceback (most recent call last):
        ...
    slipstream._errors.BadInput: No table 'parquet./etc/passwd'.
    It has: alerts.
    """
    split_words(text)  # limits its size
    tree = _parse(text)
    check_depth(text, tree)
    for node in tree.walk():
        if not isinstance(node, _NODES):
            raise BadInput(
                f"{node.key.upper()} may not be used in a query.", hint=f"It is read-only: {_HINT}", code="not-allowed"
            )
    used = frozenset(_find_tables(tree, tables))
    sql = tree.sql(dialect=DIALECT, identify=True, comments=False)
    _check_words(sql, own)
    return CheckedQuery(sql, used)


def _parse(text: str) -> exp.Expr:
    try:
        found = [tree for tree in parse(text, dialect=DIALECT) if tree is not None]
    except UNREADABLE as error:
        said = str(error).splitlines() or ["Write a SELECT."]
        raise BadInput("Not an SQL query.", hint=said[0], code="bad-expression") from error
    is_empty = any(not select.expressions for tree in found for select in tree.find_all(exp.Select))
    if len(found) != 1 or not isinstance(found[0], exp.Query) or is_empty:
        raise BadInput("A query is one SELECT.", hint=_HINT, code="not-allowed")
    return found[0]


def _find_tables(tree: exp.Expr, tables: Collection[str]) -> set[str]:
    """Return the tables of a query; refuse any but those given and those that WITH defines."""
    defined = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    known, used = {name.lower(): name for name in tables}, set[str]()
    for table in tree.find_all(exp.Table):
        is_plain = isinstance(table.this, exp.Identifier) and not table.args.get("db") and not table.args.get("catalog")
        name = table.name.lower() if is_plain else ""
        if name in known:
            used.add(known[name])
        elif name not in defined:
            shown = ".".join(part.name for part in table.parts) or table.name
            there = ", ".join(sorted(tables)) or "none yet"
            raise BadInput(
                f"No table {shown[:80]!r}.", hint=f"{suggest(shown, tables)}It has: {there}.", code="unknown-name"
            )
    return used


def _check_words(sql: str, own: Collection[str]) -> None:
    functions = FUNCTIONS | AGGREGATES | MORE_FUNCTIONS | {name.lower() for name in own}
    bare = functions | KEYWORDS | _STRUCTURE | TYPES | {"true", "false", "null"}
    found = split_words(sql)
    for place, word in enumerate(found):
        is_call = place + 1 < len(found) and found[place + 1].text == "("
        if word.kind == QUOTED and is_call and found[place - 1].lower not in ("as", "join", "from"):
            raise BadInput(f"{quote(word.text)} is called.", hint=_HINT, code="not-allowed")
        if word.kind != NAME:
            continue
        if is_call and word.lower not in _OPENING and word.lower not in functions | TYPES:
            refuse_function("The query", word.text, own)
        if word.lower not in bare:
            raise BadInput(f"{word.text[:60]!r} may not be used in a query.", hint=_HINT, code="not-allowed")
        if word.lower in ("like", "ilike") and "%" in (pattern := found[place + 1].text) and pattern.count("%") > 2:
            raise BadInput("LIKE takes at most two %.", hint="Use contains or startswith.", code="bad-expression")
