"""A query that strangers write reads the tables it was given, and does nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream._errors import BadInput
from slipstream._sql.parsing import NAME, split_words
from slipstream._sql.selecting import check_select

TABLES = ["alerts", "trips"]
OWN = ["speed", "travelled", "atinstant"]

GOOD = [
    "SELECT * FROM alerts",
    "select a.vid, count(*) as n, avg(seg) from alerts a where time between 3 and 9 group by a.vid having count(*) > 2",
    "select * from alerts order by time desc nulls last limit 5",
    "with far as (select vid, travelled(Trip) as m from trips) select * from far where m > 1000",
    "select * from alerts join trips using (vid) left join (select vid from alerts) b on alerts.vid = b.vid",
    "select row_number() over (partition by seg order by time rows between 2 preceding and current row) from alerts",
    "select vid from alerts union all select vid from trips",
    "select distinct hour(timestamp_seconds(time)), date_trunc('hour', timestamp_seconds(time)) from alerts",
    "select array_max(Trip.x), size(Trip.x), case when vid in (1, 2) then 'a' else 'b' end from trips",
    "select cast(vid as string) || 'x' from alerts where exists (select 1 from trips where trips.vid = alerts.vid)",
    "select `vid` from `alerts` where vid not in (select vid from trips) and seg is not null and name like 'B%'",
    "select median(seg) from alerts",
    "select count(distinct vid), max_by(vid, time) from alerts",
]
BAD = [
    "",
    "select",
    "select current_user from alerts",
    "drop table alerts",
    "insert into alerts select * from trips",
    "create table x as select * from alerts",
    "select * from alerts; drop table alerts",
    "select * from alerts; select * from trips",
    "set spark.sql.ansi.enabled = false",
    "select * from parquet.`/etc/passwd`",
    "select * from text.`/etc/passwd`",
    "select * from `parquet`.`/etc/passwd`",
    "select * from csv.alerts",
    "select * from default.alerts",
    "select * from spark_catalog.default.alerts",
    "select * from secrets",
    "select * from range(1000000000)",
    "select * from read_files('/etc/passwd')",
    "select * from alerts, lateral (select 1)",
    "select explode(sequence(1, 1000000000)) from alerts",
    "select * from alerts lateral view explode(array(1)) x as y",
    "select reflect('java.lang.System', 'exit', 1) from alerts",
    "select java_method('java.lang.System', 'exit', 1) from alerts",
    "select `reflect`('java.lang.System', 'exit', 1) from alerts",
    "select system.builtin.reflect('java.lang.System', 'exit', 1) from alerts",
    "select input_file_name() from alerts",
    "select input_file_name from alerts, input_file_name()",
    "select current_user() from alerts",
    "select version() from alerts",
    "select repeat('x', 1000000000) from alerts",
    "select space(1000000000) from alerts",
    "select raise_error('x') from alerts",
    "select * from alerts where name rlike '(a+)+b'",
    "select regexp_extract(name, '(a+)+b') from alerts",
    "select from_json(name, 'a int') from alerts",
    "select xpath(name, 'a') from alerts",
    "select transform(Trip.x, v -> v + 1) from trips",
    "select aggregate(Trip.x, 0, (a, b) -> a + b) from trips",
    "select transform(vid) using 'sh' from alerts",
    "from alerts select transform(vid) using 'cat /etc/passwd'",
    "select /*+ repartition(100000) */ * from alerts",
    "select * from alerts tablesample (10 rows)",
    "select * from alerts version as of 1",
    "select * from values (1), (2)",
    "select * from alerts pivot (count(vid) for seg in (1))",
    "select identifier('reflect')('a', 'b') from alerts",
    "select * from identifier('secrets')",
    "describe alerts",
    "show tables",
    "explain select * from alerts",
    "cache table alerts",
    "select * from alerts where name like '%a%b%c%'",
    "select ${x} from alerts",
    "select :x from alerts",
    "select ? from alerts",
    "table secrets",
    "select * from (table secrets)",
    "merge into alerts using trips on true when matched then delete",
    "declare x int",
    "call system.x()",
    "select hive_udf(1) from alerts",
    "select * from alerts where vid = (select count(*) from secrets)",
    "with alerts2 as (select * from secrets) select * from alerts2",
    "(" * 200 + "select 1" + ")" * 200,
    "select " + "1+" * 5000 + "1 from alerts",
]


@pytest.mark.parametrize("text", GOOD)
def test_a_query_over_the_tables_may_be_run(text: str) -> None:
    made = check_select(text, TABLES, OWN)
    assert made.tables <= {*TABLES}
    # it stays what it is when it is read again
    assert check_select(made.sql, TABLES, OWN) == made


@pytest.mark.parametrize("text", BAD)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        check_select(text, TABLES, OWN)


def test_names_can_only_be_names() -> None:
    """What Spark gets has every name in backquotes, so no name can be a function without brackets."""
    for text in ("select vid from alerts", "select a.vid as `x y` from alerts as a"):
        words = split_words(check_select(text, TABLES).sql)
        assert all(word.lower in ("select", "from", "as") for word in words if word.kind == NAME)


@given(
    st.text(max_size=60),
    st.sampled_from(["{}", "select {} from alerts", "select * from {}", "select * from alerts {}"]),
)
def test_no_text_gets_a_table_that_was_not_given(text: str, around: str) -> None:
    try:
        made = check_select(around.format(text), TABLES, OWN)
    except BadInput:
        return
    assert made.tables <= {*TABLES}
    assert check_select(made.sql, TABLES, OWN).tables == made.tables


def test_the_query_of_the_documentation_may_be_run() -> None:
    page = (Path(__file__).parents[1] / "docs" / "how-to" / "console.md").read_text()
    text = page.partition("```sql")[2].partition("\n")[2].partition("```")[0]
    assert check_select(text, TABLES, OWN).tables == {"trips"}
