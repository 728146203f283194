"""Runs one SQL query over one text, in a separate process that can be killed and has no access to anything else.

Started by `results.sql` as a program: a request on stdin, an answer on stdout,
nothing inherited. DuckDB cannot use files, network or extensions, and its
settings are locked before the query runs. The operating system limits memory as
well, because some functions escape DuckDB's own limit and ignore its interrupt.

Imports only DuckDB, the standard library and `results.rows`, because it starts for every query.
"""

import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import duckdb

from tersely.results.rows import RowColumn, rows_of

_BATCH_BYTES = 2 * 2**20
_PLAIN = {"BIGINT", "INTEGER", "SMALLINT", "TINYINT", "UBIGINT", "UINTEGER", "HUGEINT", "DOUBLE", "FLOAT", "BOOLEAN"}
_LOCKED = (
    "SET threads = 1",
    "SET temp_directory = ''",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET allow_persistent_secrets = false",
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
)


class QueryRefused(Exception):
    """The query cannot be run; the message tells the caller what to change."""


def answer(request: dict[str, Any], text: str) -> dict[str, Any]:
    database = duckdb.connect(":memory:", config={"memory_limit": f"{request['memory_mb']}MB"})
    for setting in _LOCKED:
        database.execute(setting)
    sql = _one_select(database, request["sql"])
    source, columns = _load(database, text, with_lines="lines" in sql.lower())
    database.execute("SET lock_configuration = true")
    _limit_memory(request["memory_mb"])
    too_long = (
        f"The query took longer than {request['seconds']:g} s and was stopped. Filter earlier, or avoid cross joins."
    )
    for seconds, stop in ((request["seconds"], database.interrupt), (request["seconds"] + 1, lambda: _end(too_long))):
        timer = threading.Timer(seconds, stop)
        timer.daemon = True
        timer.start()
    try:
        return {"source": source, **_ask(database, sql, request)}
    except duckdb.InterruptException:
        raise QueryRefused(too_long) from None
    except (duckdb.OutOfMemoryException, MemoryError):
        raise QueryRefused(
            f"The query needed more than {request['memory_mb']} MB and was stopped. Filter or aggregate earlier."
        ) from None
    except duckdb.Error as problem:
        raise QueryRefused(f"{_first_lines(problem)}\n{columns}".strip()) from None


def _load(database: duckdb.DuckDBPyConnection, text: str, *, with_lines: bool) -> tuple[str, str]:
    """Create the tables `result` and `lines`; returns the recognized format and a description of the columns."""
    rows = rows_of(text)
    if rows is None and not with_lines:
        raise QueryRefused(
            "This result is not a table: neither JSON, JSON lines, CSV nor aligned columns. Query the table `lines` "
            "(number, line) instead, or search with a pattern."
        )
    try:
        if with_lines:
            lines = text.removesuffix("\n").split("\n") if text else []
            _insert(
                database,
                "lines",
                [RowColumn("number", "BIGINT"), RowColumn("line", "VARCHAR")],
                map(list, enumerate(lines, 1)),
            )
        if rows is None:
            return "", "Table lines has: number BIGINT; line VARCHAR"
        _insert(database, "result", rows.columns, rows.values)
    except duckdb.Error as problem:
        raise QueryRefused(
            f"This result could not be read as {rows.form if rows else 'lines'}: {_first_lines(problem)}"
        ) from None
    known = "; ".join(f"{column.name} {column.type}" for column in rows.columns[:60])
    return f"{rows.form}, {len(rows.values):,} rows", f"Table result has: {known}"


def _one_select(database: duckdb.DuckDBPyConnection, sql: str) -> str:
    try:
        statements = database.extract_statements(sql)
    except duckdb.Error as problem:
        raise QueryRefused(_first_lines(problem)) from None
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise QueryRefused(
            "Only one SELECT (or WITH, DESCRIBE, SUMMARIZE) is allowed; no statement that changes, loads, attaches or "
            "sets anything."
        )
    # Remove the semicolon and comments after it, because the statement is put in parentheses.
    end = len(sql)
    for start, kind in reversed(duckdb.tokenize(sql)):
        if kind != duckdb.token_type.comment and sql.encode()[start:end].strip() != b";":
            break
        end = start
    return sql.encode()[:end].decode()


def _insert(
    database: duckdb.DuckDBPyConnection, table: str, columns: list[RowColumn], values: Iterable[list[Any]]
) -> None:
    declared = ", ".join(f'"{_quoted(column.name)}" {column.type}' for column in columns)
    database.execute(f"CREATE TABLE {table} ({declared})")
    shape = json.dumps([{f"c{at}": column.type for at, column in enumerate(columns)}])
    # As JSON and in batches, because inserting row by row takes a hundred times as long.
    for batch in _batches(values):
        database.execute(f"INSERT INTO {table} SELECT unnest(from_json(?, '{shape}'), max_depth := 2)", [batch])


def _batches(values: Iterable[list[Any]]) -> Iterator[str]:
    pending: list[str] = []
    size = 0
    for row in values:
        # A missing value is NULL. A lone surrogate, valid in JSON but not in DuckDB, becomes a question mark.
        cells = {f"c{at}": cell for at, cell in enumerate(row) if cell is not None}
        line = json.dumps(cells, ensure_ascii=False).encode("utf-8", "replace").decode()
        pending.append(line)
        size += len(line)
        if size > _BATCH_BYTES:
            yield f"[{','.join(pending)}]"
            pending, size = [], 0
    if pending:
        yield f"[{','.join(pending)}]"


def _ask(database: duckdb.DuckDBPyConnection, sql: str, request: dict[str, Any]) -> dict[str, Any]:
    described = database.execute(
        f"DESCRIBE {sql}" if sql[:8].lower() != "describe" else f"DESCRIBE SELECT * FROM ({sql}\n)"
    ).fetchall()
    names = [f"c{at}" for at in range(len(described))]
    # Types without a JSON equivalent are converted to text by DuckDB.
    shown = ", ".join(
        name if row[1] in _PLAIN else f"{name}::VARCHAR" for name, row in zip(names, described, strict=True)
    )
    cursor = database.execute(
        f"SELECT {shown} FROM ({sql}\n) AS asked({', '.join(names)}) LIMIT {int(request['rows']) + 1} OFFSET "
        f"{int(request['offset'])}"
    )
    rows: list[list[Any]] = []
    size = 0
    more = False
    while row := cursor.fetchone():
        cells = [_cell(value, request["cell_characters"]) for value in row]
        size += sum(len(str(cell)) + 3 for cell in cells)
        if len(rows) == request["rows"] or (rows and size > request["answer_bytes"]):
            more = True
            break
        rows.append(cells)
    return {"columns": [[row[0], row[1]] for row in described], "rows": rows, "more": more}


def _cell(value: Any, longest: int) -> Any:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, str) and len(value) > longest:
        return f"{value[:longest]}… ({len(value):,} characters)"
    return value


def _first_lines(problem: Exception) -> str:
    """The first lines of DuckDB's message, without the DESCRIBE that we added and with the caret moved accordingly."""
    lines = str(problem).strip().split("\n")[:6]
    for at, line in enumerate(lines):
        if line.startswith("LINE 1: DESCRIBE "):
            lines[at] = line.replace("DESCRIBE ", "", 1)
            lines[at + 1 : at + 2] = [after.replace(" " * len("DESCRIBE "), "", 1) for after in lines[at + 1 : at + 2]]
    return "\n".join(lines)[:1500]


def _end(message: str) -> NoReturn:
    """Answer and end the process, because some functions ignore the interrupt."""
    _write({"refused": message})
    os._exit(0)


def _write(reply: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(reply))
    sys.stdout.flush()


def _quoted(name: str) -> str:
    return name.replace('"', '""')


def _limit_memory(megabytes: int) -> None:
    try:
        import resource
    except ImportError:  # Windows: only DuckDB's own limit applies.
        return
    try:
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        now = 2**31
    resource.setrlimit(resource.RLIMIT_AS, (now + (megabytes + 128) * 2**20,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    request = json.loads(sys.stdin.buffer.readline())
    text = sys.stdin.buffer.read().decode()
    try:
        reply = answer(request, text)
    except QueryRefused as problem:
        reply = {"refused": str(problem)}
    _write(reply)


if __name__ == "__main__":
    main()
