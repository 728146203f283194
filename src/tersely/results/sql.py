"""SQL over a kept text: each query runs in a `results.sql_worker` process that has access to the text only.

DuckDB is an extra (`tersely[query]`). A process per query costs a quarter of a second. It is needed because some of
DuckDB's functions escape its own limits on memory and time: a process that exceeds them is killed.
"""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import anyio

from tersely.errors import InputError
from tersely.masking.masked import Masked

LONGEST_SQL = 20_000
_STARTING_SECONDS = 10.0
"""Time to start the process and load the text, in addition to the query's own."""

_SECONDS_PER_MEGABYTE = 1.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    seconds: float = 10.0
    memory_mb: int = 512
    rows: int = 500
    answer_bytes: int = 200_000
    cell_characters: int = 2_000


@dataclass(frozen=True, kw_only=True)
class QueryTable:
    """The result of a query."""

    columns: list[tuple[str, str]]
    """Names and types."""

    rows: list[list[Any]]
    more: bool
    """Whether more rows follow."""

    source: str
    """The recognized format, e.g. "CSV, 1,204 rows"; empty if only the lines were queried."""


def is_installed() -> bool:
    return importlib.util.find_spec("duckdb") is not None


async def ask(text: Masked, sql: str, *, offset: int = 0, limits: Limits = Limits()) -> QueryTable:  # noqa: B008  (frozen)
    """Run a SELECT over the table `result` (or `lines`) and return its rows from `offset` on.

    Raises:
        InputError: The text is not a table, the SQL is not valid or not allowed, or the query exceeded a limit. The
            message is meant for a model.
    """
    if not is_installed():
        raise InputError(
            "SQL over results is not installed here: read lines, or search with a pattern. "
            "Operator: pip install 'tersely[query]'"
        )
    if len(sql) > LONGEST_SQL:
        raise InputError(f"The SQL has {len(sql):,} characters; at most {LONGEST_SQL:,} are allowed.")
    request = {
        "sql": sql.replace("\x00", ""),
        "offset": max(0, offset),
        "seconds": limits.seconds,
        "memory_mb": limits.memory_mb,
        "rows": limits.rows,
        "answer_bytes": limits.answer_bytes,
        "cell_characters": limits.cell_characters,
    }
    payload = json.dumps(request).encode() + b"\n" + text.encode("utf-8", "replace")
    deadline = _STARTING_SECONDS + limits.seconds + _SECONDS_PER_MEGABYTE * len(payload) / 2**20
    done: subprocess.CompletedProcess[bytes] | None = None
    try:
        with anyio.move_on_after(deadline) as timeout:
            # Leaving the block kills the process. Of our environment it gets only the import path, to find DuckDB.
            done = await anyio.run_process(
                [sys.executable, "-P", "-X", "utf8", "-m", "tersely.results.sql_worker"],
                input=payload,
                stderr=subprocess.DEVNULL,
                check=False,
                env={"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
    except* anyio.BrokenResourceError:
        pass  # The process ended before it had read its input; there is no answer.
    if timeout.cancelled_caught:
        raise InputError(
            f"The query took longer than {limits.seconds:g} s and was stopped. Filter or aggregate earlier."
        )
    try:
        answer = json.loads(done.stdout if done else b"")
    except ValueError:
        raise InputError(
            f"The query ended without an answer, most likely because it needed more than {limits.memory_mb} MB and "
            "was stopped. Filter or aggregate earlier."
        ) from None
    if "refused" in answer:
        raise InputError(answer["refused"])
    columns = [(name, kind) for name, kind in answer["columns"]]
    return QueryTable(columns=columns, rows=answer["rows"], more=answer["more"], source=answer["source"])
