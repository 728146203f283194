"""SQL over texts: every form a tool writes tables in, and nothing but the text within reach."""

import json
from pathlib import Path

import anyio
import pytest

from tersely.errors import InputError
from tersely.masking.masked import assume_masked
from tersely.results import sql as sql_over_results
from tersely.results.rows import rows_of
from tersely.results.sql import Limits, QueryTable, ask

pytestmark = pytest.mark.process

CSV = 'id,name,score\n1,"A, B",2.5\n2,C,3\n3,,\n'
PODS = """\
NAME      READY  STATUS            RESTARTS   AGE
web-1     1/1    Running           0          3d
web-22    0/1    CrashLoopBackOff  12         3d
db-0      1/1    Running           1          40d
"""


async def query(text: str, sql: str, **limits: float) -> QueryTable:
    return await ask(assume_masked(text), sql, limits=Limits(**limits))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "form", "columns", "first"),
    [
        (CSV, "CSV", ["id BIGINT", "name VARCHAR", "score DOUBLE"], [1, "A, B", 2.5]),
        ("a;b\n1;x\n2;y\n", "CSV with semicolons", ["a BIGINT", "b VARCHAR"], [1, "x"]),
        ("a\tb\n1\tx\n2\t\n", "tab-separated", ["a BIGINT", "b VARCHAR"], [1, "x"]),
        ("1,2\n3,4\n", "CSV", ["c1 BIGINT", "c2 BIGINT"], [1, 2]),
        ("| a | b |\n|---|:-:|\n| 1 | x |\n| 2 | y |\n", "a drawn table", ["a BIGINT", "b VARCHAR"], [1, "x"]),
        (
            "+---+---+\n| a | b |\n+---+---+\n| 1 | x |\n+---+---+\n",
            "a drawn table",
            ["a BIGINT", "b VARCHAR"],
            [1, "x"],
        ),
        (
            PODS,
            "aligned columns",
            ["NAME VARCHAR", "READY VARCHAR", "STATUS VARCHAR", "RESTARTS BIGINT", "AGE VARCHAR"],
            ["web-1", "1/1", "Running", 0, "3d"],
        ),
        (
            "PID USER TIME CMD\n1 root 2.5 init\n77 me 0 sh -c x\n200 root 1.2 cron\n",
            "aligned columns",
            ["PID BIGINT", "USER VARCHAR", "TIME DOUBLE", "CMD VARCHAR"],
            [1, "root", 2.5, "init"],
        ),
        (
            '[{"a": 1, "b": {"c": 2}}, {"a": null, "d": true}]',
            "a JSON list",
            ["a BIGINT", "b JSON", "d BOOLEAN"],
            [1, {"c": 2}, None],
        ),
        (
            '{"kind": "List", "items": [{"a": 1.5}, {"a": 2}]}',
            "the list at $.items of a JSON document",
            ["a DOUBLE"],
            [1.5],
        ),
        ('{"x": {"n": 1}, "y": {"n": 2}}', "a JSON object, one row per key", ["key VARCHAR", "n BIGINT"], ["x", 1]),
        ('{"one": "row", "n": 1}', "a JSON document, as one row", ["one VARCHAR", "n BIGINT"], ["row", 1]),
        ('{"a": 1}\n{"a": "x"}\n', "JSON lines", ["a VARCHAR"], ["1"]),
        ('[["h", "i"], ["x", 1]]', "a JSON list", ["h VARCHAR", "i BIGINT"], ["x", 1]),
        ("[1, 2, 3]", "a JSON list", ["value BIGINT"], [1]),
        ('[{"Name": 1, "name": 2}]', "a JSON list", ["Name BIGINT", "name_2 BIGINT"], [1, 2]),
        ('[{"a": NaN}, {"a": 1}]', "a JSON list", ["a BIGINT"], [None]),
    ],
)
def test_rows_are_found_in_every_form(text: str, form: str, columns: list[str], first: list[object]) -> None:
    rows = rows_of(text)
    assert rows is not None
    assert (rows.form, [f"{column.name} {column.type}" for column in rows.columns], rows.values[0]) == (
        form,
        columns,
        first,
    )


@pytest.mark.parametrize(
    "text", ["", "one line", "Just prose, that is.\nAnd more of it, as it goes on.\nThe end.\n", "{", "[[["]
)
def test_what_is_no_table_has_no_rows(text: str) -> None:
    assert rows_of(text) is None


async def test_a_question_is_answered_with_names_types_and_rows() -> None:
    table = await query(PODS, "SELECT NAME, RESTARTS FROM result WHERE RESTARTS > 0 ORDER BY RESTARTS DESC; -- please")
    assert table.columns == [("NAME", "VARCHAR"), ("RESTARTS", "BIGINT")]
    assert table.rows == [["web-22", 12], ["db-0", 1]] and not table.more and table.source == "aligned columns, 3 rows"


async def test_nested_values_are_json() -> None:
    pods = json.dumps(
        {"items": [{"metadata": {"name": f"web-{n}", "labels": {"odd": bool(n % 2)}}, "n": n} for n in range(1000)]}
    )
    table = await query(
        pods, "SELECT count(*) c, max(metadata->>'$.name') m FROM result WHERE (metadata->'$.labels.odd')::BOOLEAN"
    )
    assert table.rows == [[500, "web-999"]]


async def test_awkward_values_come_out_as_words() -> None:
    sql = (
        "SELECT [1, 2] l, {'a': 1} s, 1.5::DECIMAL(5, 2) d, 'inf'::DOUBLE i, '2026-01-01T00:00:00Z'::TIMESTAMPTZ t, "
        "NULL n, 1 x, 2 x"
    )
    assert (await query(CSV, sql)).rows == [["[1, 2]", "{'a': 1}", "1.50", "inf", "2026-01-01 00:00:00+00", None, 1, 2]]


async def test_half_characters_nuls_and_numbers_beyond_all_bounds_do_no_harm() -> None:
    text = (
        '[{"a": "\\ud800", "b": "x\\u0000y", "c": 1'
        + "0" * 30
        + ', "d": 1e400}, {"a": "é", "b": "", "c": 1, "d": null}]'
    )
    assert len((await query(text, "SELECT * FROM result")).rows) == 2


async def test_any_text_can_be_asked_by_its_lines() -> None:
    assert (await query("to be\nor not\nto be\n", "SELECT number FROM lines WHERE line LIKE 'to%'")).rows == [[1], [3]]
    with pytest.raises(InputError, match=r"not a table.*`lines`"):
        await query("to be\nor not\n", "SELECT * FROM result")


async def test_answers_are_bounded_and_go_on_at_an_offset() -> None:
    numbers = json.dumps([{"n": n} for n in range(1000)])
    table = await ask(assume_masked(numbers), "SELECT n FROM result ORDER BY n", offset=990, limits=Limits(rows=6))
    assert [row[0] for row in table.rows] == [990, 991, 992, 993, 994, 995] and table.more
    assert not (
        await ask(assume_masked(numbers), "SELECT n FROM result ORDER BY n", offset=996, limits=Limits(rows=6))
    ).more
    wide = await query(numbers, "SELECT repeat('x', 50) || n FROM result", answer_bytes=1000)
    assert 10 < len(wide.rows) < 30 and wide.more
    assert (await query(numbers, "SELECT repeat('x', 5000) LIMIT 1", cell_characters=10)).rows == [
        ["x" * 10 + "… (5,000 characters)"]
    ]


async def test_a_wrong_column_is_answered_with_the_right_ones() -> None:
    with pytest.raises(
        InputError, match=r"(?s)\"nam\" not found.*Table result has: id BIGINT; name VARCHAR; score DOUBLE"
    ):
        await query(CSV, "SELECT nam FROM result")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM read_blob('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM sniff_csv('{file}')",
        "SELECT * FROM query('SELECT * FROM read_text(''{file}'')')",
        "SELECT * FROM read_json_auto('http://127.0.0.1:9/x')",
        "SELECT * FROM text",
        "SELECT * FROM request",
        "ATTACH '{folder}/new.db'",
        "COPY result TO '{folder}/out.csv'",
        "COPY (SELECT 1) TO '{folder}/out.csv'",
        "EXPORT DATABASE '{folder}/out'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '100GB'",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "PRAGMA database_list",
        "CREATE TABLE x AS SELECT 1",
        "DELETE FROM result",
        "CALL pragma_version()",
        "SELECT 1; COPY result TO '{folder}/out.csv'",
        "EXPLAIN ANALYZE SELECT 1",
        "CREATE SECRET s (TYPE http)",
        "",
        "-- nothing",
    ],
)
async def test_nothing_but_the_text_can_be_reached(sql: str, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("canary,of\nthe,file\n")
    with pytest.raises(InputError) as refused:
        await query(CSV, sql.format(file=tmp_path / "secret.txt", folder=tmp_path))
    assert "canary" not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]


@pytest.mark.parametrize(
    "sql", ["DELETE FROM result", "SELECT 1; SELECT 2", "SET threads = 8", "PRAGMA version", "EXPLAIN SELECT 1"]
)
async def test_anything_but_a_single_select_is_refused_with_the_reason(sql: str) -> None:
    with pytest.raises(InputError, match="Only one SELECT"):
        await query(CSV, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM range(100000) a, range(100000000) b",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT sum(n) FROM t",
        "SELECT regexp_matches(repeat('a', 1000000) || 'b', '(a?){1000}c')",
    ],
)
async def test_what_takes_too_long_is_stopped(sql: str) -> None:
    with anyio.fail_after(300), pytest.raises(InputError, match=r"longer than 0.5 s and was stopped"):
        await query(CSV, sql, seconds=0.5)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT length(repeat('x', 2000000000))",
        "SELECT list(a.range) FROM range(100000000) a",
        (
            "SELECT count(*) FROM (SELECT DISTINCT a.range || 'some more words to fill the memory' FROM "
            "range(100000000) "
            "a)"
        ),
    ],
)
async def test_what_needs_too_much_memory_is_stopped(sql: str) -> None:
    """The first escapes DuckDB's own limit: without ours it takes four gigabytes."""
    with anyio.fail_after(300), pytest.raises(InputError, match="more than 128 MB and was stopped"):
        await query(CSV, sql, memory_mb=128, seconds=30)


async def test_a_process_that_dies_at_once_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "false")
    with pytest.raises(InputError, match="ended without an answer"):
        await query("x,y\n" * 1_000_000, "SELECT 1")


async def test_without_the_extra_the_answer_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_over_results, "is_installed", lambda: False)
    with pytest.raises(InputError, match=r"search with a pattern.*pip install 'tersely\[query\]'"):
        await query(CSV, "SELECT 1")
