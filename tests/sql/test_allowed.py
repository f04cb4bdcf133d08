"""An expression is an expression: what Spark is given is made of listed functions, and of nothing else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream._cuboid import declare
from slipstream._cuboid.query.sql import Query
from slipstream._errors import BadArgument, BadInput, SlipstreamError
from slipstream._network import Builder, NetworkStream, Order, ScalarFunction, box_functions, register
from slipstream._network.running.run_folder import pushdown_predicate
from slipstream._network.schemas import check
from slipstream._network.sql import box_expressions
from slipstream._sql.allowed import (
    AGGREGATES,
    FUNCTIONS,
    KEYWORDS,
    bound_growth,
    find_called_functions,
    parse_expression,
)
from slipstream._sql.parsing import MAX_CHARACTERS, MAX_DEPTH, MAX_NESTING, MAX_WORDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTACKS = [
    # code of the JVM
    "reflect('java.lang.System', 'load', '/tmp/x.so')",
    "java_method('java.lang.Runtime', 'getRuntime')",
    "try_reflect('java.lang.System', 'exit', 1) is null",
    "REFLECT('java.lang.System', 'exit', 1)",
    "reflect ('java.lang.System', 'exit', 1)",
    "reflect\t\n('java.lang.System', 'exit', 1)",
    "`reflect`('java.lang.System', 'exit', 1)",
    "` reflect`('java.lang.System', 'exit', 1)",
    "\"reflect\"('java.lang.System', 'exit', 1)",
    "'reflect'('java.lang.System', 'exit', 1)",
    "system.builtin.reflect('java.lang.System', 'exit', 1)",
    "`system`.`builtin`.`reflect`('java.lang.System', 'exit', 1)",
    "builtin . reflect('java.lang.System', 'exit', 1)",
    "IDENTIFIER('reflect')('java.lang.System', 'exit', 1)",
    "identifier('re' || 'flect')('java.lang.System', 'exit', 1)",
    "reflect/**/('java.lang.System', 'exit', 1)",
    "abs(a) /* ' */ + reflect('java.lang.System', 'exit', 1) -- '",
    "a > 3 --\n or reflect('java.lang.System', 'exit', 1)",
    "a > '/*' or reflect('x', '*/')",
    "a = 'x\\' or reflect('java.lang.System', 'exit', 1) = '",
    "a = r'\\' or reflect('java.lang.System', 'exit', 1) = '",
    "a = 'x' 'y'",
    "a = X'41'",
    "x '41'",
    "case when reflect('a', 'b') then 1 end",
    "coalesce(a, concat(reflect('a', 'b'), 'x'))",
    "cast(reflect('a', 'b') as bigint)",
    "a in (1, reflect('a', 'b'))",
    "a between 1 and reflect('a', 'b')",
    "reſlect('a', 'b')",
    "reflect\u00a0('a', 'b')",
    "reflect\u3000('a', 'b')",
    "reflect\u200b('a', 'b')",
    "r\u0435flect('a', 'b')",
    "reflect\uff08'a', 'b'\uff09",
    "\\u0072eflect('a', 'b')",
    "a = '\\u0027 or reflect(1)'",
    "a) or reflect('a', 'b') or (a",
    "a, reflect('a', 'b')",
    "a as b",
    "a as",
    "a as bigint",
    "cast(a as bigint as bigint)",
    "cast(a, bigint)",
    "a is",
    "a case",
    "a b",
    "a::bigint",
    "a:b",
    "a => 3",
    "abs(expr => a)",
    "abs(a).b()",
    "a.abs()",
    ":a",
    "?",
    "${spark.master}",
    "'${env:HOME}'",
    "p = '${system:user.home}'",
    'concat(p, "${spark.app.name}")',
    "{{ a }}",
    "session.x",
    "@@version",
    "a;select 1",
    "a > 1; drop table x",
    "org.apache.spark.sql.catalyst.expressions.Abs(a)",
    "my_java_udf(a)",
    "travelled(a)",
    # who and where we are
    "current_user",
    "current_user()",
    "session_user()",
    "user()",
    "current_database()",
    "current_catalog()",
    "version()",
    "input_file_name()",
    "input_file_block_start()",
    "spark_partition_id()",
    "typeof(a)",
    # not the same twice
    "rand() > 0.5",
    "randn()",
    "random()",
    "uniform(1, 10)",
    "randstr(5)",
    "uuid()",
    "shuffle(array(1, 2))",
    "now()",
    "current_timestamp",
    "current_date()",
    "localtimestamp",
    "curdate()",
    "unix_timestamp()",
    "monotonically_increasing_id()",
    "cast('now' as timestamp)",
    "timestamp 'now'",
    "date'today'",
    "interval 1 day",
    "interval '1' day",
    "hour('now')",
    # effects
    "assert_true(a > 3)",
    "raise_error('x')",
    # readers with options, files, networks, entities
    "from_json(p, 'a int', map('mode', 'FAILFAST'))",
    "from_csv(p, 'a int', map('sep', ','))",
    "schema_of_json('{}')",
    "to_avro(a)",
    "from_avro(p, '{}')",
    "from_protobuf(p, 'A', '/etc/passwd')",
    "from_xml(p, 'a int')",
    "xpath_string('<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><a>&x;</a>', 'a')",
    "parse_url(p, 'HOST')",
    "aes_decrypt(p, 'key')",
    "ai_query('model', p)",
    "http_get('http://127.0.0.1/')",
    # tables and rows of others
    "(select 1)",
    "select 1",
    "with x as (select 1) select * from x",
    "from x",
    "values (1)",
    "table x",
    "a in (select 1)",
    "a in (values 1)",
    "exists(select 1)",
    "exists (from x)",
    "a = any (select 1)",
    "a like any ('x', 'y')",
    "lateral view explode(array(1)) t",
    "explode(array(1, 2))",
    "stack(2, 1, 2)",
    "inline(array(struct(1)))",
    "range(1000000000)",
    "sql_keywords()",
    "sum(a) over (partition by a)",
    "row_number() over (order by a)",
    "lag(a)",
    "sum(a)",
    "count(*)",
    "count(distinct a)",
    "sum(a) filter (where a > 1)",
    "first(a) ignore nulls",
    "grouping_id()",
    "a.*",
    "*",
    "coalesce(*)",
    "hash(*)",
    "struct(*)",
    "*, a",
    "/*+ broadcast(a) */ a",
    # much of little
    "repeat('a', 2000000000)",
    "space(2000000000)",
    "lpad(p, 2000000000, 'x')",
    "rpad(p, a, 'x')",
    "rpad(p, 100 * 100 * 100 * 100, 'x')",
    "array_repeat(1, 2000000000)",
    "sequence(1, 1000000000)",
    "format_string('%2000000000d', a)",
    "printf('%2000000000d', a)",
    "format_number(a, 2000000000)",
    "round(a, 2000000000)",
    "ceil(a, 1000000000)",
    "replace(p, 'a', p)",
    "transform(sequence(1, 100000), x -> x)",
    "aggregate(array(1), 0, (x, y) -> x + y)",
    "filter(array(1), x -> true)",
    "a -> a",
    "a->a",
    "a |> a",
    "a|>a",
    "a =>a",
    "a<<1",
    "a!",
    "rlike(p, '(a+)+$')",
    "p rlike '(a+)+$'",
    "p regexp '(a+)+$'",
    "regexp_replace(p, '(a+)+$', '')",
    "split(p, '(a+)+$')",
    "p like '%a%a%a%a%a%a%b'",
    "p like p",
    "p like '%' || p",
    "p like concat('%', p)",
    "p like 'x' escape '/'",
    "(" * 3000 + "a" + ")" * 3000,
    "(" * 3000,
    "not " * 3000 + "true",
    "-" * 3000 + "a",
    "- " * 3000 + "a",
    "abs(" * 200 + "a" + ")" * 200,
    "case when a > 1 then " * 200 + "1" + " end" * 200,
    "a in (" + ", ".join(map(str, range(100_000))) + ")",
    " + ".join(["a"] * 100_000),
    " + ".join(["a"] * 400),
    " or ".join(["b"] * 400),
    "p = '" + "x" * 1_000_000 + "'",
    "1e" + "9" * 20_000,
    "1e-999999999F",
    "1e999999999",
    "9" * 5000,
    "a" * 1_000_000,
    # no words at all
    "",
    "\x00",
    "a\x00",
    "a = '\x00'",
    "a = '\ud800'",
    "'",
    "`",
    "`a``b`",
    "``",
    "`a.b`",
    "`.*`",
    "a.`b`.c",
    "1a",
    "a.5",
    "0x41",
    "1.5BD",
    "null(a)",
    "end(a)",
    "1(a)",
    "(a)(a)",
    "cast(a as reflect('a', 'b'))",
    "cast(a as array<int>)",
    "cast(a as timestamp)",
    "cast(a as date) = current_date",
    "try_cast(p as interval)",
    "extract(year from a)",
    "trim(both 'x' from p)",
    "substring(p from 1)",
    "struct(a).a",
    "map(1, 2)[1]",
    "array(1)[0]",
    "a[0]",
    "a is distinct from 1",
    "p collate utf8_lcase",
    "a at time zone 'UTC'",
]


@pytest.mark.parametrize("text", ATTACKS, ids=[f"{n} {text[:30]!a}" for n, text in enumerate(ATTACKS)])
def test_an_attack_is_refused_with_advice(text: str) -> None:
    net = Builder("n")
    net.source("s", **SOURCE).map({"x": text}).to("out")
    with pytest.raises(BadInput) as refused:
        check(net.build(), NoSpark())  # type: ignore[arg-type]
    assert "box map_1" in refused.value.message
    assert refused.value.hint
    assert len(refused.value.message) < 1000


def test_the_message_names_the_function_and_what_may_have_been_meant() -> None:
    with pytest.raises(BadInput, match="the function 'Substringg' may not be used") as refused:
        box_expressions.parse("a > 3 and Substringg(p, 1) = 'x'")
    assert "Did you mean 'substring'?" in refused.value.hint


# --- every way in

SOURCE = {"a": "integer", "f": "float", "p": "text", "b": "boolean"}


def ways_in(text: str) -> Iterator[tuple[str, Callable[[NetworkStream, NetworkStream, NetworkStream], NetworkStream]]]:
    """Networks with an expression in each place that takes one."""
    order = Order("a")
    yield "filter", lambda s, t, k: s.filter(f"{text} is null", "a > 3")
    yield "map", lambda s, t, k: s.map({"x": text})
    yield "aggregate", lambda s, t, k: s.aggregate({"n": f"max({text})"}, order, size=1)
    yield "window function", lambda s, t, k: s.aggregate({"n": text}, order, size=1)
    yield "resample", lambda s, t, k: s.resample(t, {"n": f"avg({text})"}, size=1, left=order, right=order)
    yield "join", lambda s, t, k: s.join(t, f"left.a = right.a and {text} = 1", size=1, left=order, right=order)
    yield "look-up", lambda s, t, k: s.join(k, f"left.a = right.a and {text} = 1")
    yield "second box", lambda s, t, k: s.map({"x": "a"}).filter(f"x = {text}")


def refused_everywhere(text: str) -> list[str]:
    """The places that let an expression in; Spark is not even asked."""
    let_in = []
    for place, build in ways_in(text):
        net = Builder("n")
        build(net.source("s", **SOURCE), net.source("t", **SOURCE), net.table("k", **SOURCE)).to("out")
        try:
            check(net.build(), NoSpark())  # type: ignore[arg-type]
        except BadInput:
            continue
        except NoSpark.Asked:
            pass
        let_in.append(place)
    return let_in


class NoSpark:
    """Whoever asks it has let something in."""

    class Asked(Exception):
        """It was asked."""

    def __getattr__(self, name: str) -> Any:
        raise self.Asked


def test_every_way_in_refuses_what_is_not_listed_before_spark_is_asked() -> None:
    assert refused_everywhere("reflect('java.lang.System', 'exit', 1)") == []
    assert refused_everywhere("no_such_function(1)") == []
    assert {"filter", "map", "join", "look-up", "second box"} <= set(refused_everywhere("abs(1)"))


def test_what_the_readers_of_trains_are_asked_is_checked() -> None:
    net = Builder("n")
    net.source("s", **SOURCE).filter("reflect('a', 'b') = 'x'").to("out")
    with pytest.raises(BadInput, match="'reflect' may not be used"):
        pushdown_predicate(net.build(), "s")


def spark_functions(spark: SparkSession) -> set[str]:
    """All that the session knows, but for what other tests registered as their own, and operators."""
    names = {row[0].rpartition(".")[2] for row in spark.sql("SHOW ALL FUNCTIONS").collect()}
    return names - box_functions.scalars() - OPERATORS


#: operators that SHOW FUNCTIONS lists with the functions
_OPERATORS = "! != % & * + - / < << <= <=> <> = == > >= >> >>> ^ | || ~"
OPERATORS = set(_OPERATORS.split())


def test_each_of_sparks_functions_is_listed_or_refused_by_every_way_in(spark: SparkSession) -> None:
    """But for the ones that the aggregate box has, as the window function itself."""
    names = spark_functions(spark)
    assert len(names) > 500
    listed = {name for name in names if name in FUNCTIONS}
    assert listed >= FUNCTIONS - {"try_cast"}, FUNCTIONS - listed
    for name in names - listed - KEYWORDS:
        for text in (f"{name}(a)", f"{name.upper()} ()"):
            let_in = set(refused_everywhere(text))
            assert let_in <= ({"window function"} if name in {*box_functions.SQL_AGGREGATES, "mean"} else set()), (
                name,
                let_in,
            )
    assert (names - listed) & KEYWORDS <= {"and", "between", "case", "div", "ilike", "in", "like", "not", "or", "when"}


def test_each_of_sparks_functions_is_refused_by_streamonas_sql_unless_it_is_one_of_its_own(spark: SparkSession) -> None:
    script = declare.parse("CREATE CUBOID car (vid INT KEY, speed UTINYINT AST(5), pos INT)")
    taken = set()
    for name in spark_functions(spark):
        try:
            Query.parse(f"SELECT {name}(speed) FROM car", script.cuboids)
        except SlipstreamError:
            continue
        taken.add(name)
    assert taken <= {"avg", "min", "max", "count", "last", "corr", "not", "and", "or"}


#: a call of each function that is listed
_EXAMPLES = """
abs(a) acos(f) acosh(f) asin(f) asinh(f) atan(f) atan2(f,f) atanh(f) bround(f,-2) cbrt(f) ceil(f) ceiling(f) cos(f)
cosh(f) cot(f) csc(f) degrees(f) e() exp(f) expm1(f) factorial(3) floor(f) hypot(f,f) ln(f) log(2,f) log10(f)
log1p(f) log2(f) mod(a,3) negative(a) pi() pmod(a,3) positive(a) pow(f,2) power(f,2) radians(f) rint(f) round(f,2)
sec(f) sign(f) signum(f) sin(f) sinh(f) sqrt(f) tan(f) tanh(f) try_add(a,a) try_divide(a,a) try_mod(a,a)
try_multiply(a,a) try_subtract(a,a) width_bucket(f,0,10,5) bit_count(a) bit_get(a,1) getbit(a,1) shiftleft(a,1)
shiftright(a,1) shiftrightunsigned(a,1) isnan(f) isnotnull(a) isnull(a) equal_null(a,1) ascii(p) bit_length(p)
char_length(p) character_length(p) contains(p,'x') endswith(p,'x') find_in_set(p,'x,y') instr(p,'x') length(p)
len(p) locate('x',p) octet_length(p) position('x',p) startswith(p,'x') crc32(p) hash(a,p) xxhash64(a,p)
to_unix_timestamp(p,'yyyy-MM-dd') bin(a) btrim(p) char(a) chr(a) concat(p,p) concat_ws(',',p,p) conv(p,16,10)
from_unixtime(a,'HH') hex(a) initcap(p) lcase(p) left(p,2) lower(p) lpad(p,10,'x') ltrim(p) md5(p)
replace(p,'x','yy') reverse(p) right(p,2) rpad(p,10,'x') rtrim(p) sha(p) sha1(p) sha2(p,256) soundex(p)
split_part(p,',',1) substr(p,1,2) substring(p,1,2) substring_index(p,',',1) translate(p,'x','y') trim(p) ucase(p)
upper(p) coalesce(a,0) greatest(a,0) if(b,a,0) ifnull(a,0) least(a,0) nanvl(f,0.0D) nullif(a,0) nullifzero(a)
nvl(a,0) nvl2(a,1,0) zeroifnull(a)
"""
EXAMPLES = _EXAMPLES.split()
OTHERS = [
    "cast(a as decimal(10, 2))",
    "try_cast(p as double)",
    "a + 1 - 2.5 * .5 / 3e2 % 4L",
    "a div 2 & 3 | 4 ^ ~5",
    "p || 'it''s'",
    "a = 1 and f <> 2 or not b",
    "a == 1 and f != 2 and a <=> 3",
    "a between 1 and 2 and a not in (1, 2, 3)",
    "p like '%x%' or p not like 'B%' or p ilike '_x%'",
    "case when b then 'x' else \"y\" end",
    "case a when 1 then 2 end",
    "a is null or p is not null or b is true",
    "`a` > 3",
    "-a < +3 and not (not b)",
    "'größe' = p",
]


def test_every_listed_function_is_deterministic_to_spark_and_of_a_type_that_a_column_has(spark: SparkSession) -> None:
    assert {name for text in EXAMPLES + OTHERS for name in find_called_functions(text)} == FUNCTIONS
    net = Builder("n")
    net.source("s", **SOURCE).map({f"x{n}": text for n, text in enumerate(EXAMPLES + OTHERS)}).to("out")
    check(net.build(), spark)


def test_sparks_own_word_is_a_second_lock(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Should a text ever pass the list and mean something else to Spark."""
    for text in ("reflect('java.lang.Math', 'random')", "rand()", "uuid()"):
        monkeypatch.setattr("slipstream._sql.allowed.FUNCTIONS", FUNCTIONS | {text.partition("(")[0]})
        net = Builder("n")
        net.source("s", **SOURCE).map({"x": text}).to("out")
        with pytest.raises(BadInput, match="not deterministic"):
            check(net.build(), spark)


def test_no_link_is_written_by_checking_or_running_an_expression(spark: SparkSession, tmp_path: Path) -> None:
    link = tmp_path / "link"
    for name in ("reflect", "java_method", "try_reflect"):
        text = f"{name}('java.nio.file.Files', 'createSymbolicLink', '{link}', '/etc/passwd')"
        net = Builder("n")
        net.source("s", **SOURCE).filter(f"{text} is null").to("out")
        with pytest.raises(BadInput):
            check(net.build(), spark)
    assert not link.is_symlink()


# --- functions of the user's own


def test_a_function_of_ones_own_is_called_by_its_name_in_any_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box_functions, "_scalars", {})
    register(ScalarFunction("Near_School", lambda a: a > 1, "boolean"))
    for text in ("near_school(a)", "NEAR_SCHOOL(a)", "Near_School (a) and abs(a) > 1"):
        assert box_expressions.user_calls(text) == {"near_school"}


@pytest.mark.parametrize("name", ["abs", "ABS", "cast", "in", "sum", "every", "bigint", "a b", "größe", "", "x(1) + y"])
def test_a_function_of_ones_own_takes_no_name_of_sql(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(box_functions, "_scalars", {})
    with pytest.raises(BadArgument):
        register(ScalarFunction(name, lambda a: a, "boolean"))


@pytest.mark.parametrize("name", ["reflect", "Java_Method", "rand", "range"])
def test_a_function_of_ones_own_does_not_open_sparks_of_that_name(
    spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(box_functions, "_scalars", {})
    register(ScalarFunction(name, lambda a: a, "boolean"))
    net = Builder("n")
    net.source("s", **SOURCE).map({"x": f"{name.upper()}(a)"}).to("out")
    with pytest.raises(BadArgument, match="Spark has a function of that name"):
        check(net.build(), spark)


# --- sizes


@pytest.mark.parametrize(
    "text",
    [
        " + ".join(["a"] * (MAX_DEPTH - 1)),
        " or ".join(["b"] * (MAX_DEPTH - 1)),
        "(" * MAX_NESTING + "a" + ")" * MAX_NESTING,
        "a in (" + ", ".join(map(str, range(MAX_WORDS // 2 - 3))) + ")",
        "p = '" + "x" * (MAX_CHARACTERS - 20) + "'",
        "abs(" * MAX_NESTING + "a" + ")" * MAX_NESTING,
        "case when b then a else " * MAX_NESTING + "1" + " end" * MAX_NESTING,
        "- " * MAX_NESTING + "a",
    ],
    ids=["terms", "conditions", "brackets", "list", "text", "calls", "case", "signs"],
)
def test_the_largest_expression_that_is_read_is_one_that_spark_reads(spark: SparkSession, text: str) -> None:
    net = Builder("n")
    net.source("s", **SOURCE).map({"x": text}).to("out")
    check(net.build(), spark)


def test_texts_cannot_grow_from_box_to_box() -> None:
    assert bound_growth("concat(p, p)", SOURCE) == 2
    assert bound_growth("hex(hex(p))", SOURCE) == 4
    assert bound_growth("cast(a as string) || 'x'", SOURCE) < 1
    assert bound_growth("replace(replace(p, 'a', 'aaaaaaaaaa'), 'a', 'aaaaaaaaaa')", SOURCE) == 100
    assert bound_growth("lpad(p, 1000, 'x')", SOURCE) >= 2
    assert bound_growth("length(concat(p, p))", SOURCE) == 0


def test_a_network_whose_texts_double_in_every_box_is_refused(spark: SparkSession) -> None:
    net = Builder("n")
    stream = net.source("s", **SOURCE)
    for _ in range(12):
        stream = stream.map({"p": "concat(p, p)"})
    stream.to("out")
    with pytest.raises(BadInput, match=r"box map_10 \(map\): its texts may be 1,024 times as long"):
        check(net.build(), spark)


# --- two readers of one text

#: what Spark's parser makes of expressions that are let in
_UNRESOLVED = """
UnresolvedAttribute UnresolvedFunction Literal And Or Not EqualTo EqualNullSafe LessThan LessThanOrEqual GreaterThan
GreaterThanOrEqual Add Subtract Multiply Divide IntegralDivide Remainder UnaryMinus UnaryPositive BitwiseAnd
BitwiseOr BitwiseXor BitwiseNot Concat In IsNull IsNotNull Like ILike CaseWhen Cast UnresolvedBetweenExpression
Between Lower TryCast
"""
UNRESOLVED = set(_UNRESOLVED.split())
_VOCABULARY = """
a p `a` left right.a 1 2.5 .5 3L 'x' 'it''s' "x" '%x' null true abs reflect concat ( ) , + - * / % div = <> <=> || |
& ~ and or not in between like is case when then else end cast as bigint select from current_user interval day date
exists identifier struct array over filter distinct x r'x' -- /* */ ; : :: -> => . [ ] ? @ b'' ``
"""
# What Spark's parser makes a function of, though it is written as an operator.
WRITTEN_AS_OPERATORS = {"not", "between"}
VOCABULARY = [*_VOCABULARY.split(), "\\", "ſelect", "\u00a0", "\n"]


def parsed_by_spark(spark: SparkSession, text: str) -> tuple[set[str], set[str]]:
    """The kinds of nodes and the functions that Spark's own parser finds."""
    kinds, names = set(), set()
    todo: list[Any] = [spark._jsparkSession.sessionState().sqlParser().parseExpression(text)]  # type: ignore[attr-defined]
    while todo:
        node = todo.pop()
        kind = str(node.getClass().getSimpleName())
        kinds.add(kind)
        if kind == "UnresolvedFunction":
            names.add(str(node.nameParts().mkString(".")).lower())
        children = node.children()
        todo += [children.apply(n) for n in range(children.size())]
    return kinds, names


@pytest.mark.parametrize("text", EXAMPLES + OTHERS)
def test_spark_reads_what_we_read(spark: SparkSession, text: str) -> None:
    kinds, names = parsed_by_spark(spark, text)
    assert kinds <= UNRESOLVED
    assert names - WRITTEN_AS_OPERATORS == find_called_functions(text) - {"cast", "try_cast"} or {
        "position",
        "substring",
        "substr",
    } & find_called_functions(text)


def sentences() -> st.SearchStrategy[list[str]]:
    """Expressions as lists of words, most of them whole."""
    values = st.sampled_from(["a", "p", "`a`", "1", "2.5", "'x'", "null", "true", "current_user", "reflect"]).map(
        lambda w: [w]
    )

    def larger(inner: st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
        operators = st.sampled_from(["+", "-", "*", "/", "div", "=", "<=>", "||", "|", "and", "or", "is", "like", "in"])
        names = st.sampled_from(["abs", "concat", "reflect", "if", "not", "exists", "", "identifier", "`abs`", "a.abs"])
        return st.one_of(
            st.tuples(inner, operators, inner).map(lambda t: [*t[0], t[1], *t[2]]),
            st.tuples(names, inner, inner).map(lambda t: [t[0], "(", *t[1], ",", *t[2], ")"]),
            st.tuples(names, inner).map(lambda t: [t[0], "(", *t[1], ")"]),
            inner.map(lambda t: ["cast", "(", *t, "as", "bigint", ")"]),
            st.tuples(inner, inner).map(lambda t: ["case", "when", *t[0], "then", *t[1], "end"]),
        )

    return st.recursive(values, larger, max_leaves=5)


@settings(max_examples=1000)
@given(
    parts=sentences(),
    places=st.lists(st.integers(0, 20), max_size=2),
    more=st.lists(st.sampled_from(VOCABULARY), min_size=2, max_size=2),
    glue=st.sampled_from([" ", " ", ""]),
)
def test_whatever_is_let_in_has_no_other_function_to_spark(
    spark: SparkSession, parts: list[str], places: list[int], more: list[str], glue: str
) -> None:
    from pyspark.errors import ParseException

    words = list(parts)
    for place, word in zip(places, more, strict=False):
        words.insert(place, word)
    text = glue.join(words)
    try:
        parse_expression(text)
    except BadInput:
        return
    try:
        kinds, names = parsed_by_spark(spark, text)
    except ParseException:
        return
    assert kinds <= UNRESOLVED
    assert names <= FUNCTIONS | WRITTEN_AS_OPERATORS


def test_spark_puts_no_settings_into_a_text(spark: SparkSession) -> None:
    """It would for ${...}; the characters apart stay what they are."""
    text = "'$' || '{env:HOME}'"
    parse_expression(text)
    assert spark.range(1).selectExpr(f"({text}) as x").head()[0] == "${env:HOME}"  # type: ignore[index]
    with pytest.raises(BadInput, match=r"\$\{ in"):
        parse_expression("'${env:HOME}'")


def test_the_lists_are_apart() -> None:
    assert not FUNCTIONS & (AGGREGATES | KEYWORDS)


def test_the_page_lists_what_is_listed() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "expressions.md").read_text(encoding="utf-8")
    section = page.partition("## What an expression may be made of")[2].partition("All of them")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ") and not line.startswith("| operators")]
    assert {
        name for row in rows for name in re.findall(r"[a-z_0-9]+", row.partition("|")[2].partition("|")[2])
    } == FUNCTIONS
